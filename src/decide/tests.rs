//! Decisions from whole snapshots.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use osdpl_core::api::FINALIZER;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::ChartInfo;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{self, Step, Wait};
use serde_json::{Value, json};

use super::*;

/// Returns a snapshot of an empty cluster with a resource; its charts are available.
fn snapshot(change: Value) -> Snapshot {
    let catalog = Arc::new(Catalog::load(&osdpl_core::testing::files(&[])).unwrap());
    let object = json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
        "metadata": {
            "name": "nimbus", "namespace": "openstack", "uid": "1", "generation": 1, "finalizers": [FINALIZER],
        },
        "spec": {"openstackRelease": "2026.1", "presets": ["small"]},
    });
    let map = |value: Value| value.as_object().cloned().unwrap();
    let mut object = map(object);
    osdpl_values::merge(&mut object, map(change));
    let chart = |name: &str| {
        let request = ChartRequest { name: name.into(), version: Some("1.0.0".into()), repository: None };
        let fact = ChartInfo { digest: "sha256:1".into(), fingerprint: "1".into(), ..ChartInfo::default() };
        (name.to_owned(), (request, ChartState::Ready(fact)))
    };
    Snapshot {
        now: Timestamp::UNIX_EPOCH,
        deployment: serde_json::from_value(object.into()).unwrap(),
        catalog,
        catalog_findings: Vec::new(),
        helm: Helm { major: 4, free_slots: 1, rendering: 0, cores: 4, idle: true },
        charts: Charts { known: [chart("front"), chart("store")].into(), ..Charts::default() },
        observed: Observed::default(),
        affected: Vec::new(),
        nodes: None,
        claims: Vec::new(),
        classes: None,
        rolling: Arc::default(),
        hosts: None,
        problems: Vec::new(),
        objects: Objects { own_listed: true, ..Objects::default() },
        answers: Answers::new(),
        uninstalled: BTreeSet::new(),
        kept: Kept::default(),
        assumed: None,
    }
}

/// Answers every read of a plan: there are no objects.
fn answer(snapshot: &mut Snapshot, plan: &Plan) {
    for read in &plan.requests.reads {
        let answer = match read {
            Read::Stored(_) => Answer::Stored(Stored::Nothing),
            _ => Answer::Objects(Vec::new()),
        };
        let answered = Answered { answer, at: snapshot.now, fresh: true };
        snapshot.answers.insert(read.clone(), answered);
    }
}

/// Stores the Secrets of a plan, with fixed values instead of generated ones.
fn store(snapshot: &mut Snapshot, plan: &Plan) {
    for planned in &plan.actions {
        let Action::StoreCredentials(write) = &planned.action else { panic!("{planned:?}") };
        let mut secret = write.secret.clone();
        for key in write.generated.keys() {
            secret.data.get_or_insert_default().insert(key.clone(), ByteString(b"generated".to_vec()));
        }
        snapshot.objects.secrets.insert(ReleaseKey::new(write.namespace(), write.name()), Arc::new(secret));
    }
}

fn actions(plan: &Plan) -> Vec<String> {
    plan.actions.iter().map(|planned| format!("{}: {}", planned.action, planned.reason)).collect()
}

#[test]
fn adds_the_finalizer_first() {
    let snapshot = snapshot(json!({"metadata": {"finalizers": []}}));
    let plan = decide(&snapshot);
    assert_eq!(actions(&plan), ["add the finalizer: its deletion has to clean up"]);
    assert_eq!(plan.hold, Some(Hold::Watch));
}

#[test]
fn plans_nothing_before_objects_are_read() {
    let mut snapshot = snapshot(json!({}));
    snapshot.objects.own_listed = false;
    let plan = decide(&snapshot);
    assert!(plan.actions.is_empty() && plan.hold == Some(Hold::Objects), "{:?}", actions(&plan));
}

#[test]
fn generates_credentials_before_helm_starts() {
    let mut snapshot = snapshot(json!({}));
    let first = decide(&snapshot);
    assert!(first.actions.is_empty() && first.hold == Some(Hold::Reads), "{:?}", actions(&first));
    answer(&mut snapshot, &first);
    let second = decide(&snapshot);
    let reason = "releases need credentials that do not exist yet";
    let stored = |service: &str, key: &str| {
        format!("store Secret openstack/nimbus-credentials-{service}, generated: {key}: {reason}")
    };
    assert_eq!(actions(&second), [stored("front", "user"), stored("store", "admin")]);
    assert_eq!(second.hold, Some(Hold::Actions));
    store(&mut snapshot, &second);
    let mut third = decide(&snapshot);
    if third.hold == Some(Hold::Reads) {
        answer(&mut snapshot, &third);
        third = decide(&snapshot);
    }
    assert_eq!(actions(&third), ["store: helm upgrade --install: it is not installed"]);
    assert_eq!((third.hold, third.actions[0].approval), (None, Approval::NotNeeded));
    let after = third.releases_after(&[("store".to_owned(), true)].into());
    assert!(matches!(after.decisions["store"].step, Step::Wait(Wait::Helm { queued: false, .. })));
    let step = &third.releases.decisions["store"].step;
    assert!(matches!(step, Step::Do(plan::Action::Upgrade { .. }, _)), "the plan does not change");
}

#[test]
fn a_paused_cloud_has_no_actions() {
    let mut snapshot = snapshot(json!({"spec": {"paused": true}}));
    for _ in 0..3 {
        let plan = decide(&snapshot);
        assert_eq!(actions(&plan), [""; 0]);
        answer(&mut snapshot, &plan);
    }
    let plan = decide(&snapshot);
    assert!(plan.hold.is_none(), "{:?}", plan.hold);
    assert!(plan.releases.decisions.values().all(|decision| decision.step == Step::Wait(Wait::Paused)));
}

#[test]
fn reuses_the_desired_state_for_equal_snapshots() {
    let mut snapshot = snapshot(json!({"spec": {"paused": true}}));
    for _ in 0..3 {
        let plan = decide(&snapshot);
        answer(&mut snapshot, &plan);
    }
    let first = decide(&snapshot);
    snapshot.kept = first.kept.clone();
    let second = decide(&snapshot);
    assert!(Arc::ptr_eq(&first.desired, &second.desired) && first.releases == second.releases);
}

#[test]
fn removes_the_finalizer_last() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}});
    let mut snapshot = snapshot(deleted);
    let plan = decide(&snapshot);
    assert!(plan.actions.is_empty() && plan.hold == Some(Hold::Reads));
    answer(&mut snapshot, &plan);
    let plan = decide(&snapshot);
    assert_eq!(actions(&plan), ["remove the finalizer: nothing of the cloud is left to delete"]);
}
