//! Computes the desired state of a cloud from its spec, the catalogue and the [`Facts`] about the cluster.
//!
//! [`select`] determines the services, features and releases of a spec. [`resolve`] merges layers of values into the
//! values of each release.
//!
//! Pure module (no I/O). These are the layers, from low to high; each overrides the layers before it:
//! 1. the catalogue: shared fragments, the release's base values and fragments, the fragments of the OpenStack release
//! 2. the presets, in the order in which the spec names them
//! 3. the features; then the sizes of existing volume claims; then `spec.images`, which rewrites the names of the
//!    container images of the chart and of layers 1 to 3
//! 4. `spec.common`: the values for all charts, then the values for the release's group
//! 5. the release in `spec.services`: its `valuesFrom`, then its `values` and `unset`
//! 6. `spec.nodes.overrides`, in the form that the release's chart understands

mod candidates;
mod certificates;
mod claims;
mod conditions;
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
mod selectors;
mod services;
mod sizes;
mod source;
mod unknown;
mod variables;

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
pub use sizes::{ClaimSizes, collect_claim_sizes};
pub use unknown::{
    KeyState, classify_key, classify_key_in, find_unknown_keys, is_reported_per_release, is_unknown_key_in,
};
pub(crate) use unknown::{is_about_unknown_keys, warn_unknown_keys};
pub use variables::release_variables;

use crate::api::{DriftPolicy, ReleaseOverrides, ValuesKind, owner_label};
use crate::catalog::{Component, Group, Level, SecretField, WorkloadKind};
use crate::ceph::{DeclaredCeph, ObjectStore};
pub use crate::finding::Finding;
use crate::observed::{ClusterInfo, ReleaseKey};
use crate::release::ChartIdentity;
use osdpl_values::expr::Scope;
use osdpl_values::{Path, Values};

/// The baseline of the releases that osdpl installs now: a number that decides which defaults of the catalogue apply to
/// a release.
///
/// The catalogue has defaults that must not change on a running release, such as the type of message queues. It sets
/// such a default only for releases with a certain baseline (`release.baseline` in expressions). A release keeps the
/// baseline with which osdpl installed it. The baseline is 0 for releases that another tool installed, or that a
/// version of osdpl without baselines installed.
///
/// Increase the number when the catalogue gets a new default of this kind.
pub const BASELINE: u32 = 1;

/// Whether the chart lock or the spec sets the version of a release's chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionSource {
    /// The chart lock of the catalogue.
    Catalog,
    /// The field `version` of the release in the spec.
    Spec,
}

/// The services, features and releases that a spec selects. [`resolve`] then computes the values of the releases.
#[derive(Debug)]
pub struct Selection {
    /// The name of the OpenStackDeployment.
    pub name: String,
    /// The namespace of the OpenStackDeployment.
    pub namespace: String,
    /// The merged settings of all features: the spec overrides the presets, and the presets override the catalogue's
    /// defaults.
    pub features: Values,
    /// The fields of features that refer to a key of a Secret, each with the names of the Secret and the key.
    pub secrets: Vec<SecretField>,
    /// The certificates that the cloud reads from Secrets; empty if osdpl refuses the spec.
    pub certificates: Vec<Certificate>,
    /// The enabled services that run inside the cluster.
    pub services: BTreeSet<String>,
    /// The enabled services that run outside of the cluster, each with its host and with the Kubernetes Service that
    /// osdpl creates for it.
    pub external: BTreeMap<String, ExternalService>,
    /// The desired releases by catalogue name, each with the namespace and name of its helm release.
    pub releases: BTreeMap<String, ReleaseKey>,
    /// The findings about the spec; osdpl refuses the spec if one of them is a [`Level::Error`].
    pub findings: Vec<Finding>,
    /// The variables that the catalogue's CEL expressions can read. [`resolve`] later adds variables from the
    /// [`Facts`].
    pub scope: Scope<'static>,
}

impl Selection {
    /// Returns the value of the label [`DEPLOYMENT_LABEL`](crate::api::DEPLOYMENT_LABEL) on the objects that belong to
    /// the cloud.
    pub fn owner(&self) -> String {
        owner_label(&self.namespace, &self.name)
    }
}

/// A service that runs outside of the cluster, and the Kubernetes Service through which pods reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalService {
    /// The name of the Kubernetes Service that osdpl creates. Upstream's pods wait for a Service of this name.
    pub service: String,
    /// The namespace of the Kubernetes Service.
    pub namespace: String,
    /// The name or IP address of the external host.
    pub host: String,
    /// The TCP port of the service on the external host.
    pub port: u16,
    /// The name of the port in the Kubernetes Service.
    pub port_name: String,
}

impl Selection {
    /// Returns the settings of Ceph's object store; `None` if the features enable no object store, or if the cloud does
    /// not have the release `ceph-rgw`.
    pub fn object_store(&self) -> Option<ObjectStore> {
        let storage = self.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
        ObjectStore::from_feature(&storage["ceph"]).filter(|_| self.releases.contains_key("ceph-rgw"))
    }

    /// Whether osdpl refuses the spec, because a finding is an error.
    pub fn is_refused(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Error)
    }
}

/// The facts about the cluster from which [`resolve`] computes the values of releases, such as credentials and charts.
#[derive(Clone, Default, PartialEq)]
pub struct Facts {
    /// The available credentials, by service and credential name.
    pub credentials: BTreeMap<String, BTreeMap<String, String>>,
    /// The settings and problems of the Ceph cluster that the cloud uses, as far as the operator could read them;
    /// `None` if the cloud does not use Ceph.
    pub ceph: Option<DeclaredCeph>,
    /// The values in each Secret or ConfigMap that a field `valuesFrom` of the spec names. The map's key is the kind
    /// and the name of this object, and the key in the object's data. An error is the reason why osdpl can't read the
    /// values.
    pub values_from: BTreeMap<(ValuesKind, String, String), Result<Values, Unavailable>>,
    /// The strings that features read from Secrets, by the name of the Secret and the key in its data. An error is the
    /// reason why osdpl can't read the string.
    pub secrets: BTreeMap<(String, String), Result<String, Unavailable>>,
    /// The facts that Jobs of releases have stored in ConfigMaps, by release. An error is the reason why osdpl can't
    /// read the facts.
    pub job_facts: BTreeMap<String, Result<JobFacts, Unavailable>>,
    /// The reason why a credential is not available, and the remedy, by service and credential name.
    pub missing: BTreeMap<(String, String), String>,
    /// The releases for which osdpl refuses the name or namespace in the spec, by catalogue name, each with the reason.
    pub refused: BTreeMap<String, Blocked>,
    /// The properties of each release's chart, by the release's catalogue name. An error is the reason why the chart is
    /// not available.
    pub charts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// The baseline of each installed release: a number that decides which defaults of the catalogue apply to the
    /// release (see [`BASELINE`]). Releases that are not installed have no entry.
    pub baselines: BTreeMap<String, u32>,
    /// The sizes of existing volume claims, by release and by the path of the value that sets the size. They override
    /// the sizes in the catalogue. A claim is missing here if the catalogue does not name the value that sets its size.
    pub claim_sizes: ClaimSizes,
    /// The storage classes of the releases' existing volume claims. They override `spec.storageClass` in the values of
    /// these releases.
    pub claim_classes: ClaimClasses,
    /// The properties of the Kubernetes cluster that osdpl uses to check a spec. The values of releases do not depend
    /// on them.
    pub cluster_info: ClusterInfo,
    /// The major version of the helm program that osdpl runs.
    pub helm_major: u64,
}

impl Facts {
    /// Returns a copy of these facts without `job_facts`. From the copy, osdpl computes
    /// [`DesiredRelease::inputs_without_facts`], the digest that a person approves, so that new job facts do not
    /// invalidate the approval.
    ///
    /// Returns `None` if Jobs have stored no facts. Then a person approves [`DesiredRelease::inputs`], which contains
    /// no job facts either.
    fn without_job_facts(&self) -> Option<Self> {
        let are_stored = self.job_facts.values().flatten().any(|facts| !facts.is_empty());
        are_stored.then(|| Self { job_facts: BTreeMap::new(), ..self.clone() })
    }
}

/// Why osdpl can't use the content of a Secret or ConfigMap to which the spec refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The object does not exist, or it lacks the key. osdpl ignores this error if the reference has `optional: true`.
    Missing(String),
    /// osdpl can't read or parse the object. The object may contain required values, so osdpl does not ignore this
    /// error even if the reference has `optional: true`.
    Unusable(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(message) | Self::Unusable(message) => formatter.write_str(message),
        }
    }
}

/// The properties of a chart that osdpl has fetched for helm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartInfo {
    /// The version of the chart.
    pub version: String,
    /// The digest of the chart's files. The inputs of a release include this digest, so osdpl upgrades the release if
    /// the chart's files change.
    pub digest: String,
    /// The fingerprint by which osdpl recognizes the chart in helm's records of releases
    /// ([`crate::release::chart_fingerprint`]); empty if unknown.
    pub fingerprint: String,
    /// The chart's default container images, by their keys below `images.tags` in the chart's values.
    pub images: BTreeMap<String, String>,
    /// The chart's defaults of the switches `manifests.job_*`, by the switch's name: `true` if the chart renders the
    /// Job.
    pub jobs: BTreeMap<String, bool>,
}

/// Why osdpl can't run helm for a release. The reason is independent of the components that the release needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The reason in CamelCase that the status shows, such as `InputsMissing`.
    pub reason: String,
    /// The message for people: what happened, why, and what to do.
    pub message: String,
}

/// The desired state of a cloud: its releases with their values and needs.
#[derive(Debug, Default)]
pub struct Desired {
    /// The desired releases, by catalogue name.
    pub releases: BTreeMap<String, DesiredRelease>,
    /// All findings about the spec, including the findings that osdpl made while it merged the values.
    pub findings: Vec<Finding>,
    /// The settings in the spec on which objects outside of helm releases depend, each as text: the roles of nodes, the
    /// external services, and the settings of Ceph. The target hash also covers these texts.
    pub object_settings: Vec<String>,
}

/// A desired release: what helm gets for it, and what the operator must know about its Kubernetes objects.
#[derive(Debug)]
pub struct DesiredRelease {
    /// The namespace and name of the helm release.
    pub key: ReleaseKey,
    /// The name of the chart that helm installs.
    pub chart: String,
    /// The service that the release belongs to.
    pub service: String,
    /// The group of the release's service. It decides which values of `spec.common` the release gets.
    pub group: Group,
    /// The merged values that helm gets; they contain secrets.
    pub values: Values,
    /// The paths at which the values contain a secret. osdpl never shows the values at these paths.
    pub secret: Vec<Path>,
    /// The paths that any layer marks as secret, even if a later layer replaces the secret. In an earlier revision of
    /// the release, the values at these paths may still be secret.
    pub marked: Vec<Path>,
    /// The digest of everything that osdpl passes to helm: chart, values, name and flags; 63 hexadecimal digits.
    pub inputs: String,
    /// The digest of the inputs without the facts that Jobs of releases have stored; `None` if Jobs have stored no
    /// facts. A person approves this digest, so that new facts do not invalidate the approval.
    pub inputs_without_facts: Option<String>,
    /// The digest of everything in the built-in catalogue on which the release's values and helm's flags depend; 16
    /// hexadecimal digits.
    pub catalog: String,
    /// The digest over the names of all container images that the release's pods and Jobs use; 16 hexadecimal digits.
    pub images: String,
    /// The images whose digests the status reports: maps the name in the pods' spec to the field or value in which a
    /// user can pin the image to a digest. Leaves out images that are already pinned. `None` if the
    /// images of the chart are not known, for example while the operator fetches the chart.
    pub floating_images: Option<BTreeMap<String, String>>,
    /// The digest of the settings on which running OpenStack instances depend; `None` if the catalogue names no such
    /// settings. If an upgrade changes the digest, the operator waits for a person to approve the upgrade.
    pub instances: Option<String>,
    /// The digest of the inputs that the release's hooks can read; 16 hexadecimal digits. If an upgrade does not change
    /// the digest, osdpl can skip the hooks. `None` if `values/hooks.yaml` has no entry for the release. Then every
    /// upgrade runs the hooks.
    pub hooks: Option<String>,
    /// The way in which the chart splits each `DaemonSet` of the release into several, so that values can differ
    /// between nodes; `None` if the chart can't split `DaemonSets`. An upgrade that changes the split recreates the
    /// pods, so the operator waits for a person to approve the upgrade.
    pub split: Option<NodeSplit>,
    /// The baseline of the release: a number that decides which defaults of the catalogue apply to it (see
    /// [`BASELINE`]).
    pub baseline: u32,
    /// The components that must be available before osdpl runs helm, each with the release or service that provides it.
    pub needs: BTreeMap<Component, Provider>,
    /// The catalogue names of the other desired releases for which the pods of this release wait. osdpl can run helm
    /// for this release before these other releases are ready.
    pub waits_for: BTreeSet<String>,
    /// The components whose pods the release's chart creates, each with the kind of workload that runs the pods.
    pub components: BTreeMap<Component, WorkloadKind>,
    /// The components whose `CronJobs` test the cloud, each with a text that tells people where to find the test
    /// results.
    pub tests: BTreeMap<Component, String>,
    /// The number of Jobs that the chart renders with the release's values.
    pub jobs: usize,
    /// The names of the chart's plain Jobs: the Jobs that are not helm hooks. osdpl deletes these Jobs before an
    /// upgrade, because Kubernetes refuses to change the pod template of a Job.
    pub plain_jobs: Vec<String>,
    /// The time limit that helm gets for each hook, in seconds (helm's flag `--timeout`).
    pub timeout: u32,
    /// Whether helm 4 applies the objects with server-side apply (`--server-side`).
    pub server_side: bool,
    /// The chart's version, if the chart is available.
    pub version: Option<String>,
    /// The digest of the chart's content, if known.
    pub chart_digest: Option<String>,
    /// Identifies the chart by its version and content, for the label [`crate::release::CHART_LABEL`]; `None` if the
    /// chart is not available.
    pub chart_identity: Option<ChartIdentity>,
    /// The fingerprint by which osdpl recognizes the chart in helm's records ([`crate::release::chart_fingerprint`]);
    /// `None` if unknown.
    pub fingerprint: Option<String>,
    /// Whether the chart lock or the spec sets the version of the chart.
    pub version_source: VersionSource,
    /// Whether the spec pauses the release.
    pub paused: bool,
    /// Whether osdpl manages the release. If not, osdpl removes its own labels from helm's record of the release, and
    /// leaves the release as it is.
    pub managed: bool,
    /// The reaction of osdpl if someone edited or deleted objects of the release without helm.
    pub drift: DriftPolicy,
    /// The reason why osdpl can't run helm for the release; `None` if osdpl can run helm.
    pub blocked: Option<Blocked>,
}

impl Desired {
    /// Returns the digest of [`object_settings`](Self::object_settings).
    ///
    /// The digest has its full length. Otherwise an editor without the verb `approve` could search for other settings
    /// with the digest of the approved ones.
    pub(crate) fn object_digest(&self) -> String {
        osdpl_values::digest(self.object_settings.iter().map(String::as_str))
    }

    /// Whether the operator is still fetching the chart of a release. Until it has the chart, the inputs of this
    /// release are not final.
    pub fn is_fetching(&self) -> bool {
        let mut blocked = self.releases.values().filter_map(|release| release.blocked.as_ref());
        blocked.any(|blocked| blocked.reason == crate::api::reason::CHART_PENDING)
    }
}

impl DesiredRelease {
    /// Returns the digest of the inputs that a person approves. Facts of Jobs do not change this digest: Jobs store
    /// facts while osdpl carries out an approved change, and the approval must stay valid.
    pub(crate) fn approved_inputs(&self) -> &str {
        self.inputs_without_facts.as_deref().unwrap_or(&self.inputs)
    }

    /// Whether osdpl refuses the name or namespace that the spec requests for the release. If so, osdpl does not run
    /// helm for the release.
    pub fn is_refused(&self) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.reason == crate::api::reason::INVALID)
    }
}

/// The release or external service that provides a component which a release needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// A desired release, given by its catalogue name.
    Release(String),
    /// An external service, given by its name.
    External(String),
}

/// Returns the settings of one release below `spec.services`; `None` if the spec has no settings for the release.
pub(crate) fn release_overrides<'a>(
    spec: &'a crate::api::OpenStackDeploymentSpec,
    service: &str,
    release: &str,
) -> Option<&'a ReleaseOverrides> {
    spec.services.get(service)?.releases.get(release)
}

/// Returns the chart version that the spec sets for a release; `None` if the spec sets no version, or the same version
/// as the chart lock.
///
/// The catalogue describes only the version in the chart lock. For another version, the catalogue may be wrong, for
/// example about the keys of the chart's values.
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
