//! What is done about objects that others changed.

use k8s_openapi::jiff::SignedDuration;

use super::super::{Mending, in_a_row};
use crate::api::DriftPolicy;
use crate::drift::{Change, Drifted, Id, KINDS};
use crate::observed::{DriftSeen, Key, Repaired};
use crate::testing::world::*;

const AGAIN: &str = "delete Jobs store-setup, helm upgrade --install, because ";

/// A release in sync of which an object is gone, at this revision.
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
    fn asked(self, name: &str) -> Self {
        self.with(|world| world.policy.repair.extend([name.to_owned()]))
    }

    fn mending(&self) -> Option<Mending> {
        self.plan().decisions["store"].mending
    }
}

#[test]
fn drift_is_told_repaired_or_ignored_as_the_spec_says_and_a_person_is_heard() {
    use DriftPolicy::{Ignore, Repair, Report};
    let by_spec = format!("{AGAIN}its objects were changed beside helm");
    let by_person = format!("{AGAIN}repair was asked for");
    let paused = |world: World| world.with(|world| world.policy.paused = true);
    let terminating = |world: World| world.with(|world| world.observed.terminating.extend(["openstack".to_owned()]));
    for (what, world, step, mending) in [
        ("report", drifted(3, Report), "ready", Some(Mending::Told)),
        ("repair", drifted(3, Repair), by_spec.as_str(), Some(Mending::Now)),
        ("ignore", drifted(3, Ignore), "ready", None),
        ("of a revision that is over", drifted(2, Repair), "ready", None),
        ("asked for", drifted(3, Report).asked("store"), by_person.as_str(), Some(Mending::Now)),
        ("asked for all", drifted(3, Report).asked("all"), by_person.as_str(), Some(Mending::Now)),
        ("asked for all of what is ignored", drifted(3, Ignore).asked("all"), "ready", None),
        ("asked for another", drifted(3, Report).asked("front"), "ready", Some(Mending::Told)),
        ("paused", paused(drifted(3, Repair)), "ready", Some(Mending::Held)),
        ("in a namespace that goes", terminating(drifted(3, Repair)), "ready", Some(Mending::Held)),
    ] {
        assert_eq!((world.says("store").as_str(), world.mending()), (step, mending), "{what}");
    }
}

#[test]
fn whoever_does_it_again_is_answered_ever_more_seldom_but_a_person_at_once() {
    let fought = |count, seconds_ago| {
        drifted(3, DriftPolicy::Repair).with(|world| {
            world.observed.repairs.insert(Key::new("openstack", "store"), repaired(count, seconds_ago));
        })
    };
    let world = fought(1, 60);
    assert_eq!(world.says("store"), "ready");
    let Some(Mending::Fought { count: 1, until }) = world.mending() else { panic!("{:?}", world.mending()) };
    assert_eq!(world.plan().wake, Some(until), "nothing else tells when it is time");
    assert!(matches!(world.asked("store").mending(), Some(Mending::Now)));
    assert_eq!(fought(1, 200).mending(), Some(Mending::Now));
    assert!(matches!(fought(2, 200).mending(), Some(Mending::Fought { count: 2, .. })));
    assert!(matches!(fought(9, 3000).mending(), Some(Mending::Fought { count: 9, .. })));
    assert_eq!(fought(9, 4600).mending(), Some(Mending::Now), "seldom, but not never");
    let counted = [None, Some(repaired(1, 600)), Some(repaired(4, 7000)), Some(repaired(4, 7300))];
    assert_eq!(counted.map(|known| in_a_row(known.as_ref(), NOW)), [1, 2, 5, 1]);
}
