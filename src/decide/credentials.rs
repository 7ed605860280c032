//! Collects the credentials of the cloud from three sources: Secrets of the user, osdpl's own Secrets, and release
//! records. Plans to generate missing credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::action::{Action, Planned, SecretWrite};
use super::draft::Draft;
use super::requests::{Read, Reference, Response, Stored};
use osdpl_core::api::{DEPLOYMENT_LABEL, MANAGER, OpenStackDeploymentSpec, ValuesKind};
use osdpl_core::catalog::file;
use osdpl_core::credentials::{self, Name, RestoredSecret};
use osdpl_core::desired::Selection;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::status;
use osdpl_values::{CollectSorted, Values};

/// The annotation in which osdpl lists those keys of its Secret that have outdated values, separated by commas.
///
/// A value is outdated if the spec names a Secret of the user, and that Secret contains another value. The key stays in
/// the list until the spec no longer names the user's Secret and osdpl has compared the outdated value with the release
/// records. The operator may restart before this comparison, so osdpl stores the list in the cluster.
const OUTDATED: &str = "osdpl.dev/outdated";

/// The credentials of a cloud.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Credentials {
    /// The values of the available credentials, by service and name of the credential.
    pub(crate) known: BTreeMap<String, BTreeMap<String, String>>,
    /// The credentials that are not available, each with a message that contains the reason and the remedy.
    pub(crate) missing: BTreeMap<Name, String>,
}

/// Collects the credentials that the selected releases need.
///
/// If the spec names no Secret of the user for a credential, osdpl stores the credential in its own Secret for the
/// service. The function plans to store this Secret if the Secret must change.
pub(crate) fn collect(
    draft: &mut Draft<'_>,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
    observed: &Observed,
) -> Credentials {
    let mut services: BTreeMap<String, ServiceCredentials> = BTreeMap::new();
    let mut found = Credentials::default();
    for (name, recipe) in credentials::list_needed_credentials(draft.catalog(), selection) {
        let service = services.entry(name.0.clone()).or_default();
        let Some(key) = credentials::user_secret(spec, &name) else {
            service.ours.insert(name, recipe);
            continue;
        };
        let namespace = selection.namespace.clone();
        let reference = Reference { kind: ValuesKind::Secret, namespace, name: key.name.clone() };
        let bytes = draft.snapshot.objects.get(&reference, &key.key).map_err(|problem| problem.to_string());
        match bytes.and_then(|bytes| one_line(bytes, &reference, &key.key)) {
            Ok(value) => {
                service.given.insert(name.1.clone(), value.clone());
                found.known.entry(name.0).or_default().insert(name.1, value);
            }
            Err(problem) => drop(found.missing.insert(name, problem)),
        }
    }
    let mut search = Search { draft, spec, selection, observed, records: BTreeMap::new(), found };
    for (name, service) in services {
        search.service(&name, &service);
    }
    search.found
}

/// Whether the operator generates credentials when it executes the actions of the draft.
///
/// If so, the pass does nothing else: the values of releases contain these credentials, so osdpl can't compute the
/// values yet.
pub(crate) fn are_generated(draft: &Draft<'_>) -> bool {
    draft
        .actions
        .iter()
        .any(|planned| matches!(&planned.action, Action::StoreCredentials(write) if !write.generated.is_empty()))
}

/// Returns a credential from a Secret of the user: one line of text, without the newline that `echo` adds at the end.
fn one_line(bytes: Vec<u8>, reference: &Reference, key: &str) -> Result<String, String> {
    let location = || format!("{reference}, key {key:?}");
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("{} is not UTF-8 text; store the credential as text", location()))?;
    let text = text.trim_end_matches(['\r', '\n']).to_owned();
    if text.is_empty() || text.contains(['\n', '\0']) {
        return Err(format!("{} must contain one line of text; store only the credential there", location()));
    }
    Ok(text)
}

/// The credentials of one service that the selected releases need.
#[derive(Default)]
struct ServiceCredentials<'a> {
    /// The values that the user provides in Secrets, by name of the credential.
    given: BTreeMap<String, String>,
    /// The credentials that osdpl stores in its own Secret, each with the format and length of its value.
    ours: BTreeMap<Name, &'a file::Credential>,
}

/// The value of a credential, as far as osdpl knows it.
enum Value {
    /// osdpl knows the value.
    Known(String),
    /// The operator generates the value when it applies the plan.
    Generated,
    /// The value is not available. Contains the reason.
    Missing(String),
    /// osdpl does not know the value in this pass, because it has not read a release record that may contain the value.
    Unread,
}

/// The search of one pass for the values of credentials, in osdpl's Secrets and in the release records.
struct Search<'d, 'a> {
    draft: &'d mut Draft<'a>,
    spec: &'d OpenStackDeploymentSpec,
    selection: &'d Selection,
    observed: &'d Observed,
    /// The values in the release records that the search has read, by release; an error says why osdpl can't read a
    /// record.
    records: BTreeMap<String, Result<Arc<Values>, String>>,
    /// The credentials that the search has found so far.
    found: Credentials,
}

impl Search<'_, '_> {
    /// Decides the values of the credentials that osdpl stores in its own Secret for a service. Plans to store the
    /// Secret if it must change.
    ///
    /// A value comes from the first of these sources that contains it: osdpl's Secret, a release record, the values of
    /// the last pass. If no source contains the value, the operator generates it.
    ///
    /// In three cases, osdpl trusts the value in a release record more than the value in its Secret: someone else
    /// edited the Secret, a Secret of the user replaced the value for a while, or the last pass used another value. So
    /// if someone edits osdpl's Secret, osdpl restores the old value. To rotate a password, a user must name a Secret
    /// of their own in the spec.
    fn service(&mut self, service: &str, credentials: &ServiceCredentials<'_>) {
        let Selection { name: deployment, namespace, .. } = self.selection;
        let name = credentials::secret_name(deployment, service);
        let is_needed = !credentials.ours.is_empty();
        let (exists, secret) = match stored(self.draft, &ReleaseKey::new(namespace, &name), is_needed) {
            StoredSecret::Unread => return,
            StoredSecret::Absent => (false, Secret::default()),
            StoredSecret::Exists(secret) => (true, *secret),
        };
        let version = (name.clone(), secret.resource_version().unwrap_or_default());
        let is_verified = self.draft.kept.verified.contains(&version);
        let is_foreign = has_only_unknown_keys(&secret, credentials);
        let mut update = Update { secret, exists, is_verified, is_complete: true, ..Update::default() };
        if exists && outdate(&mut update.secret, &credentials.given) {
            let reason = "a credential is outdated because a Secret that the spec names contains another value";
            update.reasons.push(reason.to_owned());
        }
        if exists && is_needed && !is_labelled(&update.secret, &self.selection.owner()) {
            update.reasons.push("the Secret lacks osdpl's label".to_owned());
        }
        for (credential, recipe) in &credentials.ours {
            self.credential(credential, recipe, is_foreign, &mut update);
        }
        if !update.generated.is_empty() {
            update.reasons.push("releases need credentials that do not exist yet".to_owned());
        }
        if !update.reasons.is_empty() {
            self.store(service, name, update);
        } else if exists && is_needed {
            self.draft.kept.verified.retain(|(verified, _)| *verified != name);
            // If a value is still unknown, this version of the Secret does not count as verified, so the next pass
            // compares the Secret with the release records again.
            self.draft.kept.verified.extend(update.is_complete.then_some(version));
        }
    }

    /// Decides the value of one credential that osdpl stores in its own Secret.
    ///
    /// `is_foreign` is the result of [`has_only_unknown_keys`] for the Secret.
    fn credential(&mut self, name: &Name, recipe: &file::Credential, is_foreign: bool, update: &mut Update) {
        let (service, key) = name;
        let bytes = update.secret.data.as_ref().and_then(|data| data.get(key));
        let damage = damage(bytes, is_foreign).filter(|_| update.exists);
        let stored = bytes.and_then(|value| String::from_utf8(value.0.clone()).ok()).filter(|value| !value.is_empty());
        let is_edited = update.exists && !update.is_verified && is_edited(&update.secret, key);
        let is_trusted = !is_edited && !outdated_keys(&update.secret).contains(key);
        match self.choose(name, stored.as_ref(), is_trusted) {
            Value::Unread => update.is_complete = false,
            Value::Missing(problem) => {
                self.found.missing.insert(name.clone(), problem);
                update.is_complete = false;
            }
            // The stored value is damaged. Do not generate a new password, because it would lock osdpl out of a
            // database that still has the old password.
            Value::Generated if damage.is_some() => {
                let Selection { name: deployment, namespace, .. } = self.selection;
                let secret = credentials::secret_name(deployment, service);
                let problem = format!(
                    "Secret {namespace}/{secret} {}, and no release record contains {key}; restore the Secret from a \
                     backup, or, if no data of {service} is left, delete the Secret, so that osdpl generates new \
                     credentials",
                    damage.unwrap_or_default()
                );
                self.found.missing.insert(name.clone(), problem);
                update.is_complete = false;
            }
            Value::Generated => {
                update.generated.insert(key.clone(), recipe.clone());
                let problem = format!(
                    "credential {service}.{key} does not exist yet; osdpl generates it when the cloud and at least one \
                     release of {service} are no longer paused"
                );
                self.found.missing.insert(name.clone(), problem);
            }
            Value::Known(known) => {
                if update.exists && unmark_outdated(&mut update.secret, key) {
                    update.reasons.push(format!("the value of {key} is no longer outdated"));
                }
                if stored.as_ref() != Some(&known) {
                    if is_edited && stored.is_some() {
                        update.restored.push(key.clone());
                    }
                    update.reasons.push(format!("{key} is missing or was edited"));
                    let bytes = ByteString(known.clone().into_bytes());
                    update.secret.data.get_or_insert_default().insert(key.clone(), bytes);
                }
                self.found.known.entry(service.clone()).or_default().insert(key.clone(), known);
            }
        }
    }

    /// Plans to store osdpl's Secret for a service, unless the service is paused.
    fn store(&mut self, service: &str, name: String, update: Update) {
        if self.is_paused(service) {
            return;
        }
        let Update { mut secret, exists, generated, restored, reasons, .. } = update;
        secret.metadata.name = Some(name.clone());
        secret.metadata.namespace = Some(self.selection.namespace.clone());
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.insert(DEPLOYMENT_LABEL.into(), self.selection.owner());
        labels.insert("app.kubernetes.io/managed-by".into(), MANAGER.into());
        secret.data.get_or_insert_default();
        let event = (!restored.is_empty()).then(|| {
            let restored = RestoredSecret { service: service.to_owned(), secret: name, keys: restored };
            status::credential_restored_event(&restored)
        });
        let write = SecretWrite { service: service.to_owned(), secret, exists, generated };
        let action = Action::StoreCredentials(Box::new(write));
        self.draft.add(Planned::new(action, reasons.join(", ")).with_events(event));
    }

    /// Returns whether all selected releases of a service are paused. If so, osdpl does not change the Secret of the
    /// service.
    fn is_paused(&self, service: &str) -> bool {
        let catalog = self.draft.catalog();
        let of_service = |name: &&String| catalog.release(name).is_some_and(|(owner, _)| owner == service);
        let is_paused = |name: &String| {
            let releases = self.spec.services.get(service).map(|service| &service.releases);
            releases.and_then(|releases| releases.get(name)).is_some_and(|release| release.paused)
        };
        let mut own = self.selection.releases.keys().filter(of_service).peekable();
        own.peek().is_some() && own.all(is_paused)
    }

    /// Returns the value of a credential, from the first source that has it. [`Search::service`] lists the sources.
    ///
    /// `stored` is the value in osdpl's Secret. If `is_trusted` is false, osdpl trusts a release record more than this
    /// value.
    fn choose(&mut self, name: &Name, stored: Option<&String>, is_trusted: bool) -> Value {
        let resolved = self.draft.snapshot.kept.resolved.as_ref();
        let last = resolved.and_then(|last| last.facts.credentials.get(&name.0)?.get(&name.1).cloned());
        let differs = last.is_some() && last.as_ref() != stored;
        if let Some(value) = stored.filter(|_| is_trusted && !differs) {
            return Value::Known(value.clone());
        }
        let recovered = match self.recover(name) {
            None => return Value::Unread,
            Some(Ok(recovered)) => recovered,
            Some(Err(problem)) => return last.map_or(Value::Missing(problem), Value::Known),
        };
        if let Some(value) = recovered.or_else(|| stored.cloned()).or(last) {
            return Value::Known(value);
        }
        match self.installing(name) {
            Some(release) => Value::Missing(format!(
                "helm is installing release {release} with this credential, and osdpl can read the value only from the \
                 release record; wait until helm has written the record"
            )),
            None => Value::Generated,
        }
    }

    /// Returns a release that needs this credential and that helm is installing for the first time; `None` if there is
    /// none.
    ///
    /// helm installs the release with a value that osdpl can only read from the release's record, and helm has not
    /// written the record yet. If osdpl generated a value now, it would differ from the value that helm installs.
    fn installing(&self, name: &Name) -> Option<&str> {
        let found = self.selection.releases.iter().find(|(release, key)| {
            let is_first = self.observed.running.contains_key(*key) && !self.observed.releases.contains_key(*key);
            is_first && !credentials::find_credential_paths(self.draft.catalog(), release, name).is_empty()
        });
        found.map(|(release, _)| release.as_str())
    }

    /// Returns the value of a credential from the records of the releases that use the credential.
    ///
    /// The function reads only records of revisions that osdpl made. The outer `None` means that osdpl has not read one
    /// of these records yet. The inner `None` means that no record contains the credential.
    ///
    /// The function returns an error if osdpl can't read a record. osdpl must not generate a new value then, because
    /// the new value would lock osdpl out of the service.
    fn recover(&mut self, name: &Name) -> Option<Result<Option<String>, String>> {
        let catalog = self.draft.catalog();
        for (release, key) in &self.selection.releases {
            if credentials::find_credential_paths(catalog, release, name).is_empty() {
                continue;
            }
            if !self.records.contains_key(release) {
                let record = self.read_record(key)?;
                self.records.insert(release.clone(), record);
            }
            match &self.records[release] {
                Ok(values) => {
                    if let Some(value) = credentials::read_recorded_credential(catalog, release, values, name) {
                        return Some(Ok(Some(value)));
                    }
                }
                Err(problem) => {
                    let (service, name) = name;
                    return Some(Err(format!(
                        "osdpl can't read credential {service}.{name} from the record of release {release}: \
                         {problem}; put the credential into a Secret of your own, and name this Secret in \
                         spec.services.{service}.credentials.{name}"
                    )));
                }
            }
        }
        Some(Ok(None))
    }

    /// Returns the values in the record of the newest revision that osdpl made of a release.
    ///
    /// The values are empty if osdpl made no revision of the release. The result is `None` if osdpl has not read the
    /// record yet.
    fn read_record(&mut self, key: &ReleaseKey) -> Option<Result<Arc<Values>, String>> {
        match self.observed.releases.get(key).map(own_revision) {
            None | Some(Ok(None)) => Some(Ok(Arc::default())),
            Some(Ok(Some(revision))) => {
                match &self.draft.read(Read::Values { release: key.clone(), revision, required: true })?.response {
                    Response::Values(values) => Some(values.clone()),
                    _ => None,
                }
            }
            Some(Err(problem)) => Some(Err(problem)),
        }
    }
}

/// The changes to one Secret in which osdpl stores credentials.
#[derive(Default)]
struct Update {
    secret: Secret,
    exists: bool,
    /// Whether osdpl has already compared this version of the Secret with the release records.
    is_verified: bool,
    /// Whether osdpl knows the values of all credentials in the Secret.
    is_complete: bool,
    /// The keys whose values the operator generates, each with the format and length of the value.
    generated: BTreeMap<String, file::Credential>,
    /// The keys whose values someone else edited, so that osdpl restores the old values.
    restored: Vec<String>,
    /// Why osdpl stores the Secret; empty if the Secret stays as it is.
    reasons: Vec<String>,
}

/// The state of a Secret in which osdpl stores credentials.
enum StoredSecret {
    /// osdpl has not read the Secret yet.
    Unread,
    /// The Secret does not exist.
    Absent,
    /// The Secret exists, with or without osdpl's label.
    Exists(Box<Secret>),
}

/// Returns the state of the Secret `key`, in which osdpl stores credentials.
///
/// The watch of Secrets lists only Secrets with osdpl's label. If the watch does not list this Secret, the function
/// requests a one-off read of the Secret. If osdpl need not store credentials there (`is_needed` is false), the
/// function returns [`StoredSecret::Absent`] without the read.
fn stored(draft: &mut Draft<'_>, key: &ReleaseKey, is_needed: bool) -> StoredSecret {
    if let Some(known) = draft.snapshot.objects.secrets.get(key) {
        return StoredSecret::Exists(Box::new((**known).clone()));
    }
    if !is_needed {
        return StoredSecret::Absent;
    }
    let (namespace, name) = (key.namespace.clone(), key.name.clone());
    let read = Read::Stored(Reference { kind: ValuesKind::Secret, namespace, name });
    match draft.read(read).map(|received| &received.response) {
        Some(Response::Stored(Stored::Secret(secret))) => StoredSecret::Exists(secret.clone()),
        Some(_) => StoredSecret::Absent,
        None => StoredSecret::Unread,
    }
}

/// Returns whether a Secret has at least one key, and none of its keys is the name of a credential of the service.
fn has_only_unknown_keys(secret: &Secret, credentials: &ServiceCredentials<'_>) -> bool {
    let is_known =
        |key: &String| credentials.given.contains_key(key) || credentials.ours.keys().any(|(_, name)| name == key);
    let mut keys = secret.data.iter().flat_map(BTreeMap::keys).peekable();
    keys.peek().is_some() && !keys.any(is_known)
}

/// Returns what is wrong with the stored value of a credential; `None` if nothing is wrong.
///
/// A missing value counts as damage only if `is_foreign`: the Secret has keys, but none is the name of a credential.
/// Otherwise osdpl may simply not have stored the value yet.
fn damage(stored: Option<&ByteString>, is_foreign: bool) -> Option<&'static str> {
    match stored {
        Some(bytes) if std::str::from_utf8(&bytes.0).is_err() => Some("has a value that is not UTF-8 text"),
        None if is_foreign => Some("has none of the keys that osdpl stores there"),
        _ => None,
    }
}

/// Returns the newest revision that osdpl made of a release; `None` if osdpl made no revision of the release.
///
/// osdpl reads credentials only from revisions that it made, because a manual upgrade may contain other credentials.
///
/// # Errors
/// Returns an error if osdpl made revisions of the release, but helm has deleted their records.
fn own_revision(existing: &ObservedRelease) -> Result<Option<i64>, String> {
    match existing.own_revision {
        Some(revision) => Ok(Some(revision.into())),
        None if existing.is_ours() => Err(format!(
            "osdpl did not make revision {}, and helm has deleted the records of all revisions that osdpl made",
            existing.revision
        )),
        None => Ok(None),
    }
}

/// Returns whether a Secret has osdpl's label. The watch of Secrets lists only Secrets with the label, so osdpl adds a
/// missing label.
fn is_labelled(secret: &Secret, owner: &str) -> bool {
    secret.labels().get(DEPLOYMENT_LABEL).is_some_and(|label| label == owner)
}

/// Returns whether a field manager other than osdpl was the last to write the value of `key` in a Secret.
fn is_edited(secret: &Secret, key: &str) -> bool {
    let field = format!("f:{key}");
    secret.metadata.managed_fields.iter().flatten().any(|entry| {
        let owns = entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:data"].get(&field).is_some());
        owns && entry.manager.as_deref() != Some(MANAGER)
    })
}

/// Removes a key from the annotation [`OUTDATED`]; returns whether the annotation contained the key.
fn unmark_outdated(secret: &mut Secret, key: &str) -> bool {
    let mut keys = outdated_keys(secret);
    let was_marked = keys.remove(key);
    mark_outdated(secret, keys);
    was_marked
}

/// Adds keys of `secret` to the annotation [`OUTDATED`], if their values differ from the user's values in `given`.
///
/// Returns whether the annotation has changed.
fn outdate(secret: &mut Secret, given: &BTreeMap<String, String>) -> bool {
    let known = outdated_keys(secret);
    let data = secret.data.iter().flatten();
    let differs = |key: &String, value: &ByteString| given.get(key).is_some_and(|given| given.as_bytes() != value.0);
    let keys: BTreeSet<String> =
        data.filter(|(key, value)| differs(key, value)).map(|(key, _)| key.clone()).collect_set();
    let keys: BTreeSet<String> = known.union(&keys).cloned().collect_set();
    let has_changed = keys != known;
    mark_outdated(secret, keys);
    has_changed
}

fn outdated_keys(secret: &Secret) -> BTreeSet<String> {
    let keys = secret.annotations().get(OUTDATED).into_iter().flat_map(|keys| keys.split(','));
    keys.filter(|key| !key.is_empty()).map(str::to_owned).collect_set()
}

fn mark_outdated(secret: &mut Secret, keys: BTreeSet<String>) {
    if keys.is_empty() {
        if let Some(annotations) = &mut secret.metadata.annotations {
            annotations.remove(OUTDATED);
        }
    } else {
        secret.annotations_mut().insert(OUTDATED.into(), keys.into_iter().collect::<Vec<_>>().join(","));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::observed::{Attempt, Liveness};

    #[test]
    fn reads_credentials_only_from_our_revisions() {
        let attempt = Attempt { label: "me".into(), revision: 2, owner: Liveness::Us };
        let inherited = ObservedRelease { revision: 3, attempt: Some(attempt), ..ObservedRelease::default() };
        let kept = ObservedRelease { own_revision: Some(2), ..inherited.clone() };
        assert_eq!(own_revision(&kept), Ok(Some(2)));
        let problem = own_revision(&inherited).unwrap_err();
        assert_eq!(
            problem,
            "osdpl did not make revision 3, and helm has deleted the records of all revisions that osdpl made"
        );
        assert_eq!(own_revision(&ObservedRelease { revision: 3, ..ObservedRelease::default() }), Ok(None));
    }

    #[test]
    fn a_replaced_value_is_outdated_until_it_is_verified() {
        let data = [("root", "a"), ("audit", "b")].map(|(key, value)| (key.to_owned(), ByteString(value.into())));
        let mut secret = Secret { data: Some(data.into()), ..Secret::default() };
        let given = |value: &str| BTreeMap::from([("root", value), ("sst", "c")].map(|(k, v)| (k.into(), v.into())));
        assert!(!outdate(&mut secret, &given("a")), "a key with the same value is not marked");
        assert!(outdate(&mut secret, &given("other")));
        assert!(!outdate(&mut secret, &given("other")), "a marked key is not marked again");
        // Even if the user's Secret gets its first value back, the key stays in the annotation: releases could still be
        // running with the value that the user's Secret had in the meantime.
        assert!(!outdate(&mut secret, &given("a")));
        let marked = |secret: &Secret| ["root", "audit", "sst"].map(|key| outdated_keys(secret).contains(key));
        assert_eq!(marked(&secret), [true, false, false]);
        assert!(unmark_outdated(&mut secret, "root") && !unmark_outdated(&mut secret, "root"));
        assert_eq!(marked(&secret), [false; 3]);
        assert!(!secret.annotations().contains_key(OUTDATED));
    }
}
