//! Checks that no Secret with passwords or keys changes after it has got its first content.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::world::{World, with_timeout};

/// The parts of a Secret that the test compares: its uid and data.
type Content = (Option<String>, BTreeMap<String, ByteString>);

/// Watches the Secrets with passwords or keys in the namespace of a test, and writes keys in place of Jobs.
pub struct Keys {
    secrets: Api<Secret>,
    state: Arc<Mutex<State>>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Default)]
struct State {
    first: BTreeMap<String, Content>,
    changes: Vec<String>,
    /// Whether osdpl may delete its copies of Ceph's keys, see [`is_copy`].
    may_lose_copies: bool,
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Keys {
    /// Starts to watch the Secrets with passwords or keys. Also writes the keys that a chart's Job would write, because
    /// simulated pods run no programs: when the Job `NAME-setup` has succeeded, the empty Secret `NAME-keys` gets a
    /// key.
    pub fn watch(world: &World) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let observer = tokio::spawn(observe(world.api(), Arc::clone(&state)));
        let writer = tokio::spawn(fill(world.api(), world.api()));
        Self { secrets: world.api(), state, tasks: [observer, writer] }
    }

    /// Allows that osdpl deletes its copies of Ceph's keys from now on. Their content still must not change.
    pub fn allow_deletion_of_copies(&self) {
        self.state.lock().unwrap().may_lose_copies = true;
    }

    /// Checks that no watched Secret has changed, was replaced or was deleted, and that the Secrets in `filled` have
    /// keys. First waits until the watch has reported every Secret. Then compares the present content of each Secret
    /// with its first content.
    pub async fn check(&self, filled: &[&str]) {
        let what =
            format!("the Secrets {filled:?} are filled, and the watch has reported all Secrets with passwords or keys");
        let present = with_timeout(&what, async {
            loop {
                let present = self.present().await;
                let is_filled = |name: &&str| present.contains_key(*name);
                if filled.iter().all(is_filled) && self.state.lock().unwrap().has_seen(&present) {
                    return present;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let present = present.await;
        let mut state = self.state.lock().unwrap();
        state.compare(&present);
        assert!(state.changes.is_empty(), "no password or key may change: {:?}", state.changes);
        assert!(!state.first.is_empty(), "the watch must have seen passwords or keys");
    }

    /// Returns the present content of each watched Secret that has data.
    async fn present(&self) -> BTreeMap<String, Content> {
        let secrets = self.secrets.list(&ListParams::default()).await.unwrap().items.into_iter();
        let watched = secrets.filter(is_watched);
        watched.map(|secret| (secret.name_any(), content(&secret))).filter(|(_, now)| !now.1.is_empty()).collect()
    }
}

fn content(secret: &Secret) -> Content {
    (secret.uid(), secret.data.clone().unwrap_or_default())
}

fn is_watched(secret: &Secret) -> bool {
    let name = secret.name_any();
    name.contains("-credentials-") || name.ends_with("-keys") || is_copy(&name)
}

/// Whether a Secret with this name contains a copy of the key of a Ceph user. The original is in the Secret that
/// describes Ceph, which the operator never deletes. So the operator deletes the copy with the cloud, even with the
/// policy `Retain`.
fn is_copy(name: &str) -> bool {
    name.ends_with("-keyring")
}

async fn observe(secrets: Api<Secret>, state: Arc<Mutex<State>>) {
    let mut events = pin!(watch(secrets, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let mut state = state.lock().unwrap();
        match event {
            Ok(Event::Apply(secret) | Event::InitApply(secret)) if is_watched(&secret) => {
                state.note(&secret);
            }
            Ok(Event::Delete(secret)) if state.must_exist(&secret.name_any()) => {
                state.changes.push(format!("{} was deleted", secret.name_any()));
            }
            _ => {}
        }
    }
}

impl State {
    /// Whether the watch has seen data of the Secret, and the Secret must not be deleted.
    fn must_exist(&self, name: &str) -> bool {
        self.first.contains_key(name) && !(self.may_lose_copies && is_copy(name))
    }

    /// Records the first content of a Secret. If the Secret has a first content already, records whether the Secret now
    /// differs from it. The recorded text contains no password or key.
    fn note(&mut self, secret: &Secret) {
        let now = content(secret);
        match self.first.get(&secret.name_any()) {
            Some(first) if first.0 != now.0 => self.changes.push(format!("{} was replaced", secret.name_any())),
            Some(first) if first.1 != now.1 => self.changes.push(format!("{} was changed", secret.name_any())),
            None if !now.1.is_empty() => drop(self.first.insert(secret.name_any(), now)),
            Some(_) | None => {}
        }
    }

    /// Whether the watch has reported data of each Secret in `present`.
    fn has_seen(&self, present: &BTreeMap<String, Content>) -> bool {
        present.keys().all(|name| self.first.contains_key(name))
    }

    /// Compares the present content of each Secret with its first content. This comparison finds even a change that the
    /// watch has not reported yet.
    fn compare(&mut self, present: &BTreeMap<String, Content>) {
        for (name, first) in &self.first {
            match present.get(name) {
                None if self.must_exist(name) => {
                    self.changes.push(format!("{name} is gone, or has no content any more"));
                }
                Some(now) if now != first => self.changes.push(format!("{name} is not what it was at first")),
                None | Some(_) => {}
            }
        }
    }
}

#[test]
fn compares_the_last_list_with_the_first_content() {
    let content =
        |uid: &str, key: &str| -> Content { (Some(uid.to_owned()), [("0".to_owned(), ByteString(key.into()))].into()) };
    let changes = |name: &str, may_lose_copies: bool, now: Option<Content>| {
        let first = [(name.to_owned(), content("1", "key"))].into();
        let mut state = State { first, may_lose_copies, ..State::default() };
        state.compare(&now.map(|now| (name.to_owned(), now)).into_iter().collect());
        state.changes.len()
    };
    for (name, may_lose_copies, lost) in [
        ("keystone-fernet-keys", false, 1),
        ("keystone-fernet-keys", true, 1),
        ("images-rbd-keyring", false, 1),
        ("images-rbd-keyring", true, 0),
    ] {
        assert_eq!(changes(name, may_lose_copies, Some(content("1", "key"))), 0);
        assert_eq!(changes(name, may_lose_copies, Some(content("1", "other"))), 1);
        assert_eq!(changes(name, may_lose_copies, Some(content("2", "key"))), 1);
        assert_eq!(changes(name, may_lose_copies, None), lost, "{name}");
    }
}

async fn fill(jobs: Api<Job>, secrets: Api<Secret>) {
    let mut events = pin!(watch(jobs, watcher::Config::default()).default_backoff().applied_objects());
    while let Some(event) = events.next().await {
        let Ok(job) = event else { continue };
        let succeeded = job.status.as_ref().is_some_and(|status| status.succeeded > Some(0));
        let Some(name) = job.name_any().strip_suffix("-setup").map(|name| format!("{name}-keys")) else { continue };
        let secret = if succeeded { secrets.get_opt(&name).await.unwrap() } else { None };
        if secret.is_some_and(|secret| secret.data.unwrap_or_default().is_empty()) {
            let key = Patch::Merge(json!({"stringData": {"0": format!("key of {}", job.uid().unwrap())}}));
            secrets.patch(&name, &PatchParams::default(), &key).await.unwrap();
        }
    }
}
