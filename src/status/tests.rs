use std::collections::BTreeMap;

use super::*;
use crate::api::{Phase, reason};
use crate::observed::{Key, ReleaseSeen};
use crate::plan::{Action, Decision, Wait, Why};

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const LATER: Timestamp = Timestamp::constant(1_800_000_100, 0);

fn plan(steps: &[(&str, Step)]) -> Plan {
    let decision = |step: &Step| Decision { key: Key::new("openstack", "x"), step: step.clone(), sweep: None };
    let decisions: BTreeMap<_, _> = steps.iter().map(|(name, step)| ((*name).to_owned(), decision(step))).collect();
    Plan { decisions, hash: "abc".into(), wake: None }
}

fn reported(
    previous: Option<&OpenStackDeploymentStatus>,
    plan: &Plan,
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    let spec = OpenStackDeploymentSpec { openstack_release: "2026.1".into(), ..Default::default() };
    let mut observed = Observed::default();
    let seen = ReleaseSeen { status: "deployed".into(), revision: 1, ..ReleaseSeen::default() };
    observed.releases.insert(Key::new("openstack", "x"), seen);
    let inputs = Report {
        spec: &spec,
        generation: 2,
        helm: "4.3".into(),
        desired: &Desired::default(),
        observed: &observed,
        plan,
        findings: &[],
        changes: &BTreeMap::new(),
        problems: &[],
        not_the_one: None,
        deleting: None,
    };
    report(previous, &inputs, now)
}

fn condition<'a>(status: &'a OpenStackDeploymentStatus, name: &str) -> (&'a str, &'a str) {
    let found = status.conditions.iter().find(|condition| condition.type_ == name).unwrap();
    (&found.status, &found.reason)
}

#[test]
fn each_situation_has_one_truth() {
    let backoff = Wait::Backoff { until: NOW, count: 1, message: "boom".into() };
    for (step, phase, ready, reconciling, stalled) in [
        (Step::Ready, Phase::Ready, reason::READY, "False", "False"),
        (Step::Do(Action::Recover, Why::Install), Phase::Installing, reason::RELEASES, "True", "False"),
        (Step::Wait(Wait::Approval(Why::Catalog)), Phase::AwaitingApproval, reason::APPROVAL, "False", "False"),
        (Step::Wait(backoff), Phase::Failed, reason::FAILED, "True", "False"),
        (Step::Wait(Wait::Unmanaged), Phase::Failed, reason::FOREIGN, "False", "True"),
        (Step::Settle(vec!["a".into(), "b".into()]), Phase::Updating, reason::WORKLOADS, "True", "False"),
    ] {
        let (status, _) = reported(None, &plan(&[("front", step)]), NOW);
        assert_eq!((status.phase, condition(&status, "Ready").1), (Some(phase), ready));
        assert_eq!(
            (condition(&status, "Reconciling").0, condition(&status, "Stalled").0),
            (reconciling, stalled),
            "{ready}"
        );
    }
}

#[test]
fn a_record_near_its_limit_is_warned_of_and_one_below_is_not() {
    let limit = crate::release::RECORD_LIMIT;
    assert_eq!(super::children::size_warning(limit * 69 / 100), None);
    let warning = super::children::size_warning(limit * 71 / 100).unwrap();
    assert!(warning.starts_with("its helm record fills 70 % of the 1 MiB"), "{warning}");
}

#[test]
fn a_foreign_revision_says_what_was_done_and_when() {
    let said =
        |description: &str, since| Wait::Foreign { revision: 4, description: description.into(), since }.to_string();
    let rollback = said("Rollback to 1", Some(NOW));
    let expected =
        format!("revision 4 was not made by osdpl (helm: \"Rollback to 1\" by hand at {NOW:.0}); change the spec");
    assert!(rollback.starts_with(&expected), "{rollback}");
    assert!(said("", None).contains("(helm upgrade or rollback by hand)"));
}

#[test]
fn nothing_changes_when_nothing_changed_and_events_are_said_once() {
    let (first, events) = reported(None, &plan(&[("front", Step::Ready)]), NOW);
    let reasons: Vec<_> = events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["Deployed", "Ready"]);
    let (second, events) = reported(Some(&first), &plan(&[("front", Step::Ready)]), LATER);
    assert_eq!((first, Vec::<Event>::new()), (second, events));
}

#[test]
fn a_transition_has_its_time_and_the_deployed_release_stays() {
    let (first, _) = reported(None, &plan(&[("front", Step::Ready)]), NOW);
    let (second, _) = reported(Some(&first), &plan(&[("front", Step::Settle(vec!["x".into()]))]), LATER);
    let ready = second.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.last_transition_time.0, LATER);
    assert_eq!(second.openstack_release.deployed.as_deref(), Some("2026.1"));
    let other = OpenStackDeploymentSpec { openstack_release: "2025.2".into(), ..Default::default() };
    let refused = release_change(Some(&second), &other).unwrap().to_string();
    assert!(
        refused.starts_with("spec.openstackRelease: 2026.1 is deployed and can't be changed to 2025.2 yet"),
        "{refused}"
    );
}
