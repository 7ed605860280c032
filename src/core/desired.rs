//! What is wanted: `select` says which services, features and releases a spec means, `resolve` merges the layers into each release's values.
//!
//! Pure room. Layers, low to high (each overrides the ones before, folded one by one):
//! 1. the catalogue: shared fragments, the release's base values and corrections, the OpenStack release;
//! 2. presets, in the order named; 3. features; then `spec.images`, which rewrites what came before;
//! 4. `spec.common`: all charts, then the group; 5. the release's `valuesFrom`, then its `values` and `unset`;
//! 6. `spec.nodes.overrides`, in the form that the release's chart understands.

mod certificates;
mod claims;
mod features;
mod images;
mod installed;
mod layers;
mod names;
mod needs;
mod nulls;
mod order;
mod passed;
mod per_node;
mod readings;
mod resolve;
mod roles;
mod select;
mod services;
mod threads;
mod unknown;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use certificates::Certificate;
pub use claims::{ClaimClasses, claim_classes};
pub use features::{secrets, without_login};
pub use installed::{Anchored, anchored, identify};
pub use layers::layers;
pub use names::lacks_names;
pub use nulls::lost_nulls;
pub use per_node::{FIELD as OVERRIDES, Split, Target, by_node, target};
pub use resolve::{Layered, layered, redacted, resolve};
pub use roles::role_labels;
pub use select::{contradictions, select};
pub use unknown::{Known, is_of_unknown_keys, is_unknown_in, known, known_in, says_to_each, unknown_keys, unread};
pub use written::{Written, written};

use crate::api::{DriftPolicy, ReleaseOverrides, ValuesKind};
use crate::catalog::{Component, Group, Level, SecretField, WorkloadKind};
use crate::ceph::Declared;
use crate::observed::{Key, Site};
use osdpl_values::expr::Scope;
use osdpl_values::{Layer, Path, Values};

/// Something about the spec that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Whether it is refused.
    pub level: Level,
    /// The field: `spec.services.nova`.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A message that begins with its field needs it no second time.
        if self.message.starts_with(&self.field) {
            return formatter.write_str(&self.message);
        }
        write!(formatter, "{}: {}", self.field, self.message)
    }
}

/// What a spec means, before any value is merged.
#[derive(Debug)]
pub struct Selection {
    /// The resource's name.
    pub name: String,
    /// The resource's namespace.
    pub namespace: String,
    /// The features: defaults, presets and spec merged.
    pub features: Values,
    /// The keys of Secrets that the features name.
    pub secrets: Vec<SecretField>,
    /// The certificates that it takes out of Secrets; none of what is refused.
    pub certificates: Vec<Certificate>,
    /// The enabled services that run in the cluster.
    pub services: BTreeSet<String>,
    /// The enabled services that run outside, with what pods wait for.
    pub external: BTreeMap<String, ExternalService>,
    /// The wanted releases by catalogue name, with their identity.
    pub releases: BTreeMap<String, Key>,
    /// What is wrong, or should be known; any of [`Level::Error`] forbids to go on.
    pub findings: Vec<Finding>,
    /// What expressions see, without credentials.
    pub scope: Scope<'static>,
}

/// A service outside of the cluster, reached through a Service of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalService {
    /// The name of the Service that pods wait for.
    pub service: String,
    /// The namespace of that Service.
    pub namespace: String,
    /// The host outside.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The name of the port.
    pub port_name: String,
}

impl Selection {
    /// Whether anything forbids to go on.
    pub fn is_refused(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Error)
    }
}

/// What must be known from outside to resolve.
#[derive(Clone, Default, PartialEq)]
pub struct Facts {
    /// Credentials by service and name.
    pub credentials: BTreeMap<String, BTreeMap<String, String>>,
    /// The Ceph that the spec declares; none where it declares none.
    pub ceph: Option<Declared>,
    /// What the objects named by `valuesFrom` hold, or why they can't be read.
    pub values_from: BTreeMap<(ValuesKind, String, String), Result<Values, Unavailable>>,
    /// The keys of Secrets that features name, by name and key, or why they can't be read.
    pub secrets: BTreeMap<(String, String), Result<String, Unavailable>>,
    /// What releases' own Jobs have written down, by release, or why it can't be read.
    pub written: BTreeMap<String, Result<Written, Unavailable>>,
    /// Credentials that can't be had, by service and name, and what to do.
    pub missing: BTreeMap<(String, String), String>,
    /// What the spec asks of releases that can't be done to them, by release.
    pub refused: BTreeMap<String, Blocked>,
    /// Charts by release, or why they can't be had.
    pub charts: BTreeMap<String, Result<ChartFact, Blocked>>,
    /// The classes of the volume claims that releases have already: they stay, whatever `spec.storageClass` says by now.
    pub claim_classes: ClaimClasses,
    /// The cluster that the cloud runs in, as far as rules ask about it; no value depends on it.
    pub site: Site,
    /// Helm's major version.
    pub helm_major: u64,
}

/// Why what an object holds is not at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The API server says that the object, or the key in it, is not there: what `optional` forgives.
    Missing(String),
    /// It may be there and can't be read, or can't be understood: nothing may be concluded from that.
    Unusable(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(message) | Self::Unusable(message) => formatter.write_str(message),
        }
    }
}

/// A chart that is at hand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartFact {
    /// The chart's version.
    pub version: String,
    /// The digest over its entries.
    pub digest: String,
    /// What helm's records tell the chart by (see [`crate::release::imprint`]); empty where that is not known.
    pub imprint: String,
    /// The chart's default `images.tags`.
    pub images: BTreeMap<String, String>,
    /// The chart's default `manifests.job_*`: which Jobs it is made of.
    pub jobs: BTreeMap<String, bool>,
}

/// Why a release can't be submitted, whatever its needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// A condition's reason.
    pub reason: String,
    /// What, where, why, and what to do.
    pub message: String,
}

/// What is wanted.
#[derive(Debug, Default)]
pub struct Desired {
    /// Releases by catalogue name.
    pub releases: BTreeMap<String, DesiredRelease>,
    /// Warnings that came up while merging.
    pub findings: Vec<Finding>,
}

/// One wanted release.
#[derive(Debug)]
pub struct DesiredRelease {
    /// Its identity.
    pub key: Key,
    /// The chart's name.
    pub chart: String,
    /// The service it belongs to.
    pub service: String,
    /// The group whose common values it takes.
    pub group: Group,
    /// The final values; secrets inside.
    pub values: Values,
    /// Paths that must never be shown.
    pub secret: Vec<Path>,
    /// Those too of which a later layer says something in clear: what the release was given before may be the secret.
    pub marked: Vec<Path>,
    /// The digest of everything helm is given, 63 hexadecimal digits.
    pub inputs: String,
    /// The digest of the catalogue's part, 16 hexadecimal digits.
    pub catalog: String,
    /// The digest of the images that its pods and Jobs are given, 16 hexadecimal digits.
    pub images: String,
    /// The digest of what running guests hold on to, where there is such a thing: when it changes, the upgrade waits for approval.
    pub guests: Option<String>,
    /// How its `DaemonSets` are split by node, where they can be: when that changes, their pods are made anew, and the upgrade waits for approval.
    pub split: Option<Split>,
    /// The components that must be available before it may be submitted, each with its provider.
    pub needs: BTreeMap<Component, Provider>,
    /// The other wanted releases that its pods wait for by themselves, by catalogue name.
    pub awaits: BTreeSet<String>,
    /// What it provides.
    pub components: BTreeMap<Component, WorkloadKind>,
    /// The `CronJobs` of it that are tests, each with where its results are kept.
    pub tests: BTreeMap<Component, String>,
    /// How many Jobs it is made of.
    pub jobs: usize,
    /// Jobs deleted before an upgrade.
    pub plain_jobs: Vec<String>,
    /// Helm's `--timeout`, per hook, in seconds.
    pub timeout: u32,
    /// Helm 4's `--server-side`.
    pub server_side: bool,
    /// The chart, where it is at hand.
    pub version: Option<String>,
    /// The digest of the chart, where it is known.
    pub chart_digest: Option<String>,
    /// What helm's records tell the chart by, where that is known.
    pub imprint: Option<String>,
    /// Whether the spec pauses it.
    pub paused: bool,
    /// Whether it is ours to look after; else it is let go.
    pub managed: bool,
    /// What is done about objects that others changed.
    pub drift: DriftPolicy,
    /// Why it can't be submitted.
    pub blocked: Option<Blocked>,
}

impl DesiredRelease {
    /// Whether the spec asks for what can't be done to it: it stays as it is then, in sync or not.
    pub fn is_refused(&self) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.reason == crate::api::reason::INVALID)
    }
}

/// Who provides a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// A wanted release, by catalogue name.
    Release(String),
    /// A service outside.
    External(String),
}

/// The origin and layer list of one release, for provenance.
pub type Layers = Vec<Layer>;

/// What the spec says of one release.
pub(crate) fn overrides<'a>(
    spec: &'a crate::api::OpenStackDeploymentSpec,
    service: &str,
    release: &str,
) -> Option<&'a ReleaseOverrides> {
    spec.services.get(service)?.releases.get(release)
}

/// The version of its chart that the spec names for a release, where that is another than the lock's: what is known of the locked one does not hold.
pub fn other_version<'a>(
    spec: &'a crate::api::OpenStackDeploymentSpec,
    catalog: &crate::catalog::Catalog,
    release: &str,
) -> Option<&'a str> {
    let (service, entry) = catalog.release(release)?;
    let version = overrides(spec, service, release)?.version.as_deref()?;
    let is_locked = catalog.lock.get(&entry.chart).is_some_and(|locked| locked.version == version);
    (!is_locked).then_some(version)
}

#[cfg(test)]
mod tests;
