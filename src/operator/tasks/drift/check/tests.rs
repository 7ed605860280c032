use std::sync::Mutex;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use serde_json::{Value, json};

use super::*;
use osdpl_core::drift::find_kind;
use osdpl_core::observed::RecordBody;
use osdpl_core::release::Status;

/// The state of the fake API server: whether the release's only Service exists, and the records of the release.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<(bool, Records)>>);

type Records = Vec<(i64, Status)>;

impl Cluster {
    fn set(&self, service: bool, records: &[(i64, Status)]) {
        *self.0.lock().unwrap() = (service, records.to_vec());
    }

    fn checks(&self) -> Checks {
        let router = Router::new()
            .route("/api/v1/namespaces/openstack/services/{name}", axum::routing::get(service))
            .route("/api/v1/namespaces/openstack/secrets", axum::routing::get(records))
            .with_state(self.clone());
        Checks::new(Client::new(router, "openstack"), Arc::default(), Problems::default())
    }
}

async fn service(State(cluster): State<Cluster>, Path(name): Path<String>) -> Response {
    if !cluster.0.lock().unwrap().0 {
        let status =
            json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "gone"});
        return (StatusCode::NOT_FOUND, status.to_string()).into_response();
    }
    json!({"metadata": {"name": name, "namespace": "openstack", "resourceVersion": "1"}}).to_string().into_response()
}

async fn records(State(cluster): State<Cluster>) -> Response {
    let record = |(revision, status): &(i64, Status)| -> Value {
        let labels =
            json!({"owner": "helm", "name": "store", "version": revision.to_string(), "status": status.to_string()});
        json!({"metadata": {"name": format!("sh.helm.release.v1.store.v{revision}"), "labels": labels}})
    };
    let items: Vec<_> = cluster.0.lock().unwrap().1.iter().map(record).collect();
    json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items})
        .to_string()
        .into_response()
}

fn id() -> ObjectId {
    ObjectId { kind: find_kind("v1", "Service").unwrap(), namespace: "openstack".into(), name: "store".into() }
}

/// Returns a release with one Service, in the state after the watch on records has reported `revision` as deployed.
fn deployed(revision: i64) -> ObservedRelease {
    let left = Arc::new([(id(), ExpectedFields::default())].into());
    ObservedRelease {
        status: Status::Deployed,
        revision,
        body: Some(RecordBody { applied_objects: left, ..RecordBody::default() }),
        ..ObservedRelease::default()
    }
}

/// Checks a Service that the watch has reported as deleted, and returns the confirmed drift.
async fn found(checks: &mut Checks, release: &ObservedRelease) -> Vec<String> {
    let key = ReleaseKey::new("openstack", "store");
    let suspects = [Suspect { release: key.clone(), id: id(), trace: None }];
    let (_, results) = checks.found(&[(&key, release)], &suspects, 4);
    for result in join_all(results).await {
        checks.store_result(result);
    }
    let (found, results) = checks.found(&[(&key, release)], &suspects, 4);
    assert!(results.is_empty(), "while the suspicion stays the same, the object is not checked again");
    found[&key].objects.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn waits_for_the_record_before_it_reports_drift() {
    let (cluster, nothing) = (Cluster::default(), Vec::<String>::new());

    // helm has recorded upgrade 2 and deleted the Service, which is no drift. The watch on the Service has reported the
    // deletion, but the watch on records has not reported upgrade 2 yet.
    let mut checks = cluster.checks();
    cluster.set(false, &[(1, Status::Deployed), (2, Status::PendingUpgrade)]);
    assert_eq!(found(&mut checks, &deployed(1)).await, nothing);
    assert!(checks.is_unsettled(), "the object is checked again later");
    cluster.set(false, &[(1, Status::Superseded), (2, Status::Deployed)]);
    assert_eq!(
        found(&mut checks, &deployed(2)).await,
        ["Service store was deleted"],
        "if the Service is still missing after the upgrade, its deletion is drift"
    );
    assert!(!checks.is_unsettled());

    // helm has created the Service again in upgrade 2, so there is no drift. The watch on records has reported revision
    // 2, but the watch on the Service has not reported the new Service yet.
    let mut checks = cluster.checks();
    cluster.set(true, &[(1, Status::Superseded), (2, Status::Deployed)]);
    assert_eq!(found(&mut checks, &deployed(2)).await, nothing);
    assert!(!checks.is_unsettled());

    // helm has not worked on the release since revision 1, so someone else has deleted the Service.
    let mut checks = cluster.checks();
    cluster.set(false, &[(1, Status::Deployed)]);
    assert_eq!(found(&mut checks, &deployed(1)).await, ["Service store was deleted"]);
}
