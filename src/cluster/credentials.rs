//! Credentials in the cluster: the user's Secrets, ours, and what releases already run with.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;

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

impl Cluster {
    /// Finds every credential that is needed; those that exist nowhere are made and stored, once.
    ///
    /// # Errors
    /// When the API server refuses a read or write; nothing is made then.
    pub async fn credentials(
        &self,
        spec: &OpenStackDeploymentSpec,
        catalog: &Catalog,
        selection: &Selection,
        observed: &Observed,
        inputs: &Inputs,
    ) -> Result<Credentials, Error> {
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
                    match inputs.get(&reference, &key.key).and_then(|bytes| text(bytes, &reference, &key.key)) {
                        Ok(value) => found.insert(name, value),
                        Err(problem) => drop(found.missing.insert(name, problem)),
                    }
                }
            }
        }
        let mut records = BTreeMap::new();
        for (service, names) in wanted {
            let store = Store { cluster: self, catalog, selection, observed };
            store.service(&service, &names, &mut records, &mut found).await?;
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
    catalog: &'a Catalog,
    selection: &'a Selection,
    observed: &'a Observed,
}

type Records = BTreeMap<String, Result<Values, String>>;

impl Store<'_> {
    /// The credentials of one service: from our Secret, else read back from releases, else made.
    async fn service(
        &self,
        service: &str,
        names: &BTreeMap<Name, &file::Credential>,
        records: &mut Records,
        found: &mut Credentials,
    ) -> Result<(), Error> {
        let secret_name = credentials::secret_name(&self.selection.name, service);
        let api: Api<Secret> = Api::namespaced(self.cluster.client.clone(), &self.selection.namespace);
        let mut secret = api.get_opt(&secret_name).await.because(|| format!("reading Secret {secret_name}"))?;
        let mut data = secret.as_mut().and_then(|secret| secret.data.take()).unwrap_or_default();
        let mut changed = false;
        for (name, recipe) in names {
            let stored = data.get(&name.1).and_then(|value| String::from_utf8(value.0.clone()).ok());
            if let Some(value) = stored.filter(|value| !value.is_empty()) {
                found.insert(name.clone(), value);
                continue;
            }
            match self.recover(name, records).await? {
                Err(problem) => drop(found.missing.insert(name.clone(), problem)),
                Ok(recovered) => {
                    let value = match recovered {
                        Some(value) => value,
                        None => credentials::generate(recipe, random)?,
                    };
                    data.insert(name.1.clone(), ByteString(value.clone().into_bytes()));
                    found.insert(name.clone(), value);
                    changed = true;
                }
            }
        }
        if changed { self.write(&api, &secret_name, secret, data).await } else { Ok(()) }
    }

    /// The credential as a release of ours has it. `Err` when a release that uses it can't be read: making a new one would lock us out.
    async fn recover(&self, name: &Name, records: &mut Records) -> Result<Result<Option<String>, String>, Error> {
        for release in self.selection.releases.keys() {
            if credentials::places(self.catalog, release, name).is_empty() {
                continue;
            }
            if !records.contains_key(release) {
                let record = self.record(&self.selection.releases[release]).await?;
                records.insert(release.clone(), record);
            }
            match &records[release] {
                Ok(values) => {
                    if let Some(value) = credentials::read_back(self.catalog, release, values, name) {
                        return Ok(Ok(Some(value)));
                    }
                }
                Err(problem) => {
                    return Ok(Err(format!(
                        "credential {}.{} is lost and can't be read back from release {release}: {problem}; put it into Secret {} yourself",
                        name.0,
                        name.1,
                        credentials::secret_name(&self.selection.name, &name.0)
                    )));
                }
            }
        }
        Ok(Ok(None))
    }

    /// The values that helm recorded for a release of ours; none where there is no release.
    async fn record(&self, key: &Key) -> Result<Result<Values, String>, Error> {
        let Some(seen) = self.observed.releases.get(key).filter(|seen| seen.attempt.is_some()) else {
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
        labels.insert(MANAGED.into(), self.selection.name.clone());
        labels.insert("app.kubernetes.io/managed-by".into(), super::MANAGER.into());
        secret.data = Some(data);
        let params = PostParams { field_manager: Some(super::MANAGER.into()), ..PostParams::default() };
        // Both forms fail when someone else was faster (create: exists; replace: its resourceVersion), and the next pass reads again.
        let written =
            if exists { api.replace(name, &params, &secret).await } else { api.create(&params, &secret).await };
        written.map(drop).because(|| format!("storing credentials in Secret {name}"))
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
