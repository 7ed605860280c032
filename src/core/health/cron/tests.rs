use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

const EARLY: &str = "2026-11-21T00:00:00Z";
const LATE: &str = "2026-11-21T12:00:00Z";

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn observed(metadata: Value, spec: Value, status: Value) -> Option<ObservedCronJob> {
    observe(&read(metadata), &read(spec), &read(status))
}

fn rotate(spec: Value, status: Value) -> ObservedCronJob {
    observed(json!({"name": "rotate", "annotations": {release::RELEASE_NAME_ANNOTATION: "keystone"}}), spec, status)
        .unwrap()
}

#[test]
fn takes_release_and_component_from_object_or_pods() {
    let labels = json!({RELEASE_GROUP: "nova", "application": "nova", "component": "cell-setup"});
    let pods = json!({"jobTemplate": {"spec": {"template": {"metadata": {"labels": labels}}}}});
    let annotated = json!({"name": "c", "annotations": {release::RELEASE_NAME_ANNOTATION: "keystone"}});
    for (metadata, spec, expected) in [
        (json!({"name": "c", "labels": labels}), json!({}), Some("nova nova/cell-setup")),
        // nova-cell-setup and most CronJobs of upstream.
        (json!({"name": "c"}), pods.clone(), Some("nova nova/cell-setup")),
        (annotated.clone(), pods, Some("keystone nova/cell-setup")),
        (annotated, json!({}), Some("keystone keystone/c")),
        (json!({"name": "c"}), json!({}), None),
    ] {
        let found = observed(metadata.clone(), spec, json!({})).map(|cron| format!("{} {}", cron.release, cron.component));
        assert_eq!(found.as_deref(), expected, "{metadata}");
    }
}

fn run_of(made: &str, status: Value) -> Run {
    let owner =
        json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "rotate", "uid": "u", "controller": true}]);
    let metadata = json!({"name": "r", "creationTimestamp": made, "ownerReferences": owner});
    run(&read(metadata), &read(status)).unwrap()
}

#[test]
fn last_run_is_the_newest_finished_one() {
    let ended = |kind: &str, at: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": at}]});
    let (early, late) = (run_of(EARLY, ended("Complete", EARLY)), run_of(LATE, ended("Failed", LATE)));
    let going = run_of("2026-11-21T13:00:00Z", json!({"active": 1}));
    let at = |time: &str| time.parse::<Timestamp>().ok();
    let failed = FinishedRun { job: "b".into(), at: at(LATE), failure: Some("BackoffLimitExceeded".into()) };
    assert_eq!(last(&[("a", &early), ("b", &late), ("c", &going)]), Some(failed));
    assert_eq!(
        last(&[("a", &early), ("c", &going)]),
        Some(FinishedRun { job: "a".into(), at: at(EARLY), failure: None })
    );
    assert_eq!(last(&[("c", &going)]), None);
}

#[test]
fn newest_finished_run_decides() {
    let ended =
        |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}]});
    let (good, bad) = (run_of(EARLY, ended("Complete")), run_of(LATE, ended("Failed")));
    let (going, failing) = (run_of(LATE, json!({"active": 1})), run_of(LATE, json!({"failed": 2})));
    let late_good = run_of(LATE, ended("Complete"));
    let early_bad = run_of(EARLY, ended("Failed"));
    let cron = rotate(json!({}), json!({"lastScheduleTime": LATE, "lastSuccessfulTime": EARLY, "active": [{}]}));
    let failed = Some("its last Job, b, failed: BackoffLimitExceeded");
    for (runs, expected) in [
        (vec![("a", &good), ("b", &bad)], failed),
        (vec![("b", &early_bad), ("c", &late_good)], None),
        (vec![("b", &early_bad), ("c", &going)], failed),
        (vec![("a", &good), ("c", &going)], None),
        (vec![("a", &good), ("c", &failing)], Some("its Job c makes no progress: its pods fail")),
        (vec![], None),
    ] {
        let found = trouble(&cron, runs, |_| None).map(|(message, _)| message);
        assert_eq!(found.as_deref(), expected);
    }
    let (message, run) = trouble(&cron, vec![("c", &going)], |_| Some("p: ImagePullBackOff x".into())).unwrap();
    assert_eq!((message.as_str(), run), ("its Job c makes no progress: p: ImagePullBackOff x", Some("c")));
    let suspended = rotate(json!({"suspend": true}), json!({}));
    assert_eq!(trouble(&suspended, vec![("b", &bad)], |_| None), None);
}

#[test]
fn falls_back_to_the_last_success_in_status() {
    let last = format!("its last run, started at {LATE}, did not succeed");
    for (status, expected) in [
        (json!({}), None),
        (json!({"lastScheduleTime": LATE}), Some(&last)),
        (json!({"lastScheduleTime": LATE, "lastSuccessfulTime": EARLY}), Some(&last)),
        (json!({"lastScheduleTime": LATE, "lastSuccessfulTime": EARLY, "active": [{}]}), None),
        (json!({"lastScheduleTime": EARLY, "lastSuccessfulTime": LATE}), None),
    ] {
        let found = trouble(&rotate(json!({}), status.clone()), vec![], |_| None);
        assert_eq!(found.map(|(message, _)| message).as_ref(), expected, "{status}");
    }
}

#[test]
fn failing_is_degraded_and_never_run_is_ready() {
    let scheduled: Option<Timestamp> = LATE.parse().ok();
    let trouble = || Some(crate::observed::Issue { stuck: false, message: "why".into() });
    let idle = rotate(json!({}), json!({}));
    for (cron, expected) in [
        (idle.clone(), (ComponentHealth::Ready, "0/0", "")),
        (
            ObservedCronJob { suspended: true, scheduled, ..idle.clone() },
            (ComponentHealth::Ready, "0/0", "CronJob rotate is suspended"),
        ),
        (ObservedCronJob { scheduled, ..idle.clone() }, (ComponentHealth::Ready, "1/1", "")),
        (ObservedCronJob { trouble: trouble(), ..idle }, (ComponentHealth::Degraded, "0/1", "CronJob rotate: why")),
    ] {
        let ComponentStatus { status, ready, reason, .. } = assess(&cron);
        assert_eq!((status, ready.as_str(), reason.as_str()), expected);
    }
}
