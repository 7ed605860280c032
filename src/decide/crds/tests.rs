//! Tests the plans for CRDs that a chart has in its templates.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::tests::{complete, crd, snapshot, stored};
use crate::{AbandonedCrd, Plan, Read, Received, Response, Snapshot};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::plan::{Step, Wait};
use osdpl_core::release::Status;
use osdpl_core::testing::observed_release;

const CRD: &str = "stores.example.org";

fn respond(snapshot: &mut Snapshot, read: Read, response: Response) {
    snapshot.responses.insert(read, Received { response, at: snapshot.now, fresh: true });
}

/// Returns a snapshot in which the release `store` exists with outdated inputs, and the templates of its chart may
/// contain CRDs.
fn snapshot_of_upgrade() -> Snapshot {
    let mut snapshot = snapshot(json!({"spec": {"approval": "Manual"}}));
    // This call also stores the credentials in the snapshot. The release must not exist yet, because osdpl generates no
    // credentials for an existing release.
    let plan = complete(&mut snapshot);
    snapshot.charts.crd_templates.insert("store".into());
    let mut record = observed_release(Status::Deployed);
    record.inputs = Some("older".into());
    record.own_inputs = Some("older".into());
    record.catalog = Some(plan.desired.releases["store"].catalog.clone());
    record.chart.clone_from(&plan.desired.releases["store"].chart_identity);
    snapshot.observed.releases.insert(ReleaseKey::new("openstack", "store"), record);
    snapshot
}

/// Returns the request for the rendered CRDs of a chart, if the plan contains one.
fn requested(plan: &Plan) -> Option<Read> {
    plan.requests.reads.iter().find(|read| matches!(read, Read::RenderedCrds { .. })).cloned()
}

/// Returns the plan of an upgrade for which helm renders the CRD `rendered`. The cluster has the CRD `stored`.
/// `annotations` are the annotations of the `OpenStackDeployment`.
fn plan_with(rendered: &CustomResourceDefinition, stored: &CustomResourceDefinition, annotations: Value) -> Plan {
    let mut snapshot = snapshot_of_upgrade();
    snapshot.deployment.metadata.annotations = serde_json::from_value(annotations).unwrap();
    respond(&mut snapshot, Read::Crd(CRD.into()), Response::Crd(Ok(Some(Arc::new(stored.clone())))));
    let read = requested(&complete(&mut snapshot)).unwrap();
    respond(&mut snapshot, read, Response::RenderedCrds(Ok([rendered.clone()].into())));
    complete(&mut snapshot)
}

fn step(plan: &Plan) -> String {
    match &plan.releases.decisions["store"].step {
        Step::Wait(wait) => wait.to_string(),
        Step::Do(action, _) => action.to_string(),
        other => format!("{other:?}"),
    }
}

/// Returns `crd` with a schema that has the fields `fields`.
fn with_fields(mut crd: CustomResourceDefinition, fields: &[&str]) -> CustomResourceDefinition {
    let fields: serde_json::Map<_, _> =
        fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": fields}});
    crd.spec.versions[0].schema = serde_json::from_value(schema).unwrap();
    crd
}

#[test]
fn changes_of_crds_in_templates_wait_for_approval() {
    let same = plan_with(&crd("v1"), &stored("v1"), json!({}));
    assert_eq!(step(&same), "helm upgrade --install");
    let (rendered, old) = (with_fields(crd("v1"), &["size"]), with_fields(stored("v1"), &["colour"]));
    let waiting = plan_with(&rendered, &old, json!({}));
    assert!(step(&waiting).contains("stores.example.org: waits for approval"), "{}", step(&waiting));
    let approved = plan_with(&rendered, &old, json!({"osdpl.dev/approve": waiting.releases.hash}));
    let actions: Vec<String> = approved.actions.iter().map(|planned| planned.action.to_string()).collect();
    assert_eq!(actions, ["store: helm upgrade --install"], "helm applies the CRD, not osdpl");
}

#[test]
fn helm_replaces_no_crd_of_another_owner_and_no_newer_crd() {
    let manager = |name: &str| {
        let entry = json!([{"manager": name, "operation": "Apply", "fieldsV1": {"f:spec": {"f:versions": {}}}}]);
        let mut stored = with_fields(stored("v1"), &["colour"]);
        stored.metadata.managed_fields = serde_json::from_value(entry).unwrap();
        stored
    };
    let rendered = with_fields(crd("v1"), &["size"]);
    let foreign = step(&plan_with(&rendered, &manager("argocd-controller"), json!({})));
    assert!(foreign.contains("CRD stores.example.org, which field manager \"argocd-controller\" owns"), "{foreign}");
    assert!(foreign.contains("osdpl does not start helm"), "{foreign}");
    let own = step(&plan_with(&rendered, &manager("helm"), json!({})));
    assert!(own.contains("waits for approval"), "{own}");
    let newer = plan_with(&rendered, &with_fields(stored("v1"), &["size", "colour"]), json!({}));
    assert!(step(&newer).contains("a newer version of CRD stores.example.org"), "{}", step(&newer));
    assert!(newer.requeue_at.is_some(), "no watch reports changes of CRDs");
}

#[test]
fn keeps_what_controllers_write_into_the_conversion() {
    let conversion = |bundle: Option<&str>| {
        let client = json!({"service": {"name": "webhook", "namespace": "openstack"}, "caBundle": bundle});
        let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
        serde_json::from_value(json!({"strategy": "Webhook", "webhook": webhook})).unwrap()
    };
    let (mut rendered, mut injected) = (crd("v1"), stored("v1"));
    rendered.spec.conversion = conversion(None);
    injected.spec.conversion = conversion(Some("YQ=="));
    assert_eq!(step(&plan_with(&rendered, &injected, json!({}))), "helm upgrade --install");
    assert!(step(&plan_with(&rendered, &stored("v1"), json!({}))).contains("waits for approval"));
}

#[test]
fn an_upgrade_waits_for_charts_that_helm_cannot_render() {
    let mut snapshot = snapshot_of_upgrade();
    let read = requested(&complete(&mut snapshot)).unwrap();
    respond(&mut snapshot, read, Response::RenderedCrds(Err("helm cannot render openstack/store".into())));
    let plan = complete(&mut snapshot);
    let why = "osdpl can't find out which CRDs helm would change: helm cannot render openstack/store";
    assert_eq!(step(&plan), why);
    assert!(plan.requeue_at.is_some());
}

#[test]
fn whoever_approves_an_upgrade_learns_that_helm_cannot_render_the_chart() {
    let mut snapshot = snapshot_of_upgrade();
    let record = snapshot.observed.releases.values_mut().next().unwrap();
    record.catalog = Some("an older catalogue".into());
    let read = requested(&complete(&mut snapshot)).unwrap();
    respond(&mut snapshot, read, Response::SlowRender("helm did not render openstack/store".into()));
    let plan = complete(&mut snapshot);
    assert!(step(&plan).contains("waits for approval"), "{}", step(&plan));
    let findings: Vec<String> = plan.findings.iter().map(ToString::to_string).collect();
    assert!(findings.iter().any(|finding| finding.contains("helm did not render openstack/store")), "{findings:?}");
}

#[test]
fn a_postponed_render_is_no_failure() {
    let mut snapshot = snapshot_of_upgrade();
    let read = requested(&complete(&mut snapshot)).unwrap();
    respond(&mut snapshot, read, Response::PostponedRender);
    let plan = complete(&mut snapshot);
    let is_pending = |step: &Step| matches!(step, Step::Wait(Wait::Blocked { reason, .. }) if reason == "ChartPending");
    assert!(plan.releases.decisions.values().any(|decision| is_pending(&decision.step)), "{:?}", plan.releases);
    assert!(plan.requeue_at.is_some());
}

#[test]
fn repeats_a_slow_render_rarely() {
    let until = |response| Received { response, at: Timestamp::UNIX_EPOCH, fresh: true }.until().unwrap().as_second();
    assert_eq!(until(Response::RenderedCrds(Err("a template is invalid".into()))), 30);
    assert_eq!(until(Response::SlowRender("helm did not render the chart within 20 s".into())), 180);
}

#[test]
fn renders_only_charts_that_may_change_crds() {
    let key = ReleaseKey::new("openstack", "store");
    let is_rendered = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = snapshot_of_upgrade();
        change(&mut snapshot);
        requested(&complete(&mut snapshot)).is_some()
    };
    assert!(is_rendered(&|_| {}));
    assert!(!is_rendered(&|snapshot| snapshot.charts.crd_templates.clear()), "the templates contain no CRD");
    let values = json!({"values": {"extraObjects": [{"kind": "CustomResourceDefinition"}]}});
    let services = json!({"store": {"releases": {"store": values}}});
    assert!(is_rendered(&|snapshot| {
        snapshot.charts.crd_templates.clear();
        snapshot.deployment.spec.services = serde_json::from_value(services.clone()).unwrap();
    }));
    let install = |snapshot: &mut Snapshot| snapshot.observed.releases.clear();
    assert!(!is_rendered(&install), "helm refuses to install over a CRD of someone else");
    assert!(is_rendered(&|snapshot| {
        install(snapshot);
        let left = AbandonedCrd { name: CRD.into(), resource_version: None, owner: key.clone() };
        respond(snapshot, Read::AbandonedCrds(key.clone()), Response::AbandonedCrds(Ok(vec![left])));
    }));
}
