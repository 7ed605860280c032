//! Tests of how osdpl reports and repairs drift.

use k8s_openapi::jiff::SignedDuration;

use super::super::{DriftAction, count_repairs};
use crate::api::DriftPolicy;
use crate::drift::{Change, DriftedObject, KINDS, ObjectId};
use crate::observed::{ObservedDrift, ReleaseKey, Repaired};
use crate::release::Status;
use crate::testing::*;

const AGAIN: &str = "delete Jobs store-setup, helm upgrade --install, because ";

/// Returns a cloud whose release `store` has the desired inputs and one drifted object: someone deleted the object
/// after helm had made the revision `revision`.
fn drifted(revision: i64, policy: DriftPolicy) -> Fixture {
    let id = ObjectId { kind: &KINDS[0], namespace: "openstack".into(), name: "agent".into() };
    let found = ObservedDrift { revision, objects: vec![DriftedObject { id, change: Change::Deleted }] };
    fixture().with_release("store", observed_release(Status::Deployed)).with(|fixture| {
        fixture.observed.drift = std::sync::Arc::new([(ReleaseKey::new("openstack", "store"), found)].into());
        fixture.desired.releases.get_mut("store").unwrap().drift = policy;
    })
}

fn repaired(count: u32, seconds_ago: i64) -> Repaired {
    Repaired { count, last_started_at: NOW.checked_sub(SignedDuration::from_secs(seconds_ago)).unwrap() }
}

impl Fixture {
    fn with_repair_request(self, name: &str) -> Self {
        self.with(|fixture| fixture.policy.repair.extend([name.to_owned()]))
    }

    fn drift_action(&self) -> Option<DriftAction> {
        self.plan().decisions["store"].drift_action
    }
}

#[test]
fn handles_drift_by_policy_and_request() {
    use DriftPolicy::{Ignore, Repair, Report};
    let by_spec = format!("{AGAIN}its objects were changed outside of helm");
    let by_person = format!("{AGAIN}a repair was requested");
    let paused = |fixture: Fixture| fixture.with(|fixture| fixture.policy.paused = true);
    let terminating =
        |fixture: Fixture| fixture.with(|fixture| fixture.observed.terminating.extend(["openstack".to_owned()]));
    for (what, fixture, step, drift_action) in [
        ("the spec says Report", drifted(3, Report), "ready", Some(DriftAction::Reported)),
        ("the spec says Repair", drifted(3, Repair), by_spec.as_str(), Some(DriftAction::Now)),
        ("the spec says Ignore", drifted(3, Ignore), "ready", None),
        ("the drift was found for an older revision", drifted(2, Repair), "ready", None),
        (
            "a person requested the repair of this release",
            drifted(3, Report).with_repair_request("store"),
            by_person.as_str(),
            Some(DriftAction::Now),
        ),
        (
            "a person requested the repair of all releases",
            drifted(3, Report).with_repair_request("all"),
            by_person.as_str(),
            Some(DriftAction::Now),
        ),
        (
            "a person requested the repair of all releases, but the spec says Ignore",
            drifted(3, Ignore).with_repair_request("all"),
            "ready",
            None,
        ),
        (
            "a person requested the repair of another release",
            drifted(3, Report).with_repair_request("front"),
            "ready",
            Some(DriftAction::Reported),
        ),
        ("the cloud is paused", paused(drifted(3, Repair)), "ready", Some(DriftAction::Paused)),
        (
            "the namespace of the release is being deleted",
            terminating(drifted(3, Repair)),
            "ready",
            Some(DriftAction::Paused),
        ),
    ] {
        assert_eq!((fixture.describe_step("store").as_str(), fixture.drift_action()), (step, drift_action), "{what}");
    }
}

#[test]
fn repeated_drift_is_repaired_with_backoff() {
    let fought = |count, seconds_ago| {
        drifted(3, DriftPolicy::Repair).with(|fixture| {
            fixture.observed.repairs.insert(ReleaseKey::new("openstack", "store"), repaired(count, seconds_ago));
        })
    };
    let fixture = fought(1, 60);
    assert_eq!(fixture.describe_step("store"), "ready");
    let Some(DriftAction::Backoff { count: 1, until }) = fixture.drift_action() else {
        panic!("{:?}", fixture.drift_action())
    };
    assert_eq!(
        fixture.plan().requeue_at,
        Some(until),
        "the plan contains the end of the backoff, because no watch reports this time"
    );
    assert!(matches!(fixture.with_repair_request("store").drift_action(), Some(DriftAction::Now)));
    assert_eq!(fought(1, 200).drift_action(), Some(DriftAction::Now));
    assert!(matches!(fought(2, 200).drift_action(), Some(DriftAction::Backoff { count: 2, .. })));
    assert!(matches!(fought(9, 3000).drift_action(), Some(DriftAction::Backoff { count: 9, .. })));
    assert_eq!(
        fought(9, 4600).drift_action(),
        Some(DriftAction::Now),
        "after any number of repairs, the next repair starts after at most the longest delay"
    );
    let counted = [None, Some(repaired(1, 600)), Some(repaired(4, 7000)), Some(repaired(4, 7300))];
    assert_eq!(counted.map(|known| count_repairs(known.as_ref(), NOW)), [1, 2, 5, 1]);
}
