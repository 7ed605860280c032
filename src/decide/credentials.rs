//! Credentials: from the user's Secrets, from ours, from what releases run with, or generated once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::action::{Action, Planned, SecretWrite};
use super::draft::Draft;
use super::requests::{Answer, Read, Reference, Stored};
use osdpl_core::api::{DEPLOYMENT_LABEL, OpenStackDeploymentSpec, ValuesKind};
use osdpl_core::catalog::{Catalog, file};
use osdpl_core::credentials::{self, Name, RestoredSecret};
use osdpl_core::desired::Selection;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::status;
use osdpl_values::Values;

/// The field manager of everything that the operator itself applies.
pub const MANAGER: &str = "osdpl";

/// Names the keys of our Secret whose values were replaced by a Secret of the user, separated by commas. It is stored in the cluster because it
/// stays true for longer than any memory: until the user's Secret is no longer named, and releases were asked what they run with.
const OUTDATED: &str = "osdpl.dev/outdated";

/// The credentials that are known, and why others are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credentials {
    /// By service and name.
    pub known: BTreeMap<String, BTreeMap<String, String>>,
    /// What is missing, and what to do.
    pub missing: BTreeMap<Name, String>,
    /// Whether some are generated when this plan is applied.
    pub generated: bool,
}

/// What credentials are needed for.
#[derive(Clone, Copy)]
pub struct Needed<'a> {
    pub spec: &'a OpenStackDeploymentSpec,
    pub catalog: &'a Catalog,
    pub selection: &'a Selection,
    pub observed: &'a Observed,
}

/// The values of releases as helm recorded them; an error says why they can't be read.
type Records = BTreeMap<String, Result<Arc<Values>, String>>;

/// Where the value of a credential comes from.
enum Value {
    /// It is known.
    Known(String),
    /// It is drawn when the plan is applied.
    Generated,
    /// It can't be had.
    Missing(String),
    /// The next pass knows.
    Unread,
}

/// Finds every credential that is needed, and plans what is to be stored.
pub fn credentials(draft: &mut Draft<'_>, needed: Needed<'_>) -> Credentials {
    let Needed { spec, catalog, selection, .. } = needed;
    let mut found = Credentials::default();
    let mut services: BTreeMap<String, Service> = BTreeMap::new();
    for (name, recipe) in credentials::list_needed_credentials(catalog, selection) {
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
    let mut records = Records::new();
    for (name, service) in services {
        service.decide(&name, draft, needed, &mut records, &mut found);
    }
    found
}

/// A credential from a user's Secret: one line, without the newline that `echo` leaves.
fn one_line(bytes: Vec<u8>, reference: &Reference, key: &str) -> Result<String, String> {
    let place = || format!("{reference}, key {key:?}");
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{} is no UTF-8 text; store the credential as text", place()))?;
    let text = text.trim_end_matches(['\r', '\n']).to_owned();
    if text.is_empty() || text.contains(['\n', '\0']) {
        return Err(format!("{} must hold one line of text; store the credential alone", place()));
    }
    Ok(text)
}

/// The credentials of one service.
#[derive(Default)]
struct Service<'a> {
    /// Those from Secrets of the user.
    given: BTreeMap<String, String>,
    /// Those from our Secret.
    ours: BTreeMap<Name, &'a file::Credential>,
}

impl Service<'_> {
    /// Decides the values of one service: from our Secret, else read back from releases, else as the last pass had them, else generated.
    ///
    /// What someone else wrote into our Secret counts only where no release runs with another value. So does what our Secret held while the user
    /// named a Secret with another value: a password is rotated by naming a Secret of one's own, never by surprise.
    fn decide(
        &self,
        service: &str,
        draft: &mut Draft<'_>,
        needed: Needed<'_>,
        records: &mut Records,
        found: &mut Credentials,
    ) {
        let Selection { name: deployment, namespace, .. } = needed.selection;
        let name = credentials::secret_name(deployment, service);
        let (exists, mut secret) = match stored(draft, &ReleaseKey::new(namespace, &name), !self.ours.is_empty()) {
            Held::Unread => return,
            Held::Absent => (false, Secret::default()),
            Held::Stored(secret) => (true, *secret),
        };
        let version = (name.clone(), secret.resource_version().unwrap_or_default());
        let mut reasons = Vec::new();
        if exists && outdate(&mut secret, &self.given) {
            reasons.push("the spec names another value".to_owned());
        }
        let (mut restored, mut complete, mut generated) = (Vec::new(), true, BTreeMap::new());
        if exists && !self.ours.is_empty() && !is_labelled(&secret, deployment) {
            reasons.push("it lacks our label".to_owned());
        }
        for (credential, recipe) in &self.ours {
            let key = &credential.1;
            let value = secret.data.as_ref().and_then(|data| data.get(key));
            let value = value.and_then(|value| String::from_utf8(value.0.clone()).ok());
            let value = value.filter(|value| !value.is_empty());
            let edited = exists && !draft.kept.verified.contains(&version) && is_edited(&secret, key);
            let doubtful = edited || is_outdated(&secret, key);
            match chosen(draft, needed, credential, value.as_ref(), doubtful, records) {
                Value::Unread => complete = false,
                Value::Missing(problem) => {
                    found.missing.insert(credential.clone(), problem);
                    complete = false;
                }
                Value::Generated => {
                    generated.insert(key.clone(), (*recipe).clone());
                    let problem = format!("credential {service}.{key} is generated when `paused` is taken back");
                    found.missing.insert(credential.clone(), problem);
                }
                Value::Known(known) => {
                    if exists && renew(&mut secret, key) {
                        reasons.push(format!("{key} is current again"));
                    }
                    if value.as_ref() != Some(&known) {
                        if edited && value.is_some() {
                            restored.push(key.clone());
                        }
                        reasons.push(format!("{key} is missing or was edited"));
                        let bytes = ByteString(known.clone().into_bytes());
                        secret.data.get_or_insert_default().insert(key.clone(), bytes);
                    }
                    found.known.entry(service.to_owned()).or_default().insert(key.clone(), known);
                }
            }
        }
        if !generated.is_empty() {
            reasons.push("releases need credentials that exist nowhere yet".to_owned());
        }
        if reasons.is_empty() {
            if exists && !self.ours.is_empty() {
                draft.kept.verified.retain(|(verified, _)| *verified != name);
                // What could not be compared is no more trusted in the next pass than in this one.
                draft.kept.verified.extend(complete.then_some(version));
            }
            return;
        }
        if is_paused(needed, service) {
            return;
        }
        found.generated |= !generated.is_empty() && !draft.paused;
        secret.metadata.name = Some(name.clone());
        secret.metadata.namespace = Some(namespace.clone());
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.insert(DEPLOYMENT_LABEL.into(), deployment.clone());
        labels.insert("app.kubernetes.io/managed-by".into(), MANAGER.into());
        secret.data.get_or_insert_default();
        let event = (!restored.is_empty()).then(|| {
            status::credential_restored_event(&RestoredSecret {
                service: service.to_owned(),
                secret: name,
                keys: restored,
            })
        });
        let write = SecretWrite { service: service.to_owned(), secret, exists, generated };
        let action = Action::StoreCredentials(Box::new(write));
        draft.add(Planned::new(action, reasons.join(", ")).with_event(event));
    }
}

/// Whether every release of a service that is desired is paused by itself: its Secret stays as it is then.
fn is_paused(needed: Needed<'_>, service: &str) -> bool {
    let Needed { spec, catalog, selection, .. } = needed;
    let of_service = |name: &&String| catalog.release(name).is_some_and(|(owner, _)| owner == service);
    let paused = |name: &String| {
        let releases = spec.services.get(service).map(|service| &service.releases);
        releases.and_then(|releases| releases.get(name)).is_some_and(|release| release.paused)
    };
    let mut own = selection.releases.keys().filter(of_service).peekable();
    own.peek().is_some() && own.all(paused)
}

/// What is known of a Secret of ours.
enum Held {
    /// The next pass knows.
    Unread,
    /// It does not exist.
    Absent,
    /// It exists, with our label or without.
    Stored(Box<Secret>),
}

/// Our Secret of this name; `fetched` is whether it matters when the watch does not list it.
fn stored(draft: &mut Draft<'_>, key: &ReleaseKey, fetched: bool) -> Held {
    if let Some(known) = draft.snapshot.objects.secrets.get(key) {
        return Held::Stored(Box::new((**known).clone()));
    }
    if !fetched {
        return Held::Absent;
    }
    let (namespace, name) = (key.namespace.clone(), key.name.clone());
    let read = Read::Stored(Reference { kind: ValuesKind::Secret, namespace, name });
    match draft.read(read).map(|answered| &answered.answer) {
        Some(Answer::Stored(Stored::Secret(secret))) => Held::Stored(secret.clone()),
        Some(_) => Held::Absent,
        None => Held::Unread,
    }
}

/// Chooses the value that counts, in the order that [`Service::decide`] describes.
fn chosen(
    draft: &mut Draft<'_>,
    needed: Needed<'_>,
    name: &Name,
    stored: Option<&String>,
    doubtful: bool,
    records: &mut Records,
) -> Value {
    let resolved = draft.snapshot.kept.resolved.as_ref();
    let last = resolved.and_then(|last| last.facts.credentials.get(&name.0)?.get(&name.1).cloned());
    let differs = last.is_some() && last.as_ref() != stored;
    if let Some(value) = stored.filter(|_| !doubtful && !differs) {
        return Value::Known(value.clone());
    }
    let recovered = match recovered(draft, needed, name, records) {
        None => return Value::Unread,
        Some(Ok(recovered)) => recovered,
        Some(Err(problem)) => return last.map_or(Value::Missing(problem), Value::Known),
    };
    if let Some(value) = recovered.or_else(|| stored.cloned()).or(last) {
        return Value::Known(value);
    }
    match unrecorded(needed, name) {
        Some(release) => Value::Missing(format!(
            "helm installs release {release} with a value that its record will tell: it is waited for"
        )),
        None => Value::Generated,
    }
}

/// A release that helm installs with this credential and that has no record yet: another value would not fit what is being installed.
fn unrecorded<'a>(needed: Needed<'a>, name: &Name) -> Option<&'a str> {
    let Needed { catalog, selection, observed, .. } = needed;
    let found = selection.releases.iter().find(|(release, key)| {
        let is_running = observed.running.contains_key(*key) && !observed.releases.contains_key(*key);
        is_running && !credentials::find_credential_paths(catalog, release, name).is_empty()
    });
    found.map(|(release, _)| release.as_str())
}

/// The credential as a release of ours has it; the outer `None` where the next pass knows.
///
/// It is an error when a release that uses it can't be read: a new value would lock us out.
fn recovered(
    draft: &mut Draft<'_>,
    needed: Needed<'_>,
    name: &Name,
    records: &mut Records,
) -> Option<Result<Option<String>, String>> {
    for (release, key) in &needed.selection.releases {
        if credentials::find_credential_paths(needed.catalog, release, name).is_empty() {
            continue;
        }
        if !records.contains_key(release) {
            let record = recorded(draft, needed.observed, key)?;
            records.insert(release.clone(), record);
        }
        match &records[release] {
            Ok(values) => {
                if let Some(value) = credentials::read_recorded_credential(needed.catalog, release, values, name) {
                    return Some(Ok(Some(value)));
                }
            }
            Err(problem) => {
                return Some(Err(format!(
                    "credential {}.{} is lost and can't be read back from release {release}: {problem}; put it into a Secret of your own, and name that in spec.services.{}.credentials.{}",
                    name.0, name.1, name.0, name.1
                )));
            }
        }
    }
    Some(Ok(None))
}

/// The values that helm recorded for a release of ours; empty where there is no release.
fn recorded(draft: &mut Draft<'_>, observed: &Observed, key: &ReleaseKey) -> Option<Result<Arc<Values>, String>> {
    match observed.releases.get(key).map(own_revision) {
        None | Some(Ok(None)) => Some(Ok(Arc::default())),
        Some(Ok(Some(revision))) => {
            match &draft.read(Read::Values { release: key.clone(), revision, required: true })?.answer {
                Answer::Values(values) => Some(values.clone()),
                _ => None,
            }
        }
        Some(Err(problem)) => Some(Err(problem)),
    }
}

/// The revision whose values are ours: what an upgrade by hand was given is no credential of ours. `None` for a release that never was ours.
fn own_revision(seen: &ObservedRelease) -> Result<Option<i64>, String> {
    match seen.own_revision {
        Some(revision) => Ok(Some(revision.into())),
        None if seen.is_ours() => Err(format!(
            "revision {} was not made by osdpl, and helm has no record of one that was any more",
            seen.revision
        )),
        None => Ok(None),
    }
}

/// Whether the watch on our Secrets lists it.
fn is_labelled(secret: &Secret, deployment: &str) -> bool {
    secret.labels().get(DEPLOYMENT_LABEL).is_some_and(|owner| owner == deployment)
}

/// Whether a field manager other than ours owns this key of the data: it wrote it last.
fn is_edited(secret: &Secret, key: &str) -> bool {
    let field = format!("f:{key}");
    secret.metadata.managed_fields.iter().flatten().any(|entry| {
        let owns = entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:data"].get(&field).is_some());
        owns && entry.manager.as_deref() != Some(MANAGER)
    })
}

/// Whether a key holds a value that was replaced.
fn is_outdated(secret: &Secret, key: &str) -> bool {
    outdated(secret).contains(key)
}

/// Takes the mark from a key; returns whether it had one.
fn renew(secret: &mut Secret, key: &str) -> bool {
    let mut keys = outdated(secret);
    let was_marked = keys.remove(key);
    mark(secret, keys);
    was_marked
}

/// Marks the keys that hold another value than is given; returns whether one was not marked before.
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
    fn only_our_own_revisions_hold_our_credentials() {
        let attempt = Attempt { instance: "me".into(), revision: 2, owner: Liveness::Us };
        let inherited = ObservedRelease { revision: 3, attempt: Some(attempt), ..ObservedRelease::default() };
        let kept = ObservedRelease { own_revision: Some(2), ..inherited.clone() };
        assert_eq!(own_revision(&kept), Ok(Some(2)));
        let problem = own_revision(&inherited).unwrap_err();
        assert_eq!(problem, "revision 3 was not made by osdpl, and helm has no record of one that was any more");
        assert_eq!(own_revision(&ObservedRelease { revision: 3, ..ObservedRelease::default() }), Ok(None));
    }

    #[test]
    fn a_replaced_value_is_outdated_until_it_is_renewed() {
        let data = [("root", "a"), ("audit", "b")].map(|(key, value)| (key.to_owned(), ByteString(value.into())));
        let mut secret = Secret { data: Some(data.into()), ..Secret::default() };
        let given = |value: &str| BTreeMap::from([("root", value), ("sst", "c")].map(|(k, v)| (k.into(), v.into())));
        assert!(!outdate(&mut secret, &given("a")), "the value is the same");
        assert!(outdate(&mut secret, &given("other")));
        assert!(!outdate(&mut secret, &given("other")), "the mark is written once");
        // When the old value is given again, releases may still run with the other.
        assert!(!outdate(&mut secret, &given("a")));
        let marked = |secret: &Secret| ["root", "audit", "sst"].map(|key| is_outdated(secret, key));
        assert_eq!(marked(&secret), [true, false, false]);
        assert!(renew(&mut secret, "root") && !renew(&mut secret, "root"));
        assert_eq!(marked(&secret), [false; 3]);
        assert!(!secret.annotations().contains_key(OUTDATED));
    }
}
