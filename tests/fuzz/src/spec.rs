//! Fuzz target for specs, as osdpl reads them in three places: a file for `osdpl validate`, a review of the webhook,
//! and a pass of the operator.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use k8s_openapi::jiff::Timestamp;
use osdpl_core::api::{FINALIZER, OpenStackDeployment};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::ChartInfo;
use osdpl_core::observed::{ClusterInfo, Observed, ReleaseKey};
use osdpl_decide::{Action, ChartState, Charts, Helm, Hold, Kept, Objects, Plan, Read, Received, Response, Responses};
use osdpl_decide::{Snapshot, Stored, decide};
use osdpl_lint::validate::{ReviewInput, Schemas, manifests, report, split_documents};
use serde_json::{Value, json};

static CATALOG: LazyLock<Arc<Catalog>> = LazyLock::new(|| {
    let catalog = Catalog::load(&osdpl_core::files::built_in());
    Arc::new(catalog.expect("the built-in catalogue is valid"))
});
static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| Schemas::new(&CATALOG).expect("the built-in schemas are valid"));

/// The maximum number of passes for one spec.
const PASSES: usize = 4;

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let documents = split_documents("cloud.yaml", text);
    let cluster_info = ClusterInfo::default();
    drop(report(&documents, &|_| (&**CATALOG, &*SCHEMAS), &cluster_info, Some(Timestamp::UNIX_EPOCH)));
    let manifests = manifests(&documents);
    let review = ReviewInput {
        catalog: &CATALOG,
        schemas: &SCHEMAS,
        manifests: &[],
        cluster_info: &cluster_info,
        now: Some(Timestamp::UNIX_EPOCH),
    };
    // Review only the first resource of the file, because more resources would only take more time.
    if let Some(object) = manifests.into_iter().find(|object| object["kind"] == "OpenStackDeployment") {
        drop(review.admission(&json!({"request": {"uid": "1", "object": object, "oldObject": null}}), true));
        if let Ok(deployment) = serde_json::from_value(object) {
            install(deployment);
        }
    }
}

/// Decides what the operator does in the first passes of a new cloud. After each pass, the charts and objects that the
/// pass requested become available.
fn install(mut deployment: OpenStackDeployment) {
    deployment.metadata.name.get_or_insert_with(|| "cloud".to_owned());
    deployment.metadata.namespace.get_or_insert_with(|| "openstack".to_owned());
    deployment.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    let mut snapshot = snapshot(deployment);
    for _ in 0..PASSES {
        let plan = decide(&snapshot);
        match plan.hold {
            Some(Hold::Objects | Hold::Watch) => return,
            Some(Hold::Reads | Hold::Actions | Hold::Charts) | None => respond(&mut snapshot, plan),
        }
    }
}

fn snapshot(deployment: OpenStackDeployment) -> Snapshot {
    Snapshot {
        now: Timestamp::UNIX_EPOCH,
        deployment,
        catalog: Arc::clone(&CATALOG),
        catalog_findings: Vec::new(),
        helm: Helm { major: 4, free_slots: 8, rendering: 0, cores: 4, idle: true },
        charts: Charts::default(),
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
        uninstalled: std::collections::BTreeSet::new(),
        kept: Kept::default(),
        assumed: None,
    }
}

/// Adds to the snapshot what a plan requests (responses, objects and charts), and the credentials that the plan stores.
fn respond(snapshot: &mut Snapshot, plan: Plan) {
    for read in &plan.requests.reads {
        let response = match read {
            Read::Stored(_) => Response::Stored(Stored::Nothing),
            Read::AbandonedCrds(_) => Response::AbandonedCrds(Ok(Vec::new())),
            Read::RenderedCrds { .. } => Response::RenderedCrds(Ok([].into())),
            Read::Crd(_) => Response::Crd(Ok(None)),
            _ => Response::Objects(Vec::new()),
        };
        snapshot.responses.insert(read.clone(), Received { response, at: snapshot.now, fresh: true });
    }
    let data: BTreeMap<_, _> =
        ["ca.crt", "tls.crt", "password", "key"].map(|key| (key.to_owned(), b"x".to_vec())).into();
    for reference in plan.requests.objects {
        snapshot.objects.named.insert(reference, osdpl_decide::ObjectState::Read(Arc::new(data.clone())));
    }
    for (release, request) in plan.requests.charts {
        let info = ChartInfo { version: "1.0.0".into(), digest: "sha256:1".into(), ..ChartInfo::default() };
        snapshot.charts.known.insert(release, (request, ChartState::Ready(info)));
    }
    for planned in plan.actions {
        if let Action::StoreCredentials(write) = planned.action {
            let mut secret = write.secret.clone();
            for key in write.generated.keys() {
                secret.data.get_or_insert_default().insert(key.clone(), k8s_openapi::ByteString(b"generated".to_vec()));
            }
            snapshot.objects.secrets.insert(ReleaseKey::new(write.namespace(), write.name()), Arc::new(secret));
        }
    }
    snapshot.kept = plan.kept;
}

pub fn seeds() -> Vec<Vec<u8>> {
    let samples = ["minimal", "ha", "storage", "rook", "maintenance"];
    let mut seeds: Vec<Vec<u8>> =
        samples.map(|name| crate::read(&format!("deploy/samples/{name}.yaml")).into_bytes()).into();
    let fields = json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "cloud", "namespace": "openstack"},
        "spec": {
            "openstackRelease": "2026.1", "presets": ["core"], "publicDomain": "cloud.example.org", "region": "R1",
            "approval": "Always", "deletionPolicy": "Purge", "drift": "Repair", "storageClass": "fast", "paused": true,
            "catalog": [{"name": "edge", "digest": "sha256:0"}],
            "common": {"all": {"values": {"conf": {"debug": null}}}},
            "images": {"registry": "registry.example.org"},
            "nodes": {"roles": {"compute": {"selector": {"matchLabels": {"rack": "a"}}}}},
            "services": {"keystone": {
                "enabled": true, "credentials": {"admin": {"secretKeyRef": {"name": "own", "key": "password"}}},
                "releases": {"keystone": {"namespace": "identity", "version": "2026.1.0", "values": {"pod": {"replicas": {"api": 2}}},
                                          "valuesFrom": [{"kind": "ConfigMap", "name": "more"}], "drift": "Ignore", "paused": true}},
            }},
        },
    });
    let values: Vec<Value> = (0..3).map(|_| fields.clone()).collect();
    seeds.push(fields.to_string().into_bytes());
    seeds.push(json!({"apiVersion": "v1", "kind": "List", "items": values}).to_string().into_bytes());
    seeds
}
