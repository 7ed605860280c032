//! Collects what osdpl knows about a running cloud, and computes from it the selection and the facts of each spec that
//! the search for a fitting spec tries.

use std::collections::{BTreeMap, BTreeSet};

use super::ceph::CephDeclaration;
use super::identify::IdentifiedReleases;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Catalog;
use crate::credentials;
use crate::desired::{Facts, ResolvedLayers, Selection, resolve_with_layers, select};
use osdpl_values::{CollectSorted, Path, get};

/// A function that returns the [`Facts`] from which osdpl computes the values of the selected releases. All these facts
/// are placeholders, such as made-up credentials.
///
/// [`CloudInventory::describe`] then replaces some placeholders with real values from the cloud, such as the
/// credentials of running releases.
pub type FactProvider<'a> = &'a dyn Fn(&Selection) -> Facts;

/// The input from which osdpl builds a [`Description`](super::Description): the running releases, and the name and
/// namespace of the `OpenStackDeployment` that a person will create.
pub struct CloudInventory<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) known: &'a IdentifiedReleases<'a>,
    pub(super) catalog: &'a Catalog,
    provide_facts: FactProvider<'a>,
    pub(super) storage: Option<&'a CephDeclaration>,
    adopted_credentials: BTreeMap<credentials::Name, String>,
}

impl<'a> CloudInventory<'a> {
    /// Creates the inventory of a cloud that uses no Ceph. `namespace` and `name` are those of the
    /// `OpenStackDeployment` that a person will create.
    pub fn new(
        namespace: &'a str,
        name: &'a str,
        known: &'a IdentifiedReleases<'a>,
        catalog: &'a Catalog,
        provide_facts: FactProvider<'a>,
    ) -> Self {
        Self {
            name,
            namespace,
            known,
            catalog,
            provide_facts,
            storage: None,
            adopted_credentials: adopted_credentials(known, catalog),
        }
    }

    /// Sets the part of the spec that declares the Ceph cluster of the cloud; `None` if the cloud uses no Ceph.
    #[must_use]
    pub fn with_storage(self, storage: Option<&'a CephDeclaration>) -> Self {
        Self { storage, ..self }
    }

    pub(super) fn selected(&self, spec: &OpenStackDeploymentSpec) -> Selection {
        select(self.name, self.namespace, spec, self.catalog)
    }

    pub(super) fn resolved(&self, spec: &OpenStackDeploymentSpec, facts: &Facts) -> ResolvedLayers {
        resolve_with_layers(spec, self.catalog, &self.selected(spec), facts)
    }

    /// Returns the facts from which osdpl computes the values of the selected releases: the credentials and claim sizes
    /// in the values of the running releases, the baseline 0 of these releases, the Ceph cluster that the spec
    /// declares, and placeholders for all other facts.
    ///
    /// The result contains only credentials of services that are part of the cloud. If a release uses the credential of
    /// another service, which is not part of the cloud, the spec can't reference this credential. Instead, the
    /// overrides of the release contain the credential.
    pub(super) fn facts(&self, selection: &Selection) -> Facts {
        let mut facts = (self.provide_facts)(selection);
        // If the cloud uses no Ceph, this removes the placeholder for a Ceph cluster. osdpl then rejects features with
        // settings that need a Ceph cluster, so the search does not select these features.
        facts.ceph = self.storage.map(|storage| storage.declared.clone());
        for (name, found) in &self.known.releases {
            facts.baselines.insert(name.clone(), 0);
            let paths = self.catalog.release(name).map(|(_, release)| release.claim_sizes.keys());
            let size = |path: &Path| get(&found.effective_values, path)?.as_str().map(str::to_owned);
            let sizes = paths.into_iter().flatten().filter_map(|path| Some((path.clone(), size(path)?)));
            facts.claim_sizes.insert(name.clone(), sizes.collect_map());
        }
        for ((service, name), value) in self.usable_credentials(selection) {
            facts.credentials.entry(service.clone()).or_default().insert(name.clone(), value.clone());
        }
        facts
    }

    /// Returns those credentials of running releases for which the spec can name a Secret: the credentials of services
    /// that are part of the cloud.
    pub(super) fn usable_credentials(
        &self,
        selection: &Selection,
    ) -> impl Iterator<Item = (&credentials::Name, &String)> {
        let enabled: BTreeSet<String> =
            selection.services.iter().chain(selection.external.keys()).cloned().collect_set();
        self.adopted_credentials.iter().filter(move |((service, _), _)| enabled.contains(service))
    }
}

/// Returns the value of each credential in the running releases.
///
/// If releases have different values, the function prefers the value in the releases of the service that owns the
/// credential. If these releases have no value, it returns the value that most other releases have.
fn adopted_credentials(known: &IdentifiedReleases<'_>, catalog: &Catalog) -> BTreeMap<credentials::Name, String> {
    let mut counts: BTreeMap<credentials::Name, BTreeMap<&str, usize>> = BTreeMap::new();
    for (release, found) in &known.releases {
        let service = catalog.release(release).map_or("", |(service, _)| service);
        for (path, expression) in catalog.bodies(release).flat_map(crate::catalog::Body::whole_scalar_expressions) {
            let Some((owner, name)) = credential(&expression) else { continue };
            let Some(text) = get(&found.effective_values, &path).and_then(|value| value.as_str()) else { continue };
            if is_single_line(text) {
                let weight = if owner == service { known.releases.len() * 100 } else { 1 };
                *counts.entry((owner.into(), name.into())).or_default().entry(text).or_default() += weight;
            }
        }
    }
    let most = |texts: BTreeMap<&str, usize>| {
        let most = texts.into_iter().max_by_key(|(text, count)| (*count, std::cmp::Reverse(*text)));
        most.map(|(text, _)| text.to_owned())
    };
    counts.into_iter().filter_map(|(name, texts)| Some((name, most(texts)?))).collect_map()
}

/// Returns the service and the name of the credential that an expression such as `credentials.keystone.admin` reads;
/// `None` if the expression contains anything else.
pub(super) fn credential(expression: &str) -> Option<(&str, &str)> {
    let (service, name) = expression.strip_prefix("credentials.")?.split_once('.')?;
    let is_plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_plain(service) && is_plain(name)).then_some((service, name))
}

/// Whether osdpl can use a string as a credential: it is not empty, has only one line, and contains no NUL character.
fn is_single_line(text: &str) -> bool {
    !text.is_empty() && !text.contains(['\n', '\r', '\0'])
}
