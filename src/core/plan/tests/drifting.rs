//! Handling of drifted objects.

use k8s_openapi::jiff::SignedDuration;

use super::super::{Mending, in_a_row};
use crate::api::DriftPolicy;
use crate::drift::{Change, Drifted, Id, KINDS};
use crate::observed::{DriftSeen, Key, Repaired};
use crate::testing::world::*;

const AGAIN: &str = "delete Jobs store-setup, helm upgrade --install, because ";

/// A release in sync with an object that was deleted at this revision.
fn drifted(revision: i64, policy: DriftPolicy) -> World {
    let id = Id { kind: &KINDS[0], namespace: "openstack".into(), name: "agent".into() };
    let found = DriftSeen { revision, objects: vec![Drifted { id, change: Change::Deleted }] };
    world().see("store", seen("deployed")).with(|world| {
        world.observed.drift = std::sync::Arc::new([(Key::new("openstack", "store"), found)].into());
        world.desired.releases.get_mut("store").unwrap().drift = policy;
    })
}

fn repaired(count: u32, seconds_ago: i64) -> Repaired {
    Repaired { count, at: NOW.checked_sub(SignedDuration::from_secs(seconds_ago)).unwrap() }
}

impl World {
    fn with_repair_request(self, name: &str) -> Self {
        self.with(|world| world.policy.repair.extend([name.to_owned()]))
    }

    fn mending(&self) -> Option<Mending> {
        self.plan().decisions["store"].mending
    }
}

#[test]
fn handles_drift_by_policy_and_request() {
    use DriftPolicy::{Ignore, Repair, Report};
    let by_spec = format!("{AGAIN}its objects were changed outside of helm");
    let by_person = format!("{AGAIN}a repair was requested");
    let paused = |world: World| world.with(|world| world.policy.paused = true);
    let terminating = |world: World| world.with(|world| world.observed.terminating.extend(["openstack".to_owned()]));
    for (what, world, step, mending) in [
        ("report", drifted(3, Report), "ready", Some(Mending::Told)),
        ("repair", drifted(3, Repair), by_spec.as_str(), Some(Mending::Now)),
        ("ignore", drifted(3, Ignore), "ready", None),
        ("of an older revision", drifted(2, Repair), "ready", None),
        ("requested", drifted(3, Report).with_repair_request("store"), by_person.as_str(), Some(Mending::Now)),
        ("requested for all", drifted(3, Report).with_repair_request("all"), by_person.as_str(), Some(Mending::Now)),
        ("requested for all but ignored", drifted(3, Ignore).with_repair_request("all"), "ready", None),
        (
            "requested for another release",
            drifted(3, Report).with_repair_request("front"),
            "ready",
            Some(Mending::Told),
        ),
        ("paused", paused(drifted(3, Repair)), "ready", Some(Mending::Held)),
        ("in a terminating namespace", terminating(drifted(3, Repair)), "ready", Some(Mending::Held)),
    ] {
        assert_eq!((world.describe_step("store").as_str(), world.mending()), (step, mending), "{what}");
    }
}

#[test]
fn repeated_drift_is_repaired_with_backoff() {
    let fought = |count, seconds_ago| {
        drifted(3, DriftPolicy::Repair).with(|world| {
            world.observed.repairs.insert(Key::new("openstack", "store"), repaired(count, seconds_ago));
        })
    };
    let world = fought(1, 60);
    assert_eq!(world.describe_step("store"), "ready");
    let Some(Mending::Fought { count: 1, until }) = world.mending() else { panic!("{:?}", world.mending()) };
    assert_eq!(world.plan().wake, Some(until), "no watch reports the end of the backoff");
    assert!(matches!(world.with_repair_request("store").mending(), Some(Mending::Now)));
    assert_eq!(fought(1, 200).mending(), Some(Mending::Now));
    assert!(matches!(fought(2, 200).mending(), Some(Mending::Fought { count: 2, .. })));
    assert!(matches!(fought(9, 3000).mending(), Some(Mending::Fought { count: 9, .. })));
    assert_eq!(fought(9, 4600).mending(), Some(Mending::Now), "the delay is bounded");
    let counted = [None, Some(repaired(1, 600)), Some(repaired(4, 7000)), Some(repaired(4, 7300))];
    assert_eq!(counted.map(|known| in_a_row(known.as_ref(), NOW)), [1, 2, 5, 1]);
}
