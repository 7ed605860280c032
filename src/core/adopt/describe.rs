//! The spec that describes a cloud which runs already: what fits of the catalogue, and the rest as overrides, so that nothing is lost.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ceph::Storage;
use super::fit::{Fit, score};
use super::found::Known;
use super::openstack::runs;
use super::residue::residue;
use super::{Compared, compare};
use crate::api::{OpenStackDeploymentSpec, SecretKey, ValuesFrom, ValuesKind};
use crate::catalog::Catalog;
use crate::credentials;
use crate::desired::{DesiredRelease, Facts, Finding, Layered, Selection, layered, select, unread};
use osdpl_values::yaml;
use osdpl_values::{Values, get};

/// The key of a Secret with values.
const VALUES_KEY: &str = "values.yaml";

/// A Secret that the spec refers to: its name, and what is in it.
pub type Secrets = BTreeMap<String, BTreeMap<String, Content>>;

/// What a key of such a Secret holds. Secret.
#[derive(Clone, PartialEq)]
pub enum Content {
    /// A credential.
    Text(String),
    /// What is told beside credentials and is none itself: a user, an address.
    Open(String),
    /// Values of a release, to be stored as YAML.
    Values(Values),
}

impl Content {
    /// As it is stored.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Open(text) => text.clone(),
            Self::Values(values) => yaml::write(&Value::Object(values.clone())),
        }
    }
}

/// What describes a cloud.
pub struct Description {
    /// The spec, paused.
    pub spec: OpenStackDeploymentSpec,
    /// What it refers to.
    pub secrets: Secrets,
    /// What taking each release over would change, by the catalogue's name.
    pub compared: BTreeMap<String, Compared>,
    /// What the spec wants, by the catalogue's name: of a release that was found, what it would be upgraded to.
    pub wanted: BTreeMap<String, DesiredRelease>,
    /// Releases that do not run and that others need: they are paused.
    pub installs: Vec<String>,
    /// What a person should know of the spec.
    pub findings: Vec<Finding>,
}

/// Makes up what is not known: credentials of releases that were not found.
pub type Invent<'a> = &'a dyn Fn(&Selection) -> Facts;

/// Where the resource is to be, and what it is made from.
pub struct Cloud<'a> {
    name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) known: &'a Known<'a>,
    pub(super) catalog: &'a Catalog,
    invent: Invent<'a>,
    pub(super) storage: Option<&'a Storage>,
    taken: BTreeMap<credentials::Name, String>,
}

impl<'a> Cloud<'a> {
    /// A cloud of what is known, as resource `namespace/name`.
    pub fn new(
        (namespace, name): (&'a str, &'a str),
        known: &'a Known<'a>,
        catalog: &'a Catalog,
        invent: Invent<'a>,
    ) -> Self {
        Self { name, namespace, known, catalog, invent, storage: None, taken: taken(known, catalog) }
    }

    /// The same, whose Ceph the spec is to declare.
    #[must_use]
    pub fn with_storage(self, storage: Option<&'a Storage>) -> Self {
        Self { storage, ..self }
    }

    /// Describes it. The same releases give the same description.
    pub fn describe(&self) -> Description {
        let mut fit = Fit::new(self);
        fit.presets();
        fit.features();
        let mut spec = fit.spec;
        let mut secrets: Secrets = self.storage.iter().map(|storage| storage.secret.clone()).collect();
        let selection = self.selected(&spec);
        self.credentials(&mut spec, &selection, &mut secrets);
        let mut facts = self.facts(&selection);
        let desired = self.resolved(&spec, &facts).desired;
        for (name, found) in &self.known.releases {
            let Some(release) = desired.releases.get(name) else { continue };
            let rest = residue(&found.source.defaults, &release.values, &found.source.config);
            let own = spec.services.entry(release.service.clone()).or_default();
            let own = own.releases.entry(name.clone()).or_default();
            own.overrides = rest.plain;
            if !rest.secret.is_empty() {
                let secret = format!("{}-adopted-{name}", self.name);
                own.values_from =
                    vec![ValuesFrom { kind: ValuesKind::Secret, name: secret.clone(), key: None, optional: false }];
                let place = (ValuesKind::Secret, secret.clone(), VALUES_KEY.to_owned());
                facts.values_from.insert(place, Ok(rest.secret.clone()));
                secrets.entry(secret).or_default().insert(VALUES_KEY.into(), Content::Values(rest.secret));
            }
        }
        let installs: Vec<String> =
            desired.releases.keys().filter(|name| !self.known.releases.contains_key(*name)).cloned().collect();
        // What others need and does not run here may run elsewhere: nothing is put beside it before a person has looked.
        for name in &installs {
            let service = desired.releases[name].service.clone();
            spec.services.entry(service).or_default().releases.entry(name.clone()).or_default().paused = true;
        }
        tidy(&mut spec);
        let layered = self.resolved(&spec, &facts);
        let unread = unread(&spec, self.catalog, &layered);
        let desired = layered.desired;
        let compared = self
            .known
            .releases
            .iter()
            .filter_map(|(name, found)| Some((name.clone(), compare(desired.releases.get(name)?, &found.source))))
            .collect();
        let mut findings = desired.findings;
        findings.extend(unread);
        findings.extend(runs(self.known, self.catalog).doubt);
        Description { compared, findings, wanted: desired.releases, installs, spec, secrets }
    }

    fn selected(&self, spec: &OpenStackDeploymentSpec) -> Selection {
        select(self.name, self.namespace, spec, self.catalog)
    }

    fn resolved(&self, spec: &OpenStackDeploymentSpec, facts: &Facts) -> Layered {
        layered(spec, self.catalog, &self.selected(spec), facts)
    }

    /// What is known from outside: credentials as the releases have them, the rest made up. Those of a service that is no part of the cloud can't be
    /// given: where a release repeats one, it stands in the release's own values.
    pub(super) fn facts(&self, selection: &Selection) -> Facts {
        let mut facts = (self.invent)(selection);
        // Where none is described, what needs one is no candidate.
        facts.ceph = self.storage.map(|storage| storage.declared.clone());
        for ((service, name), value) in self.named(selection) {
            facts.credentials.entry(service.clone()).or_default().insert(name.clone(), value.clone());
        }
        facts
    }

    /// The credentials that the spec can name: those of services that are part of the cloud.
    fn named(&self, selection: &Selection) -> impl Iterator<Item = (&credentials::Name, &String)> {
        let enabled: BTreeSet<String> = selection.services.iter().chain(selection.external.keys()).cloned().collect();
        self.taken.iter().filter(move |((service, _), _)| enabled.contains(service))
    }

    /// Names every credential that was taken over, each service's in a Secret of its own.
    fn credentials(&self, spec: &mut OpenStackDeploymentSpec, selection: &Selection, secrets: &mut Secrets) {
        for ((service, name), value) in self.named(selection) {
            let secret = format!("{}-adopted-credentials-{}", self.name, service.replace('_', "-"));
            let key = SecretKey { name: secret.clone(), key: name.clone() };
            spec.services.entry(service.clone()).or_default().credentials.insert(name.clone(), key);
            secrets.entry(secret).or_default().insert(name.clone(), Content::Text(value.clone()));
        }
    }
}

/// Each credential as the release of its own service has it, else as most others have it.
fn taken(known: &Known<'_>, catalog: &Catalog) -> BTreeMap<credentials::Name, String> {
    let mut counts: BTreeMap<credentials::Name, BTreeMap<&str, usize>> = BTreeMap::new();
    for (release, found) in &known.releases {
        let service = catalog.release(release).map_or("", |(service, _)| service);
        for (path, expression) in catalog.bodies(release).flat_map(crate::catalog::Body::whole) {
            let Some((owner, name)) = credential(&expression) else { continue };
            let Some(text) = get(&found.seen, &path).and_then(|value| value.as_str()) else { continue };
            if is_whole(text) {
                let weight = if owner == service { known.releases.len() * 100 } else { 1 };
                *counts.entry((owner.into(), name.into())).or_default().entry(text).or_default() += weight;
            }
        }
    }
    let most = |texts: BTreeMap<&str, usize>| {
        let most = texts.into_iter().max_by_key(|(text, count)| (*count, std::cmp::Reverse(*text)));
        most.map(|(text, _)| text.to_owned())
    };
    counts.into_iter().filter_map(|(name, texts)| Some((name, most(texts)?))).collect()
}

/// The service and name of a credential that an expression is, if it is one and no more: `credentials.keystone.admin`.
pub(super) fn credential(expression: &str) -> Option<(&str, &str)> {
    let (service, name) = expression.strip_prefix("credentials.")?.split_once('.')?;
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (plain(service) && plain(name)).then_some((service, name))
}

/// One line of text, as a Secret of the user's must hold it.
fn is_whole(text: &str) -> bool {
    !text.is_empty() && !text.contains(['\n', '\r', '\0'])
}

/// Drops what says nothing.
fn tidy(spec: &mut OpenStackDeploymentSpec) {
    for service in spec.services.values_mut() {
        service.releases.retain(|_, release| *release != crate::api::ReleaseOverrides::default());
    }
    spec.services.retain(|_, service| *service != crate::api::ServiceOverrides::default());
}

/// How far the releases of a spec are from those that run: fewer is better.
pub(super) fn distance(cloud: &Cloud<'_>, spec: &OpenStackDeploymentSpec) -> Option<usize> {
    let selection = cloud.selected(spec);
    let facts = cloud.facts(&selection);
    score(cloud, spec, &selection, &facts)
}
