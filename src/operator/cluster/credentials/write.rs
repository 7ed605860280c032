//! Our Secrets: whose hand was at one, and how one is written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use super::{Edits, Store};
use crate::cluster::{Error, Explain, MANAGER};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::credentials::{self, RestoredSecret};
use osdpl_core::desired::Selection;

/// Names the keys of our Secret that hold what was true before the user named a Secret with another value, separated by commas. It stands in the
/// cluster because that is true for longer than any memory of ours: until the user's is named no more, and releases were asked what they run with.
const OUTDATED: &str = "osdpl.dev/outdated";

impl Store<'_> {
    /// Marks what our Secret holds of a service otherwise than it is given.
    pub(super) async fn outdate(&self, service: &str, given: &BTreeMap<String, String>) -> Result<(), Error> {
        let Selection { name, namespace, .. } = self.question.selection;
        let secret = self.own.known(namespace, &credentials::secret_name(name, service));
        let Some(mut secret) = secret.filter(|_| !self.cluster.only_reads) else { return Ok(()) };
        if outdate(&mut secret, given) { self.store(&secret, true).await } else { Ok(()) }
    }

    /// Creates or replaces our Secret.
    async fn store(&self, secret: &Secret, exists: bool) -> Result<(), Error> {
        let (name, namespace) = (secret.name_any(), &self.question.selection.namespace);
        let api: Api<Secret> = Api::namespaced(self.cluster.client.clone(), namespace);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        // Both forms fail when someone else was faster (create: exists; replace: its resourceVersion), and the next pass reads again.
        let written =
            if exists { api.replace(&name, &params, secret).await } else { api.create(&params, secret).await };
        if written.is_err() {
            self.own.forget(namespace, &name);
        }
        self.own.put(written.because(|| format!("storing credentials in Secret {name}"))?);
        Ok(())
    }

    /// Stores the data, and notes what was put back with it; a gate that only reads does neither.
    pub(super) async fn write(
        &self,
        restored: RestoredSecret,
        known: Option<Secret>,
        data: BTreeMap<String, ByteString>,
        edits: &mut Edits,
    ) -> Result<(), Error> {
        if self.cluster.only_reads {
            return Ok(());
        }
        let exists = known.is_some();
        let mut secret = known.unwrap_or_default();
        secret.metadata.name = Some(restored.secret.clone());
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.insert(DEPLOYMENT_LABEL.into(), self.question.selection.name.clone());
        labels.insert("app.kubernetes.io/managed-by".into(), MANAGER.into());
        secret.data = Some(data);
        self.store(&secret, exists).await?;
        if !restored.keys.is_empty() {
            tracing::warn!("{restored}");
            edits.restored.push(restored);
        }
        Ok(())
    }
}

/// Whether the watch on our Secrets sees it.
pub fn is_labelled(secret: &Secret, deployment: &str) -> bool {
    secret.labels().get(DEPLOYMENT_LABEL).is_some_and(|owner| owner == deployment)
}

/// Whether a field manager other than ours owns this key of the data: it wrote it last.
pub fn is_edited(secret: &Secret, key: &str) -> bool {
    let field = format!("f:{key}");
    secret.metadata.managed_fields.iter().flatten().any(|entry| {
        let owns = entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:data"].get(&field).is_some());
        owns && entry.manager.as_deref() != Some(MANAGER)
    })
}

/// Whether a key holds what was true before another value was given.
pub fn is_outdated(secret: &Secret, key: &str) -> bool {
    outdated(secret).contains(key)
}

/// Takes the mark from a key; returns whether it had one.
pub fn renew(secret: &mut Secret, key: &str) -> bool {
    let mut keys = outdated(secret);
    let was_marked = keys.remove(key);
    mark(secret, keys);
    was_marked
}

/// Marks the keys that hold something else than is given; returns whether one was not marked before.
fn outdate(secret: &mut Secret, given: &BTreeMap<String, String>) -> bool {
    let known = outdated(secret);
    let data = secret.data.iter().flatten();
    let differs = |key: &String, held: &ByteString| given.get(key).is_some_and(|value| value.as_bytes() != held.0);
    let keys: BTreeSet<String> = data.filter(|(key, held)| differs(key, held)).map(|(key, _)| key.clone()).collect();
    let keys: BTreeSet<String> = known.union(&keys).cloned().collect();
    let changed = keys != known;
    mark(secret, keys);
    changed
}

fn outdated(secret: &Secret) -> BTreeSet<String> {
    let keys = secret.annotations().get(OUTDATED).into_iter().flat_map(|keys| keys.split(','));
    keys.filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

fn mark(secret: &mut Secret, keys: BTreeSet<String>) {
    if keys.is_empty() {
        secret.annotations_mut().remove(OUTDATED);
    } else {
        secret.annotations_mut().insert(OUTDATED.into(), keys.into_iter().collect::<Vec<_>>().join(","));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ours_holds_is_outdated_from_another_value_on_until_it_is_renewed() {
        let data = [("root", "a"), ("audit", "b")].map(|(key, value)| (key.to_owned(), ByteString(value.into())));
        let mut secret = Secret { data: Some(data.into()), ..Secret::default() };
        let given = |value: &str| BTreeMap::from([("root", value), ("sst", "c")].map(|(k, v)| (k.into(), v.into())));
        assert!(!outdate(&mut secret, &given("a")), "it is the same");
        assert!(outdate(&mut secret, &given("other")));
        assert!(!outdate(&mut secret, &given("other")), "it is written once");
        // Given back to what it was, releases may still run with the other.
        assert!(!outdate(&mut secret, &given("a")));
        let marked = |secret: &Secret| ["root", "audit", "sst"].map(|key| is_outdated(secret, key));
        assert_eq!(marked(&secret), [true, false, false]);
        assert!(renew(&mut secret, "root") && !renew(&mut secret, "root"));
        assert_eq!(marked(&secret), [false; 3]);
        assert!(!secret.annotations().contains_key(OUTDATED));
    }
}
