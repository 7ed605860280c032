//! Credentials in the cluster: the user's Secrets, ours, and what releases already run with.

mod write;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use kube::ResourceExt;

use super::own::OwnSecrets;
use super::{Cluster, Error, Explain, Inputs, Reference};
use osdpl_core::api::{OpenStackDeploymentSpec, ValuesKind};
use osdpl_core::catalog::{Catalog, file};
use osdpl_core::credentials::{self, Name, RestoredSecret};
use osdpl_core::desired::Selection;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_values::Values;
use write::{is_edited, is_labelled, is_outdated};

/// The credentials at hand, and why others are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credentials {
    /// By service and name.
    pub known: BTreeMap<String, BTreeMap<String, String>>,
    /// What is missing, and what to do.
    pub missing: BTreeMap<Name, String>,
}

impl Credentials {
    fn insert(&mut self, (service, name): Name, value: String) {
        self.known.entry(service).or_default().insert(name, value);
    }
}

/// What credentials are needed for.
pub struct Question<'a> {
    /// The spec.
    pub spec: &'a OpenStackDeploymentSpec,
    /// The catalogue.
    pub catalog: &'a Catalog,
    /// What the spec selects.
    pub selection: &'a Selection,
    /// What is.
    pub observed: &'a Observed,
    /// The credentials of the pass before: helm may be at releases with them that have no record yet.
    pub last: Option<&'a BTreeMap<String, BTreeMap<String, String>>>,
}

/// What the hands of others did to our Secrets, remembered between passes.
#[derive(Debug, Default)]
pub struct Edits {
    /// Those that were compared with what runs, as (name, resource version).
    verified: BTreeSet<(String, String)>,
    /// Those that were put back, and that nobody was told of yet.
    pub restored: Vec<RestoredSecret>,
}

impl Cluster {
    /// Finds every credential that is needed; those that exist nowhere are made and stored, once.
    ///
    /// # Errors
    /// When the API server refuses a read or write; nothing is made then.
    pub async fn credentials(
        &self,
        question: &Question<'_>,
        inputs: &Inputs,
        edits: &mut Edits,
    ) -> Result<Credentials, Error> {
        let Question { spec, catalog, selection, .. } = *question;
        let mut found = Credentials::default();
        let mut wanted: BTreeMap<String, BTreeMap<Name, &file::Credential>> = BTreeMap::new();
        let mut given: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (name, recipe) in credentials::list_needed_credentials(catalog, selection) {
            match credentials::user_secret(spec, &name) {
                None => drop(wanted.entry(name.0.clone()).or_default().insert(name, recipe)),
                Some(key) => {
                    let reference = Reference {
                        kind: ValuesKind::Secret,
                        namespace: selection.namespace.clone(),
                        name: key.name.clone(),
                    };
                    let bytes = inputs.get(&reference, &key.key).map_err(|problem| problem.to_string());
                    match bytes.and_then(|bytes| text(bytes, &reference, &key.key)) {
                        Ok(value) => {
                            given.entry(name.0.clone()).or_default().insert(name.1.clone(), value.clone());
                            found.insert(name, value);
                        }
                        Err(problem) => drop(found.missing.insert(name, problem)),
                    }
                }
            }
        }
        let store = Store { cluster: self, own: inputs.own(), question };
        for (service, given) in given {
            store.outdate(&service, &given).await?;
        }
        let mut records = BTreeMap::new();
        for (service, names) in wanted {
            store.service(&service, &names, &mut records, &mut found, edits).await?;
        }
        Ok(found)
    }
}

/// A credential from the user's hands: one line, without the newline that `echo` leaves.
fn text(bytes: Vec<u8>, reference: &Reference, key: &str) -> Result<String, String> {
    let place = || format!("{reference}, key {key:?}");
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{} is no UTF-8 text; store the credential as text", place()))?;
    let text = text.trim_end_matches(['\r', '\n']).to_owned();
    if text.is_empty() || text.contains(['\n', '\0']) {
        return Err(format!("{} must hold one line of text; store the credential alone", place()));
    }
    Ok(text)
}

struct Store<'a> {
    cluster: &'a Cluster,
    own: &'a OwnSecrets,
    question: &'a Question<'a>,
}

type Records = BTreeMap<String, Result<Values, String>>;

impl Store<'_> {
    /// The credentials of one service: from our Secret, else read back from releases, else as the last pass had them, else made. What someone
    /// else wrote into our Secret counts only where no release runs with another value, and so does what ours held while the user named a Secret
    /// with another value: a password is rotated by naming a Secret of one's own, never by surprise.
    async fn service(
        &self,
        service: &str,
        names: &BTreeMap<Name, &file::Credential>,
        records: &mut Records,
        found: &mut Credentials,
        edits: &mut Edits,
    ) -> Result<(), Error> {
        let Selection { name: deployment, namespace, .. } = self.question.selection;
        let secret_name = credentials::secret_name(deployment, service);
        let secret = self.own.get(namespace, &secret_name).await;
        let mut secret = secret.because(|| format!("reading Secret {secret_name}"))?;
        let version =
            (secret_name.clone(), secret.as_ref().and_then(ResourceExt::resource_version).unwrap_or_default());
        let mut data = secret.as_mut().and_then(|secret| secret.data.take()).unwrap_or_default();
        let (mut put_back, mut complete) = (Vec::new(), true);
        let mut changed = secret.as_ref().is_some_and(|held| !is_labelled(held, deployment));
        for (name, recipe) in names {
            let stored = data.get(&name.1).and_then(|value| String::from_utf8(value.0.clone()).ok());
            let stored = stored.filter(|value| !value.is_empty());
            let edited =
                !edits.verified.contains(&version) && secret.as_ref().is_some_and(|held| is_edited(held, &name.1));
            let outdated = secret.as_ref().is_some_and(|held| is_outdated(held, &name.1));
            let value = match self.value(name, recipe, stored.as_ref(), edited || outdated, records).await? {
                Ok(value) => value,
                Err(problem) => {
                    found.missing.insert(name.clone(), problem);
                    complete = false;
                    continue;
                }
            };
            changed |= secret.as_mut().is_some_and(|held| write::renew(held, &name.1));
            if stored.as_ref() != Some(&value) {
                if edited && stored.is_some() {
                    put_back.push(name.1.clone());
                }
                data.insert(name.1.clone(), ByteString(value.clone().into_bytes()));
                changed = true;
            }
            found.insert(name.clone(), value);
        }
        if changed {
            let restored = RestoredSecret { service: service.to_owned(), secret: secret_name, keys: put_back };
            return self.write(restored, secret, data, edits).await;
        }
        edits.verified.retain(|(name, _)| *name != secret_name);
        // What could not be compared is no more trusted in the next pass than in this one.
        edits.verified.extend(complete.then_some(version));
        Ok(())
    }

    /// The value that counts, in the order that [`Self::service`] tells; the inner error says why there is none yet.
    async fn value(
        &self,
        name: &Name,
        recipe: &file::Credential,
        stored: Option<&String>,
        doubtful: bool,
        records: &mut Records,
    ) -> Result<Result<String, String>, Error> {
        let last = self.last(name);
        let differs = last.is_some() && last.as_ref() != stored;
        if let Some(value) = stored.filter(|_| !doubtful && !differs) {
            return Ok(Ok(value.clone()));
        }
        let recovered = match self.recover(name, records).await? {
            Ok(recovered) => recovered,
            Err(problem) => return Ok(last.ok_or(problem)),
        };
        if let Some(value) = recovered.or_else(|| stored.cloned()).or(last) {
            return Ok(Ok(value));
        }
        if let Some(release) = self.unrecorded(name) {
            return Ok(Err(format!(
                "helm installs release {release} with a value that its record will tell: it is waited for"
            )));
        }
        credentials::generate_credential(recipe, random).map(Ok)
    }

    fn last(&self, (service, name): &Name) -> Option<String> {
        self.question.last?.get(service)?.get(name).cloned()
    }

    /// A release that helm is at with this credential and that has no record yet: to make another one would part what is being installed.
    fn unrecorded(&self, name: &Name) -> Option<&str> {
        let Question { catalog, selection, observed, .. } = *self.question;
        let mut releases = selection.releases.iter();
        let found = releases.find(|(release, key)| {
            let at_work = observed.running.contains_key(*key) && !observed.releases.contains_key(*key);
            at_work && !credentials::find_credential_paths(catalog, release, name).is_empty()
        });
        found.map(|(release, _)| release.as_str())
    }

    /// The credential as a release of ours has it. `Err` when a release that uses it can't be read: making a new one would lock us out.
    async fn recover(&self, name: &Name, records: &mut Records) -> Result<Result<Option<String>, String>, Error> {
        for release in self.question.selection.releases.keys() {
            if credentials::find_credential_paths(self.question.catalog, release, name).is_empty() {
                continue;
            }
            if !records.contains_key(release) {
                let record = self.record(&self.question.selection.releases[release]).await?;
                records.insert(release.clone(), record);
            }
            match &records[release] {
                Ok(values) => {
                    if let Some(value) =
                        credentials::read_recorded_credential(self.question.catalog, release, values, name)
                    {
                        return Ok(Ok(Some(value)));
                    }
                }
                Err(problem) => {
                    return Ok(Err(format!(
                        "credential {}.{} is lost and can't be read back from release {release}: {problem}; put it into a Secret of your own, and name that in spec.services.{}.credentials.{}",
                        name.0, name.1, name.0, name.1
                    )));
                }
            }
        }
        Ok(Ok(None))
    }

    /// The values that helm recorded for a release of ours; none where there is no release.
    async fn record(&self, key: &ReleaseKey) -> Result<Result<Values, String>, Error> {
        match self.question.observed.releases.get(key).map(own_revision) {
            None | Some(Ok(None)) => Ok(Ok(Values::new())),
            Some(Ok(Some(revision))) => self.cluster.recorded_values(key, revision).await,
            Some(Err(problem)) => Ok(Err(problem)),
        }
    }
}

/// The revision whose values are ours: what someone else's upgrade was given by hand is no credential of ours. `None` for a release that never
/// was ours.
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

fn random(mut buffer: &mut [u8]) -> Result<(), Error> {
    while !buffer.is_empty() {
        let filled = rustix::rand::getrandom(&mut *buffer, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::Object(format!("the kernel gives no random bytes: {error}")))?;
        buffer = &mut buffer[filled..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::observed::{Attempt, Liveness};

    #[test]
    fn only_a_revision_that_we_made_tells_our_credentials() {
        let attempt = Attempt { instance: "me".into(), revision: 2, owner: Liveness::Us };
        let inherited = ObservedRelease { revision: 3, attempt: Some(attempt), ..ObservedRelease::default() };
        let kept = ObservedRelease { own_revision: Some(2), ..inherited.clone() };
        assert_eq!(own_revision(&kept), Ok(Some(2)));
        let problem = own_revision(&inherited).unwrap_err();
        assert_eq!(problem, "revision 3 was not made by osdpl, and helm has no record of one that was any more");
        assert_eq!(own_revision(&ObservedRelease { revision: 3, ..ObservedRelease::default() }), Ok(None));
    }
}
