use std::sync::Arc;

use kube::runtime::watcher::Event;
use serde_json::json;

use super::*;
use osdpl_core::drift::{Left, Tolerated, kind};
use osdpl_core::observed::{AttemptSeen, BodySeen, Owner};

fn id(name: &str) -> Id {
    Id { kind: kind("v1", "Service").unwrap(), namespace: "openstack".into(), name: name.into() }
}

/// Returns a release of this operator with one Service, in the given status.
fn release(status: &str) -> ReleaseSeen {
    let body = BodySeen { left: Arc::new([(id("api"), Left::default())].into()), ..BodySeen::default() };
    let attempt = AttemptSeen { instance: "me".into(), revision: 1, owner: Owner::Us };
    ReleaseSeen {
        status: status.into(),
        revision: 1,
        attempt: Some(attempt),
        body: Some(body),
        ..ReleaseSeen::default()
    }
}

fn head(name: &str) -> Event<Head> {
    let object = json!({"metadata": {"name": name, "namespace": "openstack", "resourceVersion": "1"}});
    Event::Apply(serde_json::from_value(object).unwrap())
}

/// Returns the suspects of a store with one watch after these updates.
fn suspects(updates: Vec<Update<Head>>, status: &str, scope: &Scope) -> Option<Vec<String>> {
    let (mut store, kind, key) = (Store::default(), id("api").kind, Key::new("openstack", "keystone"));
    store.add(kind, 0);
    for update in updates {
        store.take(kind, 0, update, |head: &Head| Some(Trace::read(&head.writers, &Tolerated::default())));
    }
    let suspects = store.suspects(&[(&key, &release(status))], scope)?;
    Some(suspects.into_iter().map(|suspect| suspect.id.name).collect())
}

#[test]
fn waits_until_every_readable_kind_is_listed() {
    let all = |updates| suspects(updates, "deployed", &Scope::All);
    assert_eq!(all(vec![Event::Init.into()]), None, "still being listed");
    assert_eq!(all(vec![Event::Init.into(), Event::InitDone.into()]), Some(vec!["api".to_owned()]));
    assert_eq!(all(vec![Event::Init.into(), Event::InitDone.into(), head("api").into()]), Some(Vec::new()));
    assert_eq!(all(vec![Update::Failed]), Some(Vec::new()), "a kind that may not be read has no suspects");
}

#[test]
fn checks_only_deployed_releases_in_scope() {
    let listed = || vec![Event::Init.into(), Event::InitDone.into()];
    assert_eq!(suspects(listed(), "pending-upgrade", &Scope::All), Some(Vec::new()));
    assert_eq!(suspects(listed(), "failed", &Scope::All), Some(Vec::new()));
    let elsewhere = Scope::Namespaces(vec!["elsewhere".into()]);
    assert_eq!(suspects(listed(), "deployed", &elsewhere), Some(Vec::new()));
}
