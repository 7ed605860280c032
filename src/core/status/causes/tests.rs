use std::collections::BTreeSet;

use super::*;
use crate::api::{CauseObject, OpenStackDeploymentSpec};
use crate::desired::Desired;
use crate::observed::{Key, Observed};
use crate::plan::{Decision, Plan, Step};

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const LATER: Timestamp = Timestamp::constant(1_800_000_100, 0);

fn cause(message: &str, release: &str, stuck: bool, victims: usize) -> Cause {
    Cause {
        message: message.into(),
        objects: vec![CauseObject { kind: "Pod".into(), namespace: "n".into(), name: "p".into() }],
        stuck,
        told: true,
        releases: BTreeSet::from([Key::new("n", release)]),
        victims: (0..victims).map(|number| format!("app/{number}")).collect(),
    }
}

fn with<T>(causes: Vec<Cause>, look: impl FnOnce(&Report<'_>) -> T) -> T {
    let decision = Decision { key: Key::new("n", "ours"), step: Step::Ready, sweep: None, mending: None };
    let plan = Plan { decisions: [("ours".to_owned(), decision)].into(), ..Plan::default() };
    let (spec, desired) = (OpenStackDeploymentSpec::default(), Desired::default());
    let observed = Observed { causes, ..Observed::default() };
    look(&Report::new(&spec, 1, (&desired, &observed), &plan))
}

#[test]
fn a_cause_keeps_its_time_and_those_of_other_clouds_are_left_out() {
    let seen = vec![cause("ours/a: broken", "ours", true, 0), cause("theirs/a: broken", "theirs", true, 0)];
    let first = with(seen.clone(), |report| causes(&[], report, NOW));
    assert_eq!(first.iter().map(|cause| cause.message.as_str()).collect::<Vec<_>>(), ["ours/a: broken"]);
    assert_eq!(with(seen, |report| causes(&first, report, LATER)), first);
}

#[test]
fn causes_and_victims_are_bounded() {
    let many = (0..30).map(|number| cause(&format!("ours/{number}: broken"), "ours", true, 25)).collect();
    let told = with(many, |report| causes(&[], report, NOW));
    assert_eq!((told.len(), told[0].victims.len()), (20, 21));
    assert_eq!(told[0].victims[20], "and 5 more");
}

#[test]
fn a_condition_begins_with_the_first_cause_and_says_nothing_twice() {
    let led = |causes, message: &str, grave| with(causes, |report| led(message.to_owned(), report, grave));
    let broken = || vec![cause("db/server: db-0: no image", "ours", true, 4)];
    let line = "db/server: db-0: no image (app/0, app/1, app/2, and 1 more waiting)";
    assert_eq!(led(broken(), "helm is at web", true), format!("{line}; helm is at web"));
    assert_eq!(led(broken(), "db: db-0: no image", true), line);
    let waiting = || vec![cause("db/server: db-0: it starts", "ours", false, 0)];
    assert_eq!(led(waiting(), "boom", true), "boom");
    assert_eq!(led(waiting(), "helm is at web", false), "db/server: db-0: it starts; helm is at web");
}
