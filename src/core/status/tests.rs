mod doubts;
mod leaving;

use std::collections::BTreeMap;

use k8s_openapi::jiff::SignedDuration;

use super::*;
use crate::api::{Phase, reason};
use crate::catalog::Level;
use crate::observed::{ObservedRelease, ReleaseKey};
use crate::plan::{Action, Decision, Reason, Wait};
use crate::release::{Status, Verb};

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const LATER: Timestamp = Timestamp::constant(1_800_000_100, 0);

fn plan(steps: &[(&str, Step)]) -> Plan {
    let decision = |step: &Step| Decision {
        key: ReleaseKey::new("openstack", "x"),
        step: step.clone(),
        cleanup: None,
        drift_action: None,
    };
    let decisions: BTreeMap<_, _> = steps.iter().map(|(name, step)| ((*name).to_owned(), decision(step))).collect();
    Plan { decisions, hash: "abc".into(), ..Plan::default() }
}

fn reported(
    previous: Option<&OpenStackDeploymentStatus>,
    plan: &Plan,
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    let spec = OpenStackDeploymentSpec { openstack_release: "2026.1".into(), ..Default::default() };
    reported_of(previous, plan, &spec, &recorded(Status::Deployed), &[], now)
}

#[test]
fn keeps_the_approved_target_only_while_every_change_needs_approval() {
    let spec = |approval| OpenStackDeploymentSpec { approval, ..Default::default() };
    let target = |previous: Option<&OpenStackDeploymentStatus>, approval, approved| {
        let plan = Plan { approved, ..plan(&[("x", Step::Ready)]) };
        reported_of(previous, &plan, &spec(approval), &recorded(Status::Deployed), &[], NOW).0.approved_target
    };
    let before = OpenStackDeploymentStatus { approved_target: Some("old".into()), ..Default::default() };
    assert_eq!(target(Some(&before), Some(Approval::Always), true).as_deref(), Some("abc"));
    assert_eq!(target(Some(&before), Some(Approval::Always), false).as_deref(), Some("old"));
    assert_eq!(target(Some(&before), None, true), None);
}

/// Returns a cluster with one record of the release `x`. The record has the given status.
fn recorded(status: Status) -> Observed {
    let mut observed = Observed::default();
    let record = ObservedRelease { status, revision: 1, ..ObservedRelease::default() };
    observed.releases.insert(ReleaseKey::new("openstack", "x"), record);
    observed
}

fn reported_of(
    previous: Option<&OpenStackDeploymentStatus>,
    plan: &Plan,
    spec: &OpenStackDeploymentSpec,
    observed: &Observed,
    findings: &[Finding],
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    reported_while(None, previous, plan, spec, observed, findings, now)
}

/// Returns the status and events that a pass reports. `deleting` describes the work that is left before the
/// `OpenStackDeployment` can be deleted; `None` if it is not being deleted.
fn reported_while(
    deleting: Option<&str>,
    previous: Option<&OpenStackDeploymentStatus>,
    plan: &Plan,
    spec: &OpenStackDeploymentSpec,
    observed: &Observed,
    findings: &[Finding],
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    let desired = Desired::default();
    let inputs = Report {
        helm: "4.3".into(),
        names: &[(ReleaseKey::new("openstack", "x"), "front".to_owned())].into(),
        findings,
        deleting: deleting.map(str::to_owned),
        ..Report::new(spec, 2, &desired, observed, plan)
    };
    report(previous, &inputs, now)
}

fn condition<'a>(status: &'a OpenStackDeploymentStatus, name: &str) -> (&'a str, &'a str) {
    let found = status.conditions.iter().find(|condition| condition.type_ == name).unwrap();
    (&found.status, &found.reason)
}

#[test]
fn maps_steps_to_phase_and_conditions() {
    let backoff = Wait::Backoff { until: NOW, count: 1, message: "boom".into() };
    for (step, phase, ready, reconciling, stalled) in [
        (Step::Ready, Phase::Ready, reason::READY, "False", "False"),
        (Step::Do(Action::Unlock, Reason::Install), Phase::Installing, reason::RELEASES, "True", "False"),
        (Step::Wait(Wait::Approval(Reason::Catalog)), Phase::AwaitingApproval, reason::APPROVAL, "False", "False"),
        (Step::Wait(backoff), Phase::Failed, reason::FAILED, "True", "False"),
        (Step::Wait(Wait::Unmanaged(None)), Phase::Failed, reason::FOREIGN, "False", "True"),
        (Step::Settling(vec!["a".into(), "b".into()]), Phase::Updating, reason::WORKLOADS, "True", "False"),
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
fn groups_releases_that_wait_for_approval_by_change() {
    let wait = |why| Step::Wait(Wait::Approval(why));
    let steps = [("a", wait(Reason::Spec)), ("b", wait(Reason::NotDesired)), ("c", wait(Reason::Spec))];
    let (status, _) = reported(None, &plan(&steps), NOW);
    let expected = "b would be uninstalled because it is no longer desired; a, c would be upgraded because its inputs \
                    changed; see `osdpl plan`";
    assert!(status.message.starts_with(expected), "{}", status.message);
}

#[test]
fn warns_of_records_near_the_size_limit() {
    let limit = crate::release::RECORD_LIMIT;
    assert_eq!(super::children::size_warning(limit * 69 / 100), None);
    let warning = super::children::size_warning(limit * 71 / 100).unwrap();
    assert!(warning.starts_with("its helm record fills 70 % of the 1 MiB"), "{warning}");
}

#[test]
fn foreign_revision_names_operation_and_time() {
    let message =
        |description: &str, since| Wait::Foreign { revision: 4, description: description.into(), since }.to_string();
    let rollback = message("Rollback to 1", Some(NOW));
    let expected = format!(
        "osdpl did not make revision 4 (helm: \"Rollback to 1\" by hand at {NOW:.0}); to overwrite it, change the spec"
    );
    assert!(rollback.starts_with(&expected), "{rollback}");
    assert!(message("", None).contains("(helm upgrade or rollback by hand)"));
}

#[test]
fn equal_inputs_give_equal_status_and_no_events() {
    let (first, events) = reported(None, &plan(&[("front", Step::Ready)]), NOW);
    let reasons: Vec<_> = events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["Deployed", "Ready"]);
    let (second, events) = reported(Some(&first), &plan(&[("front", Step::Ready)]), LATER);
    assert_eq!((first, Vec::<Event>::new()), (second, events));
}

#[test]
fn keeps_deployed_release_on_transitions() {
    let (first, _) = reported(None, &plan(&[("front", Step::Ready)]), NOW);
    let (second, _) = reported(Some(&first), &plan(&[("front", Step::Settling(vec!["x".into()]))]), LATER);
    let ready = second.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.last_transition_time.0, LATER);
    assert_eq!(second.openstack_release.deployed.as_deref(), Some("2026.1"));
}

fn event_reasons(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.reason).collect()
}

fn spec() -> OpenStackDeploymentSpec {
    OpenStackDeploymentSpec { openstack_release: "2026.1".into(), ..Default::default() }
}

fn helm(verb: Verb) -> Plan {
    plan(&[("front", Step::Wait(Wait::Helm { verb, queued: false, hook: None }))])
}

#[test]
fn reports_start_of_fast_and_slow_installs_once() {
    let (starting, _) = reported_of(None, &helm(Verb::Upgrade), &spec(), &Observed::default(), &[], NOW);
    let (_, events) = reported(Some(&starting), &plan(&[("front", Step::Ready)]), NOW);
    assert_eq!(event_reasons(&events), ["Installing", "Deployed", "Ready"]);
    let (pending, events) =
        reported_of(Some(&starting), &helm(Verb::Upgrade), &spec(), &recorded(Status::PendingInstall), &[], NOW);
    assert_eq!(event_reasons(&events), ["Installing"]);
    let (_, events) = reported(Some(&pending), &plan(&[("front", Step::Ready)]), NOW);
    assert_eq!(event_reasons(&events), ["Deployed", "Ready"]);
}

#[test]
fn reports_failures_but_not_requested_stops() {
    let (pending, _) = reported_of(None, &helm(Verb::Upgrade), &spec(), &recorded(Status::PendingInstall), &[], NOW);
    let (_, events) = reported_of(Some(&pending), &helm(Verb::Uninstall), &spec(), &recorded(Status::Failed), &[], NOW);
    assert_eq!(event_reasons(&events), [""; 0]);
    let mut observed = recorded(Status::Failed);
    let failure = crate::observed::Failed {
        verb: Verb::Upgrade,
        inputs: "new".into(),
        at: NOW,
        count: 1,
        message: "boom".into(),
        fix: crate::observed::RetryCondition::Time,
        is_reported: false,
    };
    observed.failures.insert(ReleaseKey::new("openstack", "x"), failure);
    let wait = |until| plan(&[("front", Step::Wait(Wait::Backoff { until, count: 1, message: "boom".into() }))]);
    let (failed, events) = reported_of(Some(&pending), &wait(NOW), &spec(), &observed, &[], NOW);
    let notes: Vec<_> = events.iter().map(|event| (event.reason, event.note.as_str())).collect();
    assert_eq!(notes[0], ("Failed", "release front failed, revision 1: boom"));
    assert_eq!(event_reasons(&events), ["Failed", "ReleaseFailed"]);
    assert_eq!(events[0].failure(), Some("front"));
    observed.failures.values_mut().for_each(|failure| failure.is_reported = true);
    // If the user requests a repair, the backoff ends earlier, and the message contains the new time. But the message
    // still reports the same failure, so osdpl creates no second event.
    for until in [NOW, LATER] {
        assert_eq!(event_reasons(&reported_of(Some(&failed), &wait(until), &spec(), &observed, &[], NOW).1), [""; 0]);
    }
}

#[test]
fn reports_loss_of_ready_and_of_pause() {
    let settling = plan(&[("front", Step::Settling(vec!["x".into()]))]);
    let (ready, _) = reported(None, &plan(&[("front", Step::Ready)]), NOW);
    let (lost, events) = reported(Some(&ready), &settling, NOW);
    assert_eq!(event_reasons(&events), ["WorkloadsNotReady"]);
    assert_eq!(event_reasons(&reported(Some(&lost), &settling, NOW).1), [""; 0]);
    let paused = OpenStackDeploymentSpec { paused: true, ..spec() };
    let held = plan(&[("front", Step::Wait(Wait::Paused))]);
    let (paused_status, events) = reported_of(Some(&ready), &held, &paused, &recorded(Status::Failed), &[], NOW);
    assert_eq!(event_reasons(&events), ["Paused"]);
    assert_eq!(condition(&paused_status, "Degraded"), ("True", reason::FAILED));
    let message = &paused_status.conditions.iter().find(|condition| condition.type_ == "Paused").unwrap().message;
    assert_eq!(message, "osdpl does not start helm; waiting releases: front; set spec.paused to false to resume");
    let resumed = reported_of(Some(&paused_status), &settling, &spec(), &recorded(Status::Failed), &[], NOW);
    assert_eq!(event_reasons(&resumed.1), ["Resumed"]);
}

#[test]
fn reports_warning_once_and_keeps_it_in_ready() {
    let warning = Finding::new(Level::Warning, "spec.a", "spec.a is without effect");
    let long = plan(&[("front", Step::Settling(vec!["word ".repeat(100)]))]);
    let observed = recorded(Status::Deployed);
    let (first, events) = reported_of(None, &long, &spec(), &observed, std::slice::from_ref(&warning), NOW);
    assert_eq!(event_reasons(&events), ["Deployed", "SpecWarning"]);
    assert_eq!(events[1].note, "spec.a is without effect");
    let ready = &first.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap().message;
    assert!(ready.len() > 500 && ready.ends_with("; warning: spec.a is without effect"), "{ready}");
    assert!(first.message.chars().count() <= 200 && first.message.ends_with("word…"), "{}", first.message);
    let (_, events) = reported_of(Some(&first), &long, &spec(), &observed, &[warning], NOW);
    assert_eq!(event_reasons(&events), [""; 0]);
}

#[test]
fn reports_limited_warnings_once() {
    let warning = |number: usize| {
        let field = format!("spec.a[{number}]");
        Finding::new(Level::Warning, field.clone(), format!("{field} is without effect"))
    };
    let warnings: Vec<Finding> = (0..11).map(warning).collect();
    let plan = plan(&[("front", Step::Ready)]);
    let report = |before: Option<&_>, findings: &[Finding]| {
        let (status, events) = reported_of(before, &plan, &spec(), &recorded(Status::Deployed), findings, NOW);
        (status, events.iter().filter(|event| event.reason == "SpecWarning").count())
    };
    let (first, events) = report(None, &warnings);
    assert_eq!(events, 10);
    assert_eq!(report(Some(&first), &warnings).1, 0, "warnings that Ready already contains cause no event");
    assert_eq!(
        report(Some(&first), &warnings[1..]).1,
        1,
        "the last warning gets its event once it fits into the message"
    );
    let of_one_field = warnings[..2].iter().map(|finding| finding.clone().at_field("spec.a"));
    let of_one_field: Vec<_> = of_one_field.collect();
    let (_, events) = reported_of(None, &plan, &spec(), &recorded(Status::Deployed), &of_one_field, NOW);
    let notes: Vec<_> = events.iter().filter(|event| event.reason == "SpecWarning").map(|event| &event.note).collect();
    assert_eq!(notes, ["spec.a[0] is without effect; spec.a[1] is without effect"]);
}

#[test]
fn failed_pass_clears_ready_until_the_next_success() {
    let all_ready = plan(&[("front", Step::Ready)]);
    let (ready, _) = reported(None, &all_ready, NOW);
    let why = "listing external services: services is forbidden";
    let (failed, events) = failing_status(Some(&ready), 3, why, LATER);
    assert_eq!(condition(&failed, "Ready"), ("False", "ReconcileError"));
    assert_eq!(condition(&failed, "Reconciling"), ("True", "ReconcileError"));
    assert_eq!(
        condition(&failed, "Stalled"),
        ("False", "AsExpected"),
        "Stalled stays false, because the next pass may succeed"
    );
    let suffix = "the rest of this status is outdated until a pass succeeds (osdpl retries every few seconds)";
    assert_eq!(failed.message, format!("{why}; {suffix}"));
    assert_eq!((failed.observed_generation, &failed.children), (ready.observed_generation, &ready.children));
    assert!(events.len() == 1 && events[0].warning && events[0].note.starts_with(why), "{events:?}");
    let (repeated, events) =
        failing_status(Some(&failed), 3, why, LATER.checked_add(SignedDuration::from_secs(3)).unwrap());
    assert_eq!(
        (repeated, events),
        (failed.clone(), Vec::new()),
        "the same failure again changes no status and causes no event"
    );
    let (well, _) = reported(Some(&failed), &all_ready, LATER);
    assert_eq!(condition(&well, "Ready"), ("True", "Ready"));
}

#[test]
fn known_warnings_are_not_repeated_after_failures() {
    let warning = |at: usize| Finding::new(Level::Warning, "spec.a", format!("spec.a[{at}] is without effect"));
    let (warnings, all_ready) = ([warning(0), warning(1)], plan(&[("front", Step::Ready)]));
    let report =
        |before: Option<&_>| reported_of(before, &all_ready, &spec(), &recorded(Status::Deployed), &warnings, NOW);
    let (ready, _) = report(None);
    let (failed, _) = failing_status(Some(&ready), 2, "no answer; warning: it is late", NOW);
    let (failed, _) = failing_status(Some(&failed), 2, "no answer yet", LATER);
    let message = &failed.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap().message;
    let tail = "; warning: spec.a[0] is without effect; warning: spec.a[1] is without effect";
    assert!(message.starts_with("no answer yet; ") && message.ends_with(&format!(" few seconds){tail}")), "{message}");
    assert!(!failed.message.contains("warning"), "{}", failed.message);
    let (_, events) = report(Some(&failed));
    assert_eq!(event_reasons(&events), ["Ready"]);
}
