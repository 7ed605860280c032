//! Builds the spec that describes a running cloud: presets and features, and overrides for all other values of the
//! running releases.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ceph::CephDeclaration;
use super::fit::{Fit, score};
use super::identify::IdentifiedReleases;
use super::openstack::detect_openstack_release;
use super::overrides::compute_overrides;
use super::{Comparison, compare_release};
use crate::api::{OpenStackDeploymentSpec, SecretKey, ValuesFrom, ValuesKind};
use crate::catalog::Catalog;
use crate::credentials;
use crate::desired::{
    DesiredRelease, Facts, Finding, ResolvedLayers, Selection, resolve_with_layers, select, warn_unknown_keys,
};
use osdpl_values::{CollectSorted, Path, yaml};
use osdpl_values::{Values, get};

/// The key under which a Secret stores helm values.
const VALUES_KEY: &str = "values.yaml";

/// The Secrets to which the spec refers. Maps the name of each Secret to its keys, and each key to its content.
pub type Secrets = BTreeMap<String, BTreeMap<String, SecretContent>>;

/// The content of one key of a Secret that the spec references. Contains secrets.
#[derive(Clone, PartialEq)]
pub enum SecretContent {
    /// The text of a credential or of a Ceph key.
    Text(String),
    /// A setting that is not secret, such as an address or a user name. It is in a Secret because the Secret's other
    /// keys contain secrets.
    Open(String),
    /// Helm values of a release, which the Secret stores as YAML under the key `values.yaml`.
    Values(Values),
}

impl SecretContent {
    /// Returns the content as the text that the Secret stores.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Open(text) => text.clone(),
            Self::Values(values) => yaml::write(&Value::Object(values.clone())),
        }
    }
}

/// The result of [`CloudInventory::describe`]: the spec and the Secrets that describe a running cloud, and what its
/// adoption would change.
pub struct Description {
    /// The spec that describes the cloud. It has `paused` set, so that the operator changes nothing before a person has
    /// checked the plan.
    pub spec: OpenStackDeploymentSpec,
    /// The Secrets that the spec references. A person must create them together with the `OpenStackDeployment`.
    pub secrets: Secrets,
    /// What the first upgrade after the adoption would change in each running release, by the release's name in the
    /// catalogue.
    pub compared: BTreeMap<String, Comparison>,
    /// The releases that result from `spec`, by their names in the catalogue.
    pub wanted: BTreeMap<String, DesiredRelease>,
    /// The releases that running releases need, but that do not run themselves, by their names in the catalogue. The
    /// spec pauses them, so that the operator does not install them.
    pub installs: Vec<String>,
    /// The errors, warnings and notes about the spec.
    pub findings: Vec<Finding>,
}

/// A function that returns the [`Facts`] from which osdpl computes the values of the selected releases. All these facts
/// are placeholders, such as made-up credentials.
///
/// [`CloudInventory::describe`] then replaces some placeholders with real values from the cloud, such as the
/// credentials of running releases.
pub type FactProvider<'a> = &'a dyn Fn(&Selection) -> Facts;

/// The input from which osdpl builds a [`Description`]: the running releases, and the name and namespace of the
/// `OpenStackDeployment` that a person will create.
pub struct CloudInventory<'a> {
    name: &'a str,
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

    /// Builds the spec and the Secrets that describe the running cloud. The same inventory always gives the same
    /// description.
    pub fn describe(&self) -> Description {
        let mut fit = Fit::new(self);
        fit.presets();
        fit.features();
        let mut spec = fit.spec;
        let mut secrets: Secrets = self.storage.iter().map(|storage| storage.secret.clone()).collect_map();
        let selection = self.selected(&spec);
        self.credentials(&mut spec, &selection, &mut secrets);
        let mut facts = self.facts(&selection);
        let desired = self.resolved(&spec, &facts).desired;
        for (name, found) in &self.known.releases {
            let Some(release) = desired.releases.get(name) else { continue };
            let rest = compute_overrides(&found.source.defaults, &release.values, &found.source.config);
            let own = spec.services.entry(release.service.clone()).or_default();
            let own = own.releases.entry(name.clone()).or_default();
            own.overrides = rest.plain;
            if !rest.secret.is_empty() {
                let secret = format!("{}-adopted-{name}", self.name);
                own.values_from =
                    vec![ValuesFrom { kind: ValuesKind::Secret, name: secret.clone(), key: None, optional: false }];
                let reference = (ValuesKind::Secret, secret.clone(), VALUES_KEY.to_owned());
                facts.values_from.insert(reference, Ok(rest.secret.clone()));
                secrets.entry(secret).or_default().insert(VALUES_KEY.into(), SecretContent::Values(rest.secret));
            }
        }
        let installs: Vec<String> =
            desired.releases.keys().filter(|name| !self.known.releases.contains_key(*name)).cloned().collect();
        // `installs` are releases that running releases need, but that do not run in this cluster. Their services may
        // run in another cluster. So pause these releases in the spec: the operator then does not install them before a
        // person has checked where the services run.
        for name in &installs {
            let service = desired.releases[name].service.clone();
            spec.services.entry(service).or_default().releases.entry(name.clone()).or_default().paused = true;
        }
        remove_empty_overrides(&mut spec);
        let layered = self.resolved(&spec, &facts);
        let unread = warn_unknown_keys(&spec, self.catalog, &layered);
        let desired = layered.desired;
        let compared = self
            .known
            .releases
            .iter()
            .filter_map(|(name, found)| {
                Some((name.clone(), compare_release(desired.releases.get(name)?, &found.source)))
            })
            .collect_map();
        let mut findings = desired.findings;
        findings.extend(unread);
        findings.extend(detect_openstack_release(self.known, self.catalog).warning);
        Description { compared, findings, wanted: desired.releases, installs, spec, secrets }
    }

    fn selected(&self, spec: &OpenStackDeploymentSpec) -> Selection {
        select(self.name, self.namespace, spec, self.catalog)
    }

    fn resolved(&self, spec: &OpenStackDeploymentSpec, facts: &Facts) -> ResolvedLayers {
        resolve_with_layers(spec, self.catalog, &self.selected(spec), facts)
    }

    /// Returns the facts from which osdpl computes the values of the selected releases: the credentials of the running
    /// releases, the sizes of their volume claims, the Ceph cluster that the spec declares, and placeholders for all
    /// other facts.
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
    fn usable_credentials(&self, selection: &Selection) -> impl Iterator<Item = (&credentials::Name, &String)> {
        let enabled: BTreeSet<String> =
            selection.services.iter().chain(selection.external.keys()).cloned().collect_set();
        self.adopted_credentials.iter().filter(move |((service, _), _)| enabled.contains(service))
    }

    /// Stores the credentials of running releases in `secrets`, in one Secret for each service, and adds references to
    /// these Secrets to the spec.
    fn credentials(&self, spec: &mut OpenStackDeploymentSpec, selection: &Selection, secrets: &mut Secrets) {
        for ((service, name), value) in self.usable_credentials(selection) {
            let secret = format!("{}-adopted-credentials-{}", self.name, service.replace('_', "-"));
            let key = SecretKey { name: secret.clone(), key: name.clone() };
            spec.services.entry(service.clone()).or_default().credentials.insert(name.clone(), key);
            secrets.entry(secret).or_default().insert(name.clone(), SecretContent::Text(value.clone()));
        }
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

/// Whether osdpl can use a text as a credential: it is not empty, has only one line, and contains no NUL character.
fn is_single_line(text: &str) -> bool {
    !text.is_empty() && !text.contains(['\n', '\r', '\0'])
}

/// Removes from the spec the entries of services and releases that set nothing.
fn remove_empty_overrides(spec: &mut OpenStackDeploymentSpec) {
    for service in spec.services.values_mut() {
        service.releases.retain(|_, release| *release != crate::api::ReleaseOverrides::default());
    }
    spec.services.retain(|_, service| *service != crate::api::ServiceOverrides::default());
}

/// Returns the [`score`] of a spec, which says how far the resulting cloud is from the running cloud. Returns `None` if
/// osdpl can't run helm for a running release with this spec.
pub(super) fn distance(cloud: &CloudInventory<'_>, spec: &OpenStackDeploymentSpec) -> Option<usize> {
    let selection = cloud.selected(spec);
    let facts = cloud.facts(&selection);
    score(cloud, spec, &selection, &facts)
}
