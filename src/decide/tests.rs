//! Tests `decide` with complete snapshots.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use osdpl_core::api::FINALIZER;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{ChartInfo, Finding};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{self, Step, Wait};
use serde_json::{Value, json};

use super::*;

/// Returns the snapshot of a cluster that contains only an `OpenStackDeployment`, into which the function merges
/// `change`.
///
/// All charts are available.
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
        objects: Objects { listed: true, ..Objects::default() },
        responses: Responses::new(),
        permitted: None,
        uninstalled: BTreeSet::new(),
        kept: Kept::default(),
        assumed: None,
    }
}

/// Answers each read of a plan that has no response yet: the requested object does not exist.
fn respond(snapshot: &mut Snapshot, plan: &Plan) {
    for read in &plan.requests.reads {
        let response = match read {
            Read::Stored(_) => Response::Stored(Stored::Nothing),
            Read::AbandonedCrds(_) => Response::AbandonedCrds(Ok(Vec::new())),
            Read::Crd(_) => Response::Crd(Ok(None)),
            _ => Response::Objects(Vec::new()),
        };
        let received = Received { response, at: snapshot.now, fresh: true };
        snapshot.responses.entry(read.clone()).or_insert(received);
    }
}

/// Repeats the decision until the plan is complete. Before each repetition, the function answers the reads of the plan
/// and stores its Secrets, like the operator.
fn complete(snapshot: &mut Snapshot) -> Plan {
    for _ in 0..9 {
        let plan = decide(snapshot);
        match plan.hold {
            Some(Hold::Reads) => respond(snapshot, &plan),
            Some(Hold::Actions) => store(snapshot, &plan),
            _ => return plan,
        }
    }
    panic!("the plan is not complete after nine passes");
}

/// Stores the Secrets of a plan as the operator would, but with a fixed text instead of generated values.
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
    assert_eq!(actions(&plan), ["add the finalizer: osdpl must clean up before the resource is deleted"]);
    assert_eq!(plan.hold, Some(Hold::Watch));
}

#[test]
fn plans_nothing_before_objects_are_read() {
    let mut snapshot = snapshot(json!({}));
    snapshot.objects.listed = false;
    let plan = decide(&snapshot);
    assert!(plan.actions.is_empty() && plan.hold == Some(Hold::Objects), "{:?}", actions(&plan));
}

#[test]
fn generates_credentials_before_helm_starts() {
    let mut snapshot = snapshot(json!({}));
    let first = decide(&snapshot);
    assert!(first.actions.is_empty() && first.hold == Some(Hold::Reads), "{:?}", actions(&first));
    respond(&mut snapshot, &first);
    let second = decide(&snapshot);
    let reason = "releases need credentials that do not exist yet";
    let stored = |service: &str, key: &str| {
        format!("store Secret openstack/nimbus-credentials-{service}, generated: {key}: {reason}")
    };
    assert_eq!(actions(&second), [stored("front", "user"), stored("store", "admin")]);
    assert_eq!(second.hold, Some(Hold::Actions));
    let third = complete(&mut snapshot);
    assert_eq!(actions(&third), ["store: helm upgrade --install: it is not installed"]);
    assert_eq!((third.hold, third.actions[0].approval), (None, Approval::NotNeeded));
    let after = third.releases_after(&[("store".to_owned(), true)].into());
    assert!(matches!(after.decisions["store"].step, Step::Wait(Wait::Helm { queued: false, .. })));
    let step = &third.releases.decisions["store"].step;
    assert!(
        matches!(step, Step::Do(plan::Action::Upgrade { .. }, _)),
        "releases_after does not change the plan itself"
    );
}

/// Returns a CRD with one version.
fn crd(version: &str) -> CustomResourceDefinition {
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "stores.example.org"},
        "spec": {
            "group": "example.org", "names": {"kind": "Store", "plural": "stores"}, "scope": "Namespaced",
            "versions": [{"name": version, "served": true, "storage": true}],
        },
    });
    serde_json::from_value(object).unwrap()
}

/// Returns the CRD of [`crd`] with the defaults that the API server adds when it stores a CRD.
fn stored(version: &str) -> CustomResourceDefinition {
    let mut definition = crd(version);
    definition.spec.names.singular = Some("store".into());
    definition.spec.names.list_kind = Some("StoreList".into());
    definition.spec.conversion = serde_json::from_value(json!({"strategy": "None"})).unwrap();
    definition
}

/// Returns a snapshot in which the release `store` is in a namespace of its own and its chart has a CRD.
fn snapshot_with_crd() -> Snapshot {
    let namespace = json!({"services": {"store": {"releases": {"store": {"namespace": "data"}}}}});
    let mut snapshot = snapshot(json!({"spec": namespace}));
    snapshot.objects.namespaces = Some(["openstack".to_owned()].into());
    snapshot.charts.crds.insert("store".into(), Ok([crd("v2")].into()));
    snapshot
}

fn respond_with_crd(snapshot: &mut Snapshot, response: Result<Option<Arc<CustomResourceDefinition>>, String>) {
    let received = Received { response: Response::Crd(response), at: snapshot.now, fresh: true };
    snapshot.responses.insert(Read::Crd("stores.example.org".into()), received);
}

#[test]
fn provides_the_namespace_and_the_crds_before_helm_starts() {
    let mut snapshot = snapshot_with_crd();
    let release = ReleaseKey::new("data", "store");
    let owner = ReleaseKey::new("old", "store");
    let abandoned = AbandonedCrd { name: "users.example.org".into(), resource_version: None, owner };
    let response = Response::AbandonedCrds(Ok(vec![abandoned]));
    let received = Received { response, at: snapshot.now, fresh: true };
    snapshot.responses.insert(Read::AbandonedCrds(release), received);
    let expected = [
        "create namespace data: store is installed there",
        "transfer CustomResourceDefinition users.example.org from release old/store to data/store: the release that \
         owns the CRD was uninstalled, and helm does not install over objects of another release",
        "apply CustomResourceDefinition stores.example.org: the chart of store needs it",
        "store: helm upgrade --install: it is not installed",
    ];
    assert_eq!(actions(&complete(&mut snapshot)), expected);
    snapshot.objects.namespaces = Some(["openstack".to_owned(), "data".to_owned()].into());
    respond_with_crd(&mut snapshot, Ok(Some(Arc::new(stored("v2")))));
    assert_eq!(
        actions(&complete(&mut snapshot)),
        [expected[1], expected[3]],
        "osdpl plans nothing for a namespace and a CRD that exist"
    );
    respond_with_crd(&mut snapshot, Ok(Some(Arc::new(stored("v1")))));
    let outdated = "apply CustomResourceDefinition stores.example.org: the chart of store has another version, and \
                    helm does not upgrade CRDs";
    assert_eq!(actions(&complete(&mut snapshot)), [expected[1], outdated, expected[3]]);
}

#[test]
fn the_crds_of_an_upgrade_wait_for_its_approval() {
    let mut snapshot = snapshot_with_crd();
    complete(&mut snapshot);
    let mut record = osdpl_core::testing::observed_release(osdpl_core::release::Status::Deployed);
    record.catalog = Some("an older catalogue".into());
    snapshot.observed.releases.insert(ReleaseKey::new("data", "store"), record);
    let plan = complete(&mut snapshot);
    let waiting: Vec<String> =
        plan.actions.iter().filter(|it| it.approval == Approval::Missing).map(|it| it.action.to_string()).collect();
    assert_eq!(waiting, ["apply CustomResourceDefinition stores.example.org", "store: helm upgrade --install"]);
}

#[test]
fn a_release_waits_for_crds_that_cannot_be_read() {
    let mut snapshot = snapshot_with_crd();
    respond_with_crd(&mut snapshot, Err("crds are forbidden".into()));
    let plan = complete(&mut snapshot);
    assert_eq!(actions(&plan), [""; 0]);
    let step = &plan.releases.decisions["store"].step;
    assert!(matches!(step, Step::Wait(Wait::Blocked { message, .. }) if message == "crds are forbidden"), "{step:?}");
    assert!(plan.requeue_at.is_some());
}

#[test]
fn missing_credentials_do_not_refuse_the_shipped_presets() {
    let catalog = Arc::new(osdpl_core::files::load_catalog(None).unwrap());
    for preset in ["core", "compute"] {
        let mut snapshot = snapshot(json!({"spec": {"presets": [preset, "single"]}}));
        snapshot.catalog = Arc::clone(&catalog);
        let mut plan = decide(&snapshot);
        while matches!(plan.hold, Some(Hold::Reads | Hold::Objects)) {
            respond(&mut snapshot, &plan);
            let named = plan.requests.objects.iter().map(|reference| (reference.clone(), ObjectState::Missing));
            snapshot.objects.named.extend(named);
            plan = decide(&snapshot);
        }
        let findings: Vec<String> = plan.findings.iter().map(ToString::to_string).collect();
        assert_eq!(plan.hold, Some(Hold::Actions), "{preset}: {findings:?}");
        assert!(plan.actions.iter().all(|planned| matches!(planned.action, Action::StoreCredentials(_))));
    }
}

#[test]
fn a_refused_spec_has_no_actions() {
    let mut snapshot = snapshot(json!({}));
    snapshot.catalog_findings.push(Finding::new(Level::Error, "catalogue", "an addition is invalid"));
    let plan = complete(&mut snapshot);
    assert!(plan.refused && plan.hold.is_none());
    assert_eq!(actions(&plan), [""; 0], "a refused spec generates no credentials");
}

#[test]
fn a_paused_cloud_has_no_actions() {
    let mut snapshot = snapshot(json!({"spec": {"paused": true}}));
    for _ in 0..3 {
        let plan = decide(&snapshot);
        assert_eq!(actions(&plan), [""; 0]);
        respond(&mut snapshot, &plan);
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
        respond(&mut snapshot, &plan);
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
    respond(&mut snapshot, &plan);
    let plan = decide(&snapshot);
    assert_eq!(actions(&plan), ["remove the finalizer: nothing of the cloud is left to delete"]);
}

/// Returns the message of a release that osdpl refuses; empty if it does not refuse the release.
fn refusal(plan: &Plan, release: &str) -> String {
    match &plan.releases.decisions[release].step {
        Step::Wait(Wait::Blocked { message, .. }) => message.clone(),
        _ => String::new(),
    }
}

/// Returns a snapshot in which the release `store` is in the namespace `data`, in which the operator has no rights.
fn snapshot_with_store_outside() -> Snapshot {
    let store = json!({"releases": {"store": {"namespace": "data"}}});
    let mut snapshot = snapshot(json!({"spec": {"services": {"store": store}}}));
    snapshot.permitted = Some(["openstack".to_owned()].into());
    snapshot.objects.namespaces = Some(["openstack".to_owned(), "data".to_owned()].into());
    snapshot
}

#[test]
fn refuses_only_releases_in_namespaces_without_rights() {
    let mut snapshot = snapshot_with_store_outside();
    let plan = complete(&mut snapshot);
    let message = refusal(&plan, "store");
    assert!(message.starts_with("spec.services.store.releases.store.namespace: "), "{message}");
    assert!(message.contains("only in the namespaces openstack; add data to `namespaces`"), "{message}");
    assert_eq!(refusal(&plan, "front"), "");
    assert!(plan.owned.unwrap().iter().all(|key| key.namespace == "openstack"), "osdpl never installs the release");

    snapshot.permitted = Some(["openstack".to_owned(), "data".to_owned()].into());
    snapshot.objects.namespaces = Some(["openstack".to_owned()].into());
    let plan = complete(&mut snapshot);
    let message = refusal(&plan, "store");
    assert!(message.contains("the namespace data does not exist, and the operator may not create"), "{message}");
    assert!(plan.actions.iter().all(|planned| !matches!(planned.action, Action::CreateNamespace(_))));
    snapshot.permitted = None;
    let plan = complete(&mut snapshot);
    assert!(plan.actions.iter().any(|planned| matches!(planned.action, Action::CreateNamespace(_))));
}

#[test]
fn keeps_releases_in_namespaces_that_lost_their_rights() {
    let mut moved = snapshot_with_store_outside();
    moved.deployment.spec.services.clear();
    let status = json!({"ownedReleases": ["data/store"]});
    moved.deployment.status = Some(serde_json::from_value(status).unwrap());
    let plan = complete(&mut moved);
    let message = refusal(&plan, "store");
    assert!(message.contains("can't manage helm release data/store"), "{message}");
    assert!(plan.owned.unwrap().contains(&ReleaseKey::new("data", "store")));

    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let mut deleting = snapshot(deleted);
    deleting.permitted = moved.permitted;
    deleting.deployment.status = moved.deployment.status;
    let plan = complete(&mut deleting);
    let waits = plan.deleting.unwrap();
    assert!(waits.starts_with("helm release data/store of this cloud can't be uninstalled: "), "{waits}");
    assert!(waits.ends_with("or set spec.deletionPolicy to Detach, which keeps all releases"), "{waits}");
    assert!(plan.actions.is_empty(), "{:?}", actions(&plan));
}

#[test]
fn ignores_a_resource_in_a_namespace_without_rights() {
    let permitted = BTreeSet::from(["clouds".to_owned()]);
    let resource = snapshot(json!({})).deployment;
    assert_eq!(find_outside(&resource, None), None);
    assert_eq!(find_outside(&resource, Some(&["openstack".to_owned()].into())), None);
    let Some(Ignored::Outside(message)) = find_outside(&resource, Some(&permitted)) else { panic!() };
    assert!(message.contains("only in the namespaces clouds; add openstack to `namespaces`"), "{message}");
    let deleted = snapshot(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})).deployment;
    let outside = find_outside(&deleted, Some(&permitted)).unwrap();
    let plan = decide_ignored(&deleted, outside);
    assert!(plan.actions.is_empty() && plan.hold.is_none(), "the finalizer stays, and the status says why");
    let plan = decide_ignored(&deleted, Ignored::Older("openstack/first".into()));
    assert!(matches!(plan.actions[0].action, Action::RemoveFinalizer) && plan.hold == Some(Hold::Watch));
}
