//! Credentials in the cluster: the user's Secrets, ours, and what releases already run with.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use super::{Cluster, Error, Explain, Inputs, Reference};
use crate::api::{MANAGED, OpenStackDeploymentSpec, ValuesKind};
use crate::catalog::{Catalog, file};
use crate::credentials::{self, Name};
use crate::desired::Selection;
use crate::observed::{Key, Observed};
use crate::values::Values;

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

/// Secrets of ours that someone else edited and that were compared with what runs, as (name, resource version).
pub type Verified = BTreeSet<(String, String)>;

impl Cluster {
    /// Finds every credential that is needed; those that exist nowhere are made and stored, once.
    ///
    /// # Errors
    /// When the API server refuses a read or write; nothing is made then.
    pub async fn credentials(
        &self,
        question: &Question<'_>,
        inputs: &Inputs,
        verified: &mut Verified,
    ) -> Result<Credentials, Error> {
        let Question { spec, catalog, selection, .. } = *question;
        let mut found = Credentials::default();
        let mut wanted: BTreeMap<String, BTreeMap<Name, &file::Credential>> = BTreeMap::new();
        for (name, recipe) in credentials::needed(catalog, selection) {
            match credentials::given(spec, &name) {
                None => drop(wanted.entry(name.0.clone()).or_default().insert(name, recipe)),
                Some(key) => {
                    let reference = Reference {
                        kind: ValuesKind::Secret,
                        namespace: selection.namespace.clone(),
                        name: key.name.clone(),
                    };
                    let bytes = inputs.get(&reference, &key.key).map_err(|problem| problem.to_string());
                    match bytes.and_then(|bytes| text(bytes, &reference, &key.key)) {
                        Ok(value) => found.insert(name, value),
                        Err(problem) => drop(found.missing.insert(name, problem)),
                    }
                }
            }
        }
        let mut records = BTreeMap::new();
        for (service, names) in wanted {
            let store = Store { cluster: self, question };
            store.service(&service, &names, &mut records, &mut found, verified).await?;
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
    question: &'a Question<'a>,
}

type Records = BTreeMap<String, Result<Values, String>>;

impl Store<'_> {
    /// The credentials of one service: from our Secret, else read back from releases, else as the last pass had them, else made. What someone
    /// else wrote into our Secret counts only where no release runs with another value: a password is rotated by naming a Secret of one's own,
    /// never by surprise.
    async fn service(
        &self,
        service: &str,
        names: &BTreeMap<Name, &file::Credential>,
        records: &mut Records,
        found: &mut Credentials,
        verified: &mut Verified,
    ) -> Result<(), Error> {
        let Selection { name: deployment, namespace, .. } = self.question.selection;
        let secret_name = credentials::secret_name(deployment, service);
        let api: Api<Secret> = Api::namespaced(self.cluster.client.clone(), namespace);
        let mut secret = api.get_opt(&secret_name).await.because(|| format!("reading Secret {secret_name}"))?;
        let version =
            (secret_name.clone(), secret.as_ref().and_then(ResourceExt::resource_version).unwrap_or_default());
        let mut data = secret.as_mut().and_then(|secret| secret.data.take()).unwrap_or_default();
        let mut changed = false;
        for (name, recipe) in names {
            let stored = data.get(&name.1).and_then(|value| String::from_utf8(value.0.clone()).ok());
            let stored = stored.filter(|value| !value.is_empty());
            let edited = !verified.contains(&version) && secret.as_ref().is_some_and(|held| is_edited(held, &name.1));
            let value = match self.value(name, recipe, stored.as_ref(), edited, records).await? {
                Ok(value) => value,
                Err(problem) => {
                    found.missing.insert(name.clone(), problem);
                    continue;
                }
            };
            if stored.as_ref() != Some(&value) {
                if edited && stored.is_some() {
                    tell_put_back(&secret_name, name);
                }
                data.insert(name.1.clone(), ByteString(value.clone().into_bytes()));
                changed = true;
            }
            found.insert(name.clone(), value);
        }
        if changed {
            return self.write(&api, &secret_name, secret, data).await;
        }
        verified.retain(|(name, _)| *name != secret_name);
        verified.insert(version);
        Ok(())
    }

    /// The value that counts, in the order that [`Self::service`] tells; the inner error says why there is none yet.
    async fn value(
        &self,
        name: &Name,
        recipe: &file::Credential,
        stored: Option<&String>,
        edited: bool,
        records: &mut Records,
    ) -> Result<Result<String, String>, Error> {
        let last = self.last(name);
        // A Secret of the user's own that is no longer named leaves in ours what was true before it.
        let outdated = last.is_some() && last.as_ref() != stored;
        if let Some(value) = stored.filter(|_| !edited && !outdated) {
            return Ok(Ok(value.clone()));
        }
        let recovered = match self.recover(name, records).await? {
            Ok(recovered) => recovered,
            Err(problem) => return Ok(Err(problem)),
        };
        if let Some(value) = recovered.or_else(|| stored.cloned()).or(last) {
            return Ok(Ok(value));
        }
        if let Some(release) = self.unrecorded(name) {
            return Ok(Err(format!(
                "helm installs release {release} with a value that its record will tell: it is waited for"
            )));
        }
        credentials::generate(recipe, random).map(Ok)
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
            at_work && !credentials::places(catalog, release, name).is_empty()
        });
        found.map(|(release, _)| release.as_str())
    }

    /// The credential as a release of ours has it. `Err` when a release that uses it can't be read: making a new one would lock us out.
    async fn recover(&self, name: &Name, records: &mut Records) -> Result<Result<Option<String>, String>, Error> {
        for release in self.question.selection.releases.keys() {
            if credentials::places(self.question.catalog, release, name).is_empty() {
                continue;
            }
            if !records.contains_key(release) {
                let record = self.record(&self.question.selection.releases[release]).await?;
                records.insert(release.clone(), record);
            }
            match &records[release] {
                Ok(values) => {
                    if let Some(value) = credentials::read_back(self.question.catalog, release, values, name) {
                        return Ok(Ok(Some(value)));
                    }
                }
                Err(problem) => {
                    return Ok(Err(format!(
                        "credential {}.{} is lost and can't be read back from release {release}: {problem}; put it into Secret {} yourself",
                        name.0,
                        name.1,
                        credentials::secret_name(&self.question.selection.name, &name.0)
                    )));
                }
            }
        }
        Ok(Ok(None))
    }

    /// The values that helm recorded for a release of ours; none where there is no release.
    async fn record(&self, key: &Key) -> Result<Result<Values, String>, Error> {
        let Some(seen) = self.question.observed.releases.get(key).filter(|seen| seen.attempt.is_some()) else {
            return Ok(Ok(Values::new()));
        };
        self.cluster.recorded_values(key, seen.revision).await
    }

    async fn write(
        &self,
        api: &Api<Secret>,
        name: &str,
        known: Option<Secret>,
        data: BTreeMap<String, ByteString>,
    ) -> Result<(), Error> {
        if self.cluster.only_reads {
            return Ok(());
        }
        let exists = known.is_some();
        let mut secret = known.unwrap_or_default();
        secret.metadata.name = Some(name.to_owned());
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.insert(MANAGED.into(), self.question.selection.name.clone());
        labels.insert("app.kubernetes.io/managed-by".into(), super::MANAGER.into());
        secret.data = Some(data);
        let params = PostParams { field_manager: Some(super::MANAGER.into()), ..PostParams::default() };
        // Both forms fail when someone else was faster (create: exists; replace: its resourceVersion), and the next pass reads again.
        let written =
            if exists { api.replace(name, &params, &secret).await } else { api.create(&params, &secret).await };
        written.map(drop).because(|| format!("storing credentials in Secret {name}"))
    }
}

fn tell_put_back(secret: &str, (service, key): &Name) {
    tracing::warn!(
        secret,
        key,
        "the value was edited and releases run with another one: it is put back; to rotate, name a Secret of your own in spec.services.{service}.credentials"
    );
}

/// Whether a field manager other than ours owns this key of the data: it wrote it last.
fn is_edited(secret: &Secret, key: &str) -> bool {
    let field = format!("f:{key}");
    secret.metadata.managed_fields.iter().flatten().any(|entry| {
        let owns = entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:data"].get(&field).is_some());
        owns && entry.manager.as_deref() != Some(super::MANAGER)
    })
}

fn random(mut buffer: &mut [u8]) -> Result<(), Error> {
    while !buffer.is_empty() {
        let filled = rustix::rand::getrandom(&mut *buffer, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::Object(format!("the kernel gives no random bytes: {error}")))?;
        buffer = &mut buffer[filled..];
    }
    Ok(())
}
