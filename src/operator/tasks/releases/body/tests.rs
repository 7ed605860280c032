use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;

const MANIFEST: &str = "---
apiVersion: apps/v1
kind: Deployment
metadata: {name: nova-api}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nova-compute, namespace: edge}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: idle}
spec: {replicas: 0}
---
apiVersion: example.com/v1
kind: Deployment
metadata: {name: not-ours}
---
apiVersion: batch/v1
kind: Job
metadata: {name: nova-cell-setup}
";

fn hook(name: &str, kind: &str, events: &[&str], phase: &str, started: &str) -> Value {
    json!({
        "name": name, "kind": kind, "events": events, "path": "t.yaml",
        "manifest": format!("apiVersion: batch/v1\nkind: {kind}\nmetadata: {{name: {name}}}\n"),
        "last_run": {"phase": phase, "started_at": started}
    })
}

fn db_sync(phase: &str, started: &str) -> Value {
    hook("nova-db-sync", "Job", &["post-install", "post-upgrade"], phase, started)
}

fn read_record(status: &str, hooks: &[Value], scrubber: &Scrubber) -> RecordBody {
    let record = json!({
        "name": "nova", "namespace": "openstack", "version": 2, "manifest": MANIFEST, "hooks": hooks,
        "info": {"status": status, "description": "failed: password hunter22", "first_deployed": "2026-11-21T10:00:00Z",
            "last_deployed": "2026-11-21T11:00:00Z"},
        "chart": {"metadata": {"name": "nova", "version": "2026.1.7"}},
    });
    let payload = STANDARD.encode(record.to_string());
    let objects = objects(payload.as_bytes(), &ReleaseKey::new("openstack", "keystone")).unwrap();
    read(payload.as_bytes(), "openstack", &objects, scrubber).unwrap()
}

fn body(status: &str, hooks: &[Value]) -> RecordBody {
    read_record(status, hooks, &Scrubber::default())
}

fn name(namespace: &str, name: &str) -> Name {
    (namespace.into(), name.into())
}

#[test]
fn reads_workloads_jobs_and_chart() {
    let body = body("deployed", &[]);
    let workloads = [
        (WorkloadKind::Deployment, "openstack".to_owned(), "nova-api".to_owned()),
        (WorkloadKind::DaemonSet, "edge".into(), "nova-compute".into()),
        (WorkloadKind::StatefulSet, "openstack".into(), "idle".into()),
    ];
    assert_eq!(body.scaled_to_zero, BTreeSet::from([workloads[2].clone()]));
    assert_eq!(body.workloads, BTreeSet::from(workloads));
    assert_eq!(body.jobs, BTreeSet::from([name("openstack", "nova-cell-setup")]));
    assert_eq!((body.chart.as_str(), body.chart_version.as_str()), ("nova", "2026.1.7"));
}

#[test]
fn scrubs_the_description() {
    let body = read_record("failed", &[], &Scrubber::new(["hunter22"]));
    assert_eq!(body.description, "failed: password [redacted]");
}

#[test]
fn cuts_a_long_description() {
    let scrubber = Scrubber::new(["hunter22"]);
    // The limit truncates the text in the middle of the password.
    let long = format!("{}hunter22 and more", "ü ".repeat(DESCRIPTION_LIMIT / 3 - 1));
    let cut = description(&long, &scrubber);
    assert!(cut.len() < DESCRIPTION_LIMIT && cut.ends_with("ü "), "{}", &cut[cut.len() - 20..]);
}

#[test]
fn reads_plain_jobs_and_hooks_that_ran_and_are_kept() {
    let started = "2026-11-21T11:00:05Z";
    let mut removed = hook("nova-tidy", "Job", &["post-upgrade"], "Succeeded", started);
    removed["delete_policies"] = json!(["hook-succeeded"]);
    let hooks = [
        db_sync("Succeeded", started),
        removed,
        hook("nova-install-only", "Job", &["post-install"], "", ""),
        hook("nova-test", "Pod", &["test"], "", ""),
        hook("nova-clean", "Job", &["pre-delete"], "", ""),
        hook("nova-before", "Job", &["pre-upgrade"], "Succeeded", started),
        hook("nova-keys", "Secret", &["post-upgrade"], "Succeeded", started),
    ];
    let expected = [name("openstack", "nova-cell-setup"), name("openstack", "nova-db-sync")];
    assert_eq!(body("deployed", &hooks).jobs, BTreeSet::from(expected));
    let recreated = [name("openstack", "nova-db-sync"), name("openstack", "nova-tidy")];
    assert_eq!(
        body("deployed", &hooks).hook_jobs,
        BTreeSet::from(recreated),
        "only the Jobs of post-upgrade hooks count as Jobs that an upgrade creates again"
    );
    // During an upgrade, the parsed body also lists the Job of a hook that helm has not run yet, which has no phase.
    assert!(body("pending-upgrade", &[db_sync("", "")]).jobs.contains(&name("openstack", "nova-db-sync")));
}

#[test]
fn knows_whether_an_uninstall_completed_its_hooks() {
    let hook = |event, phase| hook("nova-clean", "Job", &[event], phase, "2026-11-21T11:00:05Z");
    let completed = |status, hooks: &[Value]| body(status, hooks).delete_hooks_completed;
    let done = hook("pre-delete", "Succeeded");
    assert_eq!(completed("uninstalling", &[done.clone(), db_sync("", "")]), Some(true));
    assert_eq!(completed("uninstalling", &[done.clone(), hook("pre-delete", "Running")]), Some(false));
    assert_eq!(completed("uninstalling", &[done.clone(), hook("post-delete", "")]), Some(false));
    assert_eq!(completed("uninstalling", &[]), Some(false));
    assert_eq!(completed("deployed", &[done]), None);
}

#[test]
fn reports_the_hook_that_started_last() {
    let both = [
        hook("nova-db-init", "Job", &["post-install", "post-upgrade"], "Running", "2026-11-21T11:00:01Z"),
        db_sync("Running", "2026-11-21T11:00:05Z"),
        hook("nova-bootstrap", "Job", &["post-install", "post-upgrade"], "", ""),
    ];
    for (status, expected) in [
        ("pending-install", Some(("post-install Job nova-db-sync", false))),
        ("pending-upgrade", Some(("post-upgrade Job nova-db-sync", false))),
        ("deployed", None),
        ("superseded", None),
        ("failed", None),
    ] {
        let hook = body(status, &both).hook;
        assert_eq!(hook.as_ref().map(|hook| (hook.name.as_str(), hook.failed)), expected, "{status}");
    }
    let hook = body("pending-upgrade", &both).hook.unwrap();
    assert_eq!(hook.job.as_deref(), Some("nova-db-sync"));
    assert_eq!(hook.since, "2026-11-21T11:00:05Z".parse().ok());
}

#[test]
fn a_failed_operation_names_its_hook() {
    let hooks = [
        hook("nova-db-init", "Job", &["post-install", "post-upgrade"], "Succeeded", "2026-11-21T11:00:01Z"),
        db_sync("Failed", "2026-11-21T11:00:05Z"),
    ];
    let hook = body("failed", &hooks).hook.unwrap();
    assert_eq!((hook.name.as_str(), hook.failed), ("post-upgrade Job nova-db-sync", true));
}
