use std::sync::Mutex;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use serde_json::{Value, json};

use super::*;
use osdpl_core::drift::kind;
use osdpl_core::observed::BodySeen;
use osdpl_core::release::Status;

/// What the API server has: whether the Service is there, and the release's records.
#[derive(Clone, Default)]
struct Truth(Arc<Mutex<(bool, Records)>>);

type Records = Vec<(i64, Status)>;

impl Truth {
    fn is(&self, service: bool, records: &[(i64, Status)]) {
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

async fn service(State(truth): State<Truth>, Path(name): Path<String>) -> Response {
    if !truth.0.lock().unwrap().0 {
        let status =
            json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "gone"});
        return (StatusCode::NOT_FOUND, status.to_string()).into_response();
    }
    json!({"metadata": {"name": name, "namespace": "openstack", "resourceVersion": "1"}}).to_string().into_response()
}

async fn records(State(truth): State<Truth>) -> Response {
    let record = |(revision, status): &(i64, Status)| -> Value {
        let labels =
            json!({"owner": "helm", "name": "store", "version": revision.to_string(), "status": status.to_string()});
        json!({"metadata": {"name": format!("sh.helm.release.v1.store.v{revision}"), "labels": labels}})
    };
    let items: Vec<_> = truth.0.lock().unwrap().1.iter().map(record).collect();
    json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items})
        .to_string()
        .into_response()
}

fn id() -> Id {
    Id { kind: kind("v1", "Service").unwrap(), namespace: "openstack".into(), name: "store".into() }
}

/// What the watch of records has told: this revision is deployed, with one Service.
fn deployed(revision: i64) -> ReleaseSeen {
    let left = Arc::new([(id(), Left::default())].into());
    ReleaseSeen {
        status: Status::Deployed.to_string(),
        revision,
        body: Some(BodySeen { left, ..BodySeen::default() }),
        ..ReleaseSeen::default()
    }
}

/// What is found of the Service, which its watch has told gone, once all that is asked for was answered.
async fn found(checks: &mut Checks, seen: &ReleaseSeen) -> Vec<String> {
    let key = Key::new("openstack", "store");
    let suspects = [Suspect { release: key.clone(), id: id(), trace: None }];
    let (_, looks) = checks.found(&[(&key, seen)], &suspects, 4);
    for looked in join_all(looks).await {
        checks.keep(looked);
    }
    let (found, looks) = checks.found(&[(&key, seen)], &suspects, 4);
    assert!(looks.is_empty(), "the same is asked once");
    found[&key].objects.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn an_object_that_helm_is_at_is_judged_when_its_record_is_known_whichever_watch_tells_first() {
    let (truth, nothing) = (Truth::default(), Vec::<String>::new());

    // The object's watch tells first: helm has recorded what it began, and the watch of records is late.
    let mut checks = truth.checks();
    truth.is(false, &[(1, Status::Deployed), (2, Status::PendingUpgrade)]);
    assert_eq!(found(&mut checks, &deployed(1)).await, nothing);
    assert!(checks.is_unsettled(), "it is looked at again, should no watch ever tell of it");
    truth.is(false, &[(1, Status::Superseded), (2, Status::Deployed)]);
    assert_eq!(found(&mut checks, &deployed(2)).await, ["Service store was deleted"], "helm is done, and it is gone");
    assert!(!checks.is_unsettled());

    // The record's watch tells first: the object is there again, and its watch is late.
    let mut checks = truth.checks();
    truth.is(true, &[(1, Status::Superseded), (2, Status::Deployed)]);
    assert_eq!(found(&mut checks, &deployed(2)).await, nothing);
    assert!(!checks.is_unsettled());

    // Nobody's helm was there.
    let mut checks = truth.checks();
    truth.is(false, &[(1, Status::Deployed)]);
    assert_eq!(found(&mut checks, &deployed(1)).await, ["Service store was deleted"]);
}
