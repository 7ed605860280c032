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
use osdpl_core::openstack::InstanceObservation;
use osdpl_core::plan::{self, Step, Wait};
use serde_json::{Value, json};

use super::*;

/// Returns the snapshot of a cluster that contains only an `OpenStackDeployment`, into which the function merges
/// `change`.
///
/// All charts are available.
pub(crate) fn snapshot(change: Value) -> Snapshot {
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
        let request = ChartRequest { version: Some("1.0.0".into()), ..ChartRequest::locked(name) };
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
        instances: None,
        problems: Vec::new(),
        objects: Objects { listed: true, ..Objects::default() },
        responses: Responses::new(),
        permitted: None,
        uninstalled: BTreeSet::new(),
        kept: Kept::default(),
        assumed: None,
    }
}

/// Adds a response to the snapshot for each read in the plan, unless the snapshot already has a response to this read.
/// Each response says that the requested object does not exist.
fn respond(snapshot: &mut Snapshot, plan: &Plan) {
    for read in &plan.requests.reads {
        let response = match read {
            Read::Stored(_) => Response::Stored(Stored::Nothing),
            Read::AbandonedCrds(_) => Response::AbandonedCrds(Ok(Vec::new())),
            Read::Crd(_) => Response::Crd(Ok(None)),
            Read::RenderedCrds { .. } => Response::RenderedCrds(Ok([].into())),
            _ => Response::Objects(Vec::new()),
        };
        let received = Received { response, at: snapshot.now, fresh: true };
        snapshot.responses.entry(read.clone()).or_insert(received);
    }
}

/// Repeats the decision until the plan is complete, and returns this plan. After each incomplete plan, the function
/// acts like the operator: it responds to the reads of the plan, or stores the Secrets of the plan.
pub(crate) fn complete(snapshot: &mut Snapshot) -> Plan {
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

/// Stores the Secrets of a plan in the snapshot, as the operator would in the cluster, but with a fixed text instead of
/// generated values.
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

#[test]
fn generates_no_credentials_in_place_of_damaged_ones() {
    for (data, why) in [
        (json!({"admin": "//4="}), "has a value that is not UTF-8 text"),
        (json!({"root": "aHVudGVyMg=="}), "has none of the keys that osdpl stores there"),
    ] {
        let mut snapshot = snapshot(json!({}));
        let name = "nimbus-credentials-store";
        let labels = json!({"osdpl.dev/deployment": "openstack.nimbus"});
        let secret = json!({"metadata": {"name": name, "namespace": "openstack", "labels": labels}, "data": data});
        let key = ReleaseKey::new("openstack", name);
        snapshot.objects.secrets.insert(key, Arc::new(serde_json::from_value(secret).unwrap()));
        let plan = complete(&mut snapshot);
        let step = &plan.releases.decisions["store"].step;
        let Step::Wait(Wait::Blocked { message, .. }) = step else { panic!("{step:?}") };
        let expected =
            format!("Secret openstack/{name} {why}, and no release record contains admin; restore the Secret");
        assert!(message.contains(&expected), "{message}");
    }
}

/// Returns a CRD that defines only the API version `version`.
pub(crate) fn crd(version: &str) -> CustomResourceDefinition {
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
pub(crate) fn stored(version: &str) -> CustomResourceDefinition {
    let mut definition = crd(version);
    definition.spec.names.singular = Some("store".into());
    definition.spec.names.list_kind = Some("StoreList".into());
    definition.spec.conversion = serde_json::from_value(json!({"strategy": "None"})).unwrap();
    definition
}

/// Returns a snapshot in which the release `store` has its own namespace, `data`, and a chart with a CRD.
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
    // The transfer of the CRD needs approval: the release `old/store`, which owns the CRD, could still be running, with
    // records that osdpl does not see.
    snapshot.deployment.spec.approval = serde_json::from_value(json!("Manual")).unwrap();
    let release = ReleaseKey::new("data", "store");
    let owner = ReleaseKey::new("old", "store");
    let abandoned = AbandonedCrd { name: "users.example.org".into(), resource_version: None, owner };
    let response = Response::AbandonedCrds(Ok(vec![abandoned]));
    let received = Received { response, at: snapshot.now, fresh: true };
    snapshot.responses.insert(Read::AbandonedCrds(release), received);
    let waiting = complete(&mut snapshot);
    let step = &waiting.releases.decisions["store"].step;
    let Step::Wait(wait) = step else { panic!("{step:?}") };
    assert!(wait.to_string().contains(": users.example.org: waits for approval"), "{wait}");
    let missing = waiting.actions.iter().filter(|planned| planned.approval == Approval::Missing);
    assert_eq!(missing.count(), 3, "the transfer, the other CRD and helm wait");
    let approval = json!({"osdpl.dev/approve": waiting.releases.hash});
    snapshot.deployment.metadata.annotations = serde_json::from_value(approval).unwrap();
    let expected = [
        "create namespace data: osdpl installs store in this namespace",
        "transfer CustomResourceDefinition users.example.org from release old/store to data/store: the release that \
         owns the CRD was uninstalled, and helm refuses to install a chart whose objects belong to another release",
        "apply CustomResourceDefinition stores.example.org: the chart of store needs this CRD",
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
}

/// Returns the step of the release `store`, and a list of texts: the actions that need no approval, then all findings.
/// In the snapshot, the cluster already contains the CRD `stored`.
fn with_stored_crd(stored: &CustomResourceDefinition, annotations: Value, approval: &str) -> (String, Vec<String>) {
    let mut snapshot = snapshot_with_crd();
    snapshot.objects.namespaces.get_or_insert_default().insert("data".to_owned());
    snapshot.deployment.spec.approval = serde_json::from_value(json!(approval)).unwrap();
    snapshot.deployment.metadata.annotations = serde_json::from_value(annotations).unwrap();
    respond_with_crd(&mut snapshot, Ok(Some(Arc::new(stored.clone()))));
    let plan = complete(&mut snapshot);
    let step = match &plan.releases.decisions["store"].step {
        Step::Wait(wait) => wait.to_string(),
        Step::Do(action, _) => action.to_string(),
        other => format!("{other:?}"),
    };
    let planned = plan.actions.iter().filter(|planned| planned.approval == Approval::NotNeeded);
    let mut all: Vec<String> = planned.map(|planned| planned.action.to_string()).collect();
    all.extend(plan.findings.iter().map(ToString::to_string));
    (step, all)
}

#[test]
fn changes_of_existing_crds_wait_for_approval() {
    let (step, actions) = with_stored_crd(&stored("v1"), json!({}), "Manual");
    let why = "its chart changes CRDs that already exist in the cluster, which affects all objects of these CRDs: \
               stores.example.org: waits for approval (osdpl approve)";
    assert_eq!((step.as_str(), actions), (why, vec![]));
    let apply = "apply CustomResourceDefinition stores.example.org".to_owned();
    let upgrade = "helm upgrade --install".to_owned();
    let done = (upgrade.clone(), vec![apply, format!("store: {upgrade}")]);
    assert_eq!(with_stored_crd(&stored("v1"), json!({}), "Automatic"), done);
    let mut snapshot = snapshot_with_crd();
    let hash = complete(&mut snapshot).releases.hash;
    assert_eq!(with_stored_crd(&stored("v1"), json!({"osdpl.dev/approve": hash}), "Manual"), done);
}

#[test]
fn keeps_crds_of_other_owners_and_newer_crds() {
    let mut of_release = stored("v1");
    let owner = json!({"meta.helm.sh/release-name": "stores", "meta.helm.sh/release-namespace": "tenant"});
    of_release.metadata.annotations = serde_json::from_value(owner).unwrap();
    let mut of_kubectl = stored("v1");
    let entry = json!([{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:versions": {}}}}]);
    of_kubectl.metadata.managed_fields = serde_json::from_value(entry).unwrap();
    for (stored, owner) in [(of_release, "helm release tenant/stores"), (of_kubectl, "field manager \"kubectl\"")] {
        let (step, actions) = with_stored_crd(&stored, json!({}), "Automatic");
        assert_eq!(actions, [""; 0]);
        assert!(step.contains(&format!("CRD stores.example.org, which {owner} owns")), "{step}");
    }
    let mut newer = stored("v2");
    newer.spec.versions.extend(stored("v3").spec.versions);
    let (step, actions) = with_stored_crd(&newer, json!({}), "Automatic");
    assert_eq!(step, "helm upgrade --install");
    assert_eq!(actions.len(), 2, "{actions:?}");
    assert!(actions[1].contains("the cluster has a newer version of CRD stores.example.org"), "{actions:?}");
    let mut more_fields = stored("v2");
    let schema = |field: &str| json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "array", "items": {"type": "object", "properties": {field: {"type": "string"}}}}}}});
    more_fields.spec.versions[0].schema = serde_json::from_value(schema("size")).unwrap();
    assert!(with_stored_crd(&more_fields, json!({}), "Manual").1[1].contains("newer version"));
    for version in ["v3alpha1", "v2beta1", "v1beta2", "example"] {
        let (_, actions) = with_stored_crd(&stored(version), json!({}), "Automatic");
        assert_eq!(actions[0], "apply CustomResourceDefinition stores.example.org", "v2 is newer than {version}");
    }
    for version in ["v3", "v10"] {
        let (_, actions) = with_stored_crd(&stored(version), json!({}), "Automatic");
        assert!(actions[1].contains("newer version"), "a newer version may lack fields: {actions:?}");
    }
    let mut stored_as_newer = stored("v2");
    stored_as_newer.spec.versions[0].storage = false;
    stored_as_newer.spec.versions.extend(stored("v3").spec.versions);
    stored_as_newer.spec.versions[1].served = false;
    stored_as_newer.spec.versions[0].schema = serde_json::from_value(schema("other")).unwrap();
    assert!(with_stored_crd(&stored_as_newer, json!({}), "Automatic").1[1].contains("newer version"));
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

/// Returns the snapshot of a cloud with Keystone and Nova that is being deleted. The function merges `change` into the
/// OpenStackDeployment. `found` is Nova's response about instances: the name of an instance, if there is one, or an
/// error; `None` if Nova has not responded.
#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
pub(crate) fn deleting_nova(change: Value, found: Option<Result<Option<&str>, &str>>) -> Snapshot {
    let mut object = json!({
        "metadata": {"deletionTimestamp": "2026-11-25T00:00:00Z"},
        "spec": {"presets": [], "services": {"keystone": {"enabled": true}, "nova": {"enabled": true}}},
        "status": {"ownedReleases": ["openstack/keystone", "openstack/nova"]},
    });
    osdpl_values::merge(object.as_object_mut().unwrap(), change.as_object().unwrap().clone());
    let mut snapshot = snapshot(object);
    snapshot.catalog = Arc::new(osdpl_core::files::load_catalog(None).unwrap());
    let admin = json!({"endpoints": {"identity": {"auth": {"admin": {"password": "hunter2"}}}}});
    for name in ["keystone", "nova"] {
        let key = ReleaseKey::new("openstack", name);
        let mut record = osdpl_core::testing::observed_release(osdpl_core::release::Status::Deployed);
        record.was_deployed = true;
        let read = Read::Values { release: key.clone(), revision: record.revision, required: false };
        let values = Arc::new(admin.as_object().cloned().unwrap());
        let received = Received { response: Response::Values(Ok(values)), at: snapshot.now, fresh: true };
        snapshot.responses.insert(read, received);
        snapshot.observed.releases.insert(key, record);
    }
    let access = complete(&mut snapshot).requests.instances;
    snapshot.instances = access.zip(found).map(|(access, found)| {
        let found = found.map(|found| found.map(str::to_owned)).map_err(str::to_owned);
        Arc::new(InstanceObservation { access, found })
    });
    snapshot
}

#[test]
fn a_deletion_waits_while_nova_has_instances() {
    let waits = |change: Value, found: Option<Result<Option<&str>, &str>>| {
        let plan = complete(&mut deleting_nova(change, found));
        let acts = plan.actions.iter().any(|planned| matches!(planned.action, Action::Release { .. }));
        assert_ne!(acts, plan.deleting.as_ref().is_some_and(|message| message.contains("so nothing is uninstalled")));
        plan.deleting.filter(|_| !acts)
    };
    let remedy = ", so nothing is uninstalled; delete the instances first, or set spec.deletionPolicy to Detach to \
                  keep everything running, or delete the instances together with the cloud: kubectl -n openstack \
                  annotate osdpl nimbus osdpl.dev/delete-with-instances=nimbus";
    for (found, problem) in [
        (None, "Nova has not reported yet whether it has instances"),
        (Some(Ok(Some("web"))), "Nova has instances, such as web"),
        (Some(Err("503")), "osdpl can't query Nova for instances: 503"),
    ] {
        assert_eq!(waits(json!({}), found), Some(format!("{problem}{remedy}")));
        let allowed = json!({"metadata": {"annotations": {"osdpl.dev/delete-with-instances": "nimbus"}}});
        assert_eq!(waits(allowed, found), None);
        let copied = json!({"metadata": {"annotations": {"osdpl.dev/delete-with-instances": "other"}}});
        assert!(waits(copied, found).is_some());
        assert_eq!(waits(json!({"spec": {"deletionPolicy": "Detach"}}), found), None);
        assert!(waits(json!({"spec": {"deletionPolicy": "Purge"}}), found).is_some());
    }
    assert_eq!(waits(json!({}), Some(Ok(None))), None);
    // osdpl refuses to rename an installed release. So a new name in the spec must not hide from osdpl that the
    // installed Nova still has instances.
    for (service, release) in [("nova", "nova"), ("keystone", "keystone")] {
        let renamed = json!({"enabled": true, "releases": {release: {"name": "other", "namespace": "other"}}});
        let change = json!({"spec": {"services": {service: renamed}}});
        let message = waits(change, Some(Ok(Some("web"))));
        assert_eq!(message.as_deref(), Some(&*format!("Nova has instances, such as web{remedy}")), "{service}");
    }
}

#[test]
fn a_deletion_does_not_wait_for_a_nova_that_is_gone() {
    use osdpl_core::release::Status;
    let nova = ReleaseKey::new("openstack", "nova");
    let terminating = |snapshot: &mut Snapshot, nova: &ReleaseKey| {
        snapshot.observed.terminating.insert(nova.namespace.clone());
    };
    let waits = |change: fn(&mut Snapshot, &ReleaseKey)| {
        let mut snapshot = deleting_nova(json!({}), Some(Err("503")));
        change(&mut snapshot, &nova);
        complete(&mut snapshot).deleting.is_some_and(|message| message.contains("so nothing is uninstalled"))
    };
    assert!(waits(|_, _| {}));
    assert!(!waits(|snapshot, nova| drop(snapshot.observed.releases.remove(nova))));
    assert!(!waits(|snapshot, nova| snapshot.observed.releases.get_mut(nova).unwrap().status = Status::Uninstalling));
    assert!(!waits(|snapshot, nova| snapshot.observed.releases.get_mut(nova).unwrap().was_deployed = false));
    assert!(!waits(terminating));
    let mut unknown = deleting_nova(json!({}), Some(Ok(None)));
    for received in unknown.responses.values_mut() {
        received.response = Response::Values(Ok(Arc::default()));
    }
    let message = complete(&mut unknown).deleting.unwrap();
    assert!(message.contains("don't contain the password of Keystone's administrator"), "{message}");
}

/// Returns why osdpl does not install the release `release`; empty if nothing blocks the release.
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
    let waits = plan.deleting.clone().unwrap();
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
    let plan = decide_ignored(&deleted, Ignored::Older { other: "openstack/first".into(), is_readable: true });
    assert!(matches!(plan.actions[0].action, Action::RemoveFinalizer) && plan.hold == Some(Hold::Watch));
}

#[test]
fn forgets_releases_in_a_deleted_namespace_without_rights() {
    let remaining = |permitted: Option<BTreeSet<String>>| {
        let mut snapshot = snapshot(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        for namespace in ["openstack", "data", "gone"] {
            let record = osdpl_core::testing::observed_release(osdpl_core::release::Status::Deployed);
            snapshot.observed.releases.insert(ReleaseKey::new(namespace, "store"), record);
        }
        snapshot.observed.terminating.insert("openstack".into());
        snapshot.permitted = permitted;
        snapshot.objects.namespaces = Some(BTreeSet::from(["openstack", "data"].map(str::to_owned)));
        snapshot.forget_deleted_namespaces();
        snapshot.observed.releases.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    let all = BTreeSet::from(["openstack", "data", "gone"].map(str::to_owned));
    assert_eq!(remaining(Some(all)), ["data/store"]);
    assert_eq!(
        remaining(None),
        ["data/store", "gone/store", "openstack/store"],
        "with rights in all namespaces, helm can uninstall all releases, so osdpl forgets none"
    );
}
