//! The desired state: [`select`] determines the services, features and releases of a spec, and [`resolve`] merges the
//! layers into the values of each release.
//!
//! Pure module (no I/O). The layers from low to high; each overrides the ones before it:
//! 1. the catalogue: shared fragments, the release's base values and fragments, the OpenStack release;
//! 2. presets, in the order named; 3. features; then `spec.images`, which rewrites the images set so far;
//! 4. `spec.common`: all charts, then the group; 5. the release's `valuesFrom`, then its `values` and `unset`;
//! 6. `spec.nodes.overrides`, in the form that the release's chart understands.

mod candidates;
mod certificates;
mod claims;
mod features;
mod images;
mod installed;
mod job_facts;
mod layers;
mod names;
mod needs;
mod nulls;
mod order;
mod passwords;
mod per_node;
mod resolve;
mod roles;
mod select;
mod services;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use certificates::Certificate;
pub use claims::{ClaimClasses, collect_claim_classes};
pub use features::{list_feature_secrets, redact_url_logins};
pub use installed::{RejectedMoves, identify_release, reject_moves};
pub use job_facts::{JobFacts, fact_config_maps};
pub use layers::layers;
pub use names::{check_names, has_unknown_names};
pub use nulls::find_lost_nulls;
pub use per_node::{NodeSplit, NodeTarget, OVERRIDES_FIELD as OVERRIDES, list_node_layers, parse_target};
pub use resolve::{ResolvedLayers, redact, resolve, resolve_with_layers};
pub use roles::role_labels;
pub use select::{find_excluded_presets, select};
pub use unknown::{
    KeyState, classify_key, classify_key_in, find_unknown_keys, is_reported_per_release, is_unknown_key_in,
};
pub(crate) use unknown::{is_about_unknown_keys, warn_unknown_keys};

use crate::api::{DriftPolicy, ReleaseOverrides, ValuesKind};
use crate::catalog::{Component, Group, Level, SecretField, WorkloadKind};
use crate::ceph::{DeclaredCeph, ObjectStore};
pub use crate::finding::Finding;
use crate::observed::{ClusterInfo, ReleaseKey};
use osdpl_values::expr::Scope;
use osdpl_values::{Path, Values};

/// The services, features and releases that a spec selects, before any value is merged.
#[derive(Debug)]
pub struct Selection {
    /// The resource's name.
    pub name: String,
    /// The resource's namespace.
    pub namespace: String,
    /// The features: defaults, presets and spec merged.
    pub features: Values,
    /// The keys of Secrets that the features refer to.
    pub secrets: Vec<SecretField>,
    /// The certificates that the cloud reads from Secrets; empty if the spec is refused.
    pub certificates: Vec<Certificate>,
    /// The enabled services that run inside the cluster.
    pub services: BTreeSet<String>,
    /// The enabled services that run outside of the cluster, with the Service that pods wait for.
    pub external: BTreeMap<String, ExternalService>,
    /// The desired releases by catalogue name, with their identity.
    pub releases: BTreeMap<String, ReleaseKey>,
    /// Problems and remarks; any [`Level::Error`] refuses the spec.
    pub findings: Vec<Finding>,
    /// The variables of expressions, without credentials.
    pub scope: Scope<'static>,
}

/// A service outside of the cluster, reached through a Service that osdpl creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalService {
    /// The name of the Service that pods wait for.
    pub service: String,
    /// The namespace of that Service.
    pub namespace: String,
    /// The external host.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The name of the port.
    pub port_name: String,
}

impl Selection {
    /// Returns Ceph's object store if the features ask for one and its release is part of the cloud.
    pub fn object_store(&self) -> Option<ObjectStore> {
        let storage = self.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
        ObjectStore::from_feature(&storage["ceph"]).filter(|_| self.releases.contains_key("ceph-rgw"))
    }

    /// Whether any finding is an error.
    pub fn is_refused(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Error)
    }
}

/// Inputs from outside of the spec that resolving needs.
#[derive(Clone, Default, PartialEq)]
pub struct Facts {
    /// Credentials by service and name.
    pub credentials: BTreeMap<String, BTreeMap<String, String>>,
    /// The Ceph that the spec declares, if any.
    pub ceph: Option<DeclaredCeph>,
    /// The contents of the objects that `valuesFrom` names, or the reason why they can't be read.
    pub values_from: BTreeMap<(ValuesKind, String, String), Result<Values, Unavailable>>,
    /// The contents of the Secrets that features name, by name and key, or the reason why they can't be read.
    pub secrets: BTreeMap<(String, String), Result<String, Unavailable>>,
    /// The facts that the releases' own Jobs have stored, by release, or the reason why they can't be read.
    pub job_facts: BTreeMap<String, Result<JobFacts, Unavailable>>,
    /// Credentials that are not available, by service and name, with the remedy.
    pub missing: BTreeMap<(String, String), String>,
    /// The reasons why requested changes of releases are impossible, by release.
    pub refused: BTreeMap<String, Blocked>,
    /// The charts by release, or the reason why they are not available.
    pub charts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// The storage classes of the volume claims that releases already have; they win over `spec.storageClass`.
    pub claim_classes: ClaimClasses,
    /// The properties of the cluster that rules need. No value depends on them.
    pub cluster_info: ClusterInfo,
    /// Helm's major version.
    pub helm_major: u64,
}

/// The reason why the contents of an object are not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The API server reports that the object, or the key in it, does not exist; `optional` tolerates this.
    Missing(String),
    /// The object can't be read or parsed. It may exist, so `optional` does not tolerate this.
    Unusable(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(message) | Self::Unusable(message) => formatter.write_str(message),
        }
    }
}

/// A chart that is available.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartInfo {
    /// The chart's version.
    pub version: String,
    /// The digest over its entries.
    pub digest: String,
    /// The fingerprint of the chart in helm's records (see [`crate::release::chart_fingerprint`]); empty if unknown.
    pub fingerprint: String,
    /// The chart's default `images.tags`.
    pub images: BTreeMap<String, String>,
    /// The chart's default `manifests.job_*` switches: the Jobs that it renders.
    pub jobs: BTreeMap<String, bool>,
}

/// The reason why a release can't be passed to helm, independent of its needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// A condition's reason.
    pub reason: String,
    /// The message: what happened, why, and what to do.
    pub message: String,
}

/// The desired state of a cloud.
#[derive(Debug, Default)]
pub struct Desired {
    /// Releases by catalogue name.
    pub releases: BTreeMap<String, DesiredRelease>,
    /// Warnings that came up while merging.
    pub findings: Vec<Finding>,
}

/// One desired release.
#[derive(Debug)]
pub struct DesiredRelease {
    /// Its identity.
    pub key: ReleaseKey,
    /// The chart's name.
    pub chart: String,
    /// The service that it belongs to.
    pub service: String,
    /// The group whose common values apply to it.
    pub group: Group,
    /// The final values; they contain secrets.
    pub values: Values,
    /// Paths that must never be shown.
    pub secret: Vec<Path>,
    /// Secret paths, and those that a later layer sets in plain text: an earlier revision may still have the secret
    /// there.
    pub marked: Vec<Path>,
    /// The digest of everything helm is given, 63 hexadecimal digits.
    pub inputs: String,
    /// The digest of the inputs that come from the catalogue, 16 hexadecimal digits.
    pub catalog: String,
    /// The digest of the images of its pods and Jobs, 16 hexadecimal digits.
    pub images: String,
    /// The digest of the settings that running instances depend on, if any. When it changes, the upgrade waits for
    /// approval.
    pub instances: Option<String>,
    /// The split of its `DaemonSets` by node, if they can be split. When it changes, their pods are recreated, so the
    /// upgrade waits for approval.
    pub split: Option<NodeSplit>,
    /// The components that must be available before helm runs, each with its provider.
    pub needs: BTreeMap<Component, Provider>,
    /// The other desired releases that its own pods wait for, by catalogue name.
    pub waits_for: BTreeSet<String>,
    /// The components that it provides.
    pub components: BTreeMap<Component, WorkloadKind>,
    /// Its `CronJobs` that are tests, each with the location of its results.
    pub tests: BTreeMap<Component, String>,
    /// The number of its Jobs.
    pub jobs: usize,
    /// The Jobs to delete before an upgrade, because they are immutable.
    pub plain_jobs: Vec<String>,
    /// Helm's `--timeout`, per hook, in seconds.
    pub timeout: u32,
    /// Helm 4's `--server-side`.
    pub server_side: bool,
    /// The chart's version, if the chart is available.
    pub version: Option<String>,
    /// The digest of the chart, if known.
    pub chart_digest: Option<String>,
    /// The fingerprint of the chart in helm's records, if known.
    pub fingerprint: Option<String>,
    /// Whether the spec pauses it.
    pub paused: bool,
    /// Whether osdpl manages it; if not, it is unmanaged.
    pub managed: bool,
    /// The drift policy of its objects.
    pub drift: DriftPolicy,
    /// The reason if it can't be passed to helm.
    pub blocked: Option<Blocked>,
}

impl DesiredRelease {
    /// Whether the spec requests an impossible change; the release then stays as it is, in sync or not.
    pub fn is_refused(&self) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.reason == crate::api::reason::INVALID)
    }
}

/// The provider of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// A desired release, by catalogue name.
    Release(String),
    /// A service outside of the cluster.
    External(String),
}

/// Returns the overrides that the spec has for one release.
pub(crate) fn release_overrides<'a>(
    spec: &'a crate::api::OpenStackDeploymentSpec,
    service: &str,
    release: &str,
) -> Option<&'a ReleaseOverrides> {
    spec.services.get(service)?.releases.get(release)
}

/// Returns the chart version that the spec sets for a release, if it is not the locked one.
///
/// Facts about the locked version do not apply to that version.
pub fn overridden_chart_version<'a>(
    spec: &'a crate::api::OpenStackDeploymentSpec,
    catalog: &crate::catalog::Catalog,
    release: &str,
) -> Option<&'a str> {
    let (service, entry) = catalog.release(release)?;
    let version = release_overrides(spec, service, release)?.version.as_deref()?;
    let is_locked = catalog.lock.get(&entry.chart).is_some_and(|locked| locked.version == version);
    (!is_locked).then_some(version)
}

#[cfg(test)]
mod tests;
