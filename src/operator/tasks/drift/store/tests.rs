use std::sync::Arc;

use kube::runtime::watcher::Event;
use serde_json::json;

use super::*;
use osdpl_core::drift::{ExpectedFields, ToleratedChanges, find_kind};
use osdpl_core::observed::{Attempt, Liveness, RecordBody};

fn id(name: &str) -> ObjectId {
    ObjectId { kind: find_kind("v1", "Service").unwrap(), namespace: "openstack".into(), name: name.into() }
}

/// Returns a release in the given status with one Service. osdpl made the newest revision of the release.
fn release(status: Status) -> ObservedRelease {
    let body = RecordBody {
        applied_objects: Arc::new([(id("api"), ExpectedFields::default())].into()),
        ..RecordBody::default()
    };
    let attempt = Attempt { label: "me".into(), revision: 1, owner: Liveness::Us };
    ObservedRelease { status, revision: 1, attempt: Some(attempt), body: Some(body), ..ObservedRelease::default() }
}

fn head(name: &str) -> Event<ObjectHead> {
    let object = json!({"metadata": {"name": name, "namespace": "openstack", "resourceVersion": "1"}});
    Event::Apply(serde_json::from_value(object).unwrap())
}

/// Applies `updates` to a store with one watch, and returns the objects that look changed.
fn suspects(updates: Vec<Update<ObjectHead>>, status: Status, scope: &Scope) -> Option<Vec<String>> {
    let (mut store, kind, key) = (Store::default(), id("api").kind, ReleaseKey::new("openstack", "keystone"));
    store.add(kind, 0);
    for update in updates {
        store.take(kind, 0, update, |head: &ObjectHead| {
            Some(WriterTrace::read(&head.writers, &ToleratedChanges::default()))
        });
    }
    let suspects = store.suspects(&[(&key, &release(status))], scope)?;
    Some(suspects.into_iter().map(|suspect| suspect.id.name).collect())
}

#[test]
fn waits_until_every_readable_kind_is_listed() {
    let all = |updates| suspects(updates, Status::Deployed, &Scope::All);
    assert_eq!(all(vec![Event::Init.into()]), None, "there is no result before the first list is complete");
    assert_eq!(all(vec![Event::Init.into(), Event::InitDone.into()]), Some(vec!["api".to_owned()]));
    assert_eq!(all(vec![Event::Init.into(), Event::InitDone.into(), head("api").into()]), Some(Vec::new()));
    assert_eq!(
        all(vec![Update::Failed]),
        Some(Vec::new()),
        "an object does not look changed while the API server has not listed its kind"
    );
}

#[test]
fn checks_only_deployed_releases_in_scope() {
    let listed = || vec![Event::Init.into(), Event::InitDone.into()];
    assert_eq!(suspects(listed(), Status::PendingUpgrade, &Scope::All), Some(Vec::new()));
    assert_eq!(suspects(listed(), Status::Failed, &Scope::All), Some(Vec::new()));
    let elsewhere = Scope::Namespaces(vec!["elsewhere".into()]);
    assert_eq!(suspects(listed(), Status::Deployed, &elsewhere), Some(Vec::new()));
}
