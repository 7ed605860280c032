//! The catalogue: services and their releases, presets, features and OpenStack releases, parsed from YAML into typed
//! and validated structs.
//!
//! Pure module: it gets the texts of the files ([`Files`]) and reads no disk. To add a service, preset, feature or
//! OpenStack release, add a file. The module [`file`] is the schema of those files.

mod added;
mod check;
mod checks;
mod error;
pub mod file;
mod find;
mod fragment;
mod keys;
mod load;
pub mod schema;
mod secrets;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

pub use added::{Addition, ExtendedCatalog, LABEL, RejectedAddition, extend_catalog};
pub use check::credentials_in;
pub(crate) use check::releases_of_facts;
pub use checks::{ConnectionPool, CrossChecks, EqualSetting, Rule, SeparateServers, SettingPath, SharedClaim};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use error::SEARCHES;
pub use error::{Error, Errors, did_you_mean, nearest_name};
pub use file::{CertificateKeys, CredentialKind, Form, Group, Hosts, Level, Role, WorkloadKind};
pub use fragment::{Body, Fragment, ReleaseIndex, ValuesForEvery};
pub use keys::{ANY_KEY, KeyTree, KeyType, Keys, READ_MARKER, TEXT_PREFIX, entry_name, entry_shape, is_short};
pub(crate) use secrets::MARK as SECRET_MARK;
pub use secrets::SecretField;
pub use text::{Files, LazyTree, Text};

use crate::drift::ToleratedChanges;
use osdpl_values::expr::Expression;
use osdpl_values::{Path, Values};

/// An (application, component) pair as upstream labels its workloads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Component {
    /// The label `application`.
    pub application: String,
    /// The label `component`.
    pub component: String,
}

impl std::fmt::Display for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.application, self.component)
    }
}

impl Component {
    /// Reads `application/component`.
    pub fn parse(text: &str) -> Option<Self> {
        let (application, component) = text.split_once('/')?;
        let is_valid = !application.is_empty() && !component.is_empty() && !component.contains('/');
        is_valid.then(|| Self { application: application.into(), component: component.into() })
    }
}

/// The parsed catalogue.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Services by name.
    pub services: BTreeMap<String, Service>,
    /// Presets by name.
    pub presets: BTreeMap<String, Preset>,
    /// Features by name.
    pub features: BTreeMap<String, Feature>,
    /// OpenStack releases by name, such as `2026.1`.
    pub openstack: BTreeMap<String, OpenStackRelease>,
    /// Fragments for many charts at once: endpoints, shared credentials.
    pub shared: Vec<Fragment>,
    /// The chart lock.
    pub lock: BTreeMap<String, file::Pin>,
    release_index: Arc<ReleaseIndex>,
    /// The service and release that provide each component.
    providers: BTreeMap<Component, (String, String)>,
    /// Field managers and fields whose changes are not drift.
    pub tolerated: ToleratedChanges,
    /// The roles of nodes, by name.
    pub roles: BTreeMap<String, Role>,
    /// The releases whose `OnDelete` `DaemonSets` the operator rolls out in batches, in this order.
    pub rollout: Vec<String>,
    /// The checks across the values of releases.
    pub cross_checks: CrossChecks,
    /// The files that users added (see [`extend_catalog`]), each with its source: `ConfigMap openstack/edge, key
    /// presets.edge.yaml`.
    pub added: BTreeMap<String, String>,
}

/// One service.
#[derive(Debug)]
pub struct Service {
    /// The file it was read from.
    pub file: String,
    /// A one-line description.
    pub description: String,
    /// The group whose common values apply to it.
    pub group: Group,
    /// Its releases by name. Names are unique across all services.
    pub releases: BTreeMap<String, Release>,
    /// The credentials it owns, by name.
    pub credentials: BTreeMap<String, file::Credential>,
    /// The connection data if the service can run outside the cluster.
    pub external: Option<file::External>,
}

/// One helm release of a service.
#[derive(Debug)]
pub struct Release {
    /// The chart's name.
    pub chart: String,
    /// The namespace that it is usually installed in; that of the custom resource if `None`.
    pub namespace: Option<String>,
    /// The condition under which the release is part of the service.
    pub when: Option<Expression>,
    /// The components that must be available before the release may be installed.
    pub needs: Vec<Need>,
    /// The components that its own pods wait for.
    pub waits_for: Vec<Need>,
    /// The components without which the release does not work. They may start in any order.
    pub alongside: Vec<Need>,
    /// The components it provides.
    pub components: BTreeMap<Component, WorkloadKind>,
    /// Its API, which is probed.
    pub endpoint: Option<Endpoint>,
    /// Components of which more than half of the pods must be ready.
    pub quorum: Vec<Component>,
    /// The `CronJobs` that are tests, each with the location of its results.
    pub tests: BTreeMap<Component, String>,
    /// The component whose nodes its API lists as hypervisors.
    pub hosts: Option<file::Hosts>,
    /// The `DaemonSets` that accept values for some nodes, by their name in the chart's overrides without the chart's
    /// own name.
    pub daemonsets: BTreeMap<String, DaemonSet>,
    /// Jobs that are not hooks. They are immutable and deleted before an upgrade.
    pub plain_jobs: Vec<String>,
    /// The `ConfigMap` in which the release's own Job records what it created.
    pub facts: Option<String>,
    /// Secrets that an uninstall leaves behind. Only Purge removes them.
    pub kept_secrets: Vec<String>,
    /// An expression for a digest of the settings that running instances depend on. An upgrade that changes the digest
    /// waits for approval.
    pub instance_digest: Option<Expression>,
    /// Helm's `--timeout`, per hook, in seconds.
    pub timeout: u32,
    /// Helm 4's `--server-side`.
    pub server_side: bool,
    /// Its base values.
    pub base: Body,
    /// Values that fix known errors of the chart or depend on conditions, each with the reason.
    pub fragments: Vec<Fragment>,
}

/// The API of a release.
#[derive(Debug)]
pub struct Endpoint {
    /// The component that serves the API.
    pub component: Component,
    /// Its name below the charts' `endpoints`, which is the service type in Keystone's catalogue.
    pub endpoint: String,
    /// The name of the Service in the chart.
    pub service: String,
    /// The port's name below `endpoints.<endpoint>.port`.
    pub port_name: String,
    /// The TCP port of the internal endpoint in the chart.
    pub port: u16,
    /// The path of the probe.
    pub path: String,
    /// The accepted HTTP status codes.
    pub accept: Vec<u16>,
    /// Whether it is Keystone.
    pub keystone: bool,
}

/// A `DaemonSet` that accepts values for some nodes.
#[derive(Debug)]
pub struct DaemonSet {
    /// The format in which its chart accepts them.
    pub form: Form,
    /// The component of its pods.
    pub component: Component,
    /// The condition under which it is part of the cloud.
    pub when: Option<Expression>,
    /// Paths whose values can't differ between nodes.
    pub shared: Vec<Path>,
}

/// A component that must be available before a release may be installed.
#[derive(Debug)]
pub struct Need {
    /// The component.
    pub component: Component,
    /// The condition under which it is needed.
    pub when: Option<Expression>,
}

/// A preset: a named set of services, features and values.
#[derive(Debug)]
pub struct Preset {
    /// The file it was read from.
    pub file: String,
    /// A one-line description.
    pub description: String,
    /// The services it enables.
    pub services: Vec<String>,
    /// The feature defaults that it changes.
    pub features: Values,
    /// The values it sets.
    pub fragments: Vec<Fragment>,
    /// Presets that can't be combined with it, each with the reason and the remedy.
    pub excludes: BTreeMap<String, String>,
    /// Further checks of the spec.
    pub checks: Vec<Check>,
}

/// A feature that can be enabled and configured.
#[derive(Debug)]
pub struct Feature {
    /// The file it was read from.
    pub file: String,
    /// A one-line description.
    pub description: String,
    /// The JSON schema of `spec.features.<name>`, without defaults.
    pub schema: LazyTree,
    /// The value if neither the spec nor the presets set one.
    pub default: Value,
    /// The values it sets.
    pub fragments: Vec<Fragment>,
    /// The certificates that pods take from Secrets.
    pub certificates: Vec<Certificates>,
    /// Checks of the spec.
    pub checks: Vec<Check>,
}

/// Secrets with certificates of one kind, and the requirements for them.
#[derive(Debug)]
pub struct Certificates {
    /// The condition; unconditional if `None`.
    pub when: Option<Expression>,
    /// The field of the spec to report.
    pub field: String,
    /// The Secrets, as a list with the key `secrets`.
    pub secrets: Body,
    /// The keys of the Secrets.
    pub keys: CertificateKeys,
    /// Whether users have to provide them.
    pub user_provided: bool,
}

/// One OpenStack release.
#[derive(Debug)]
pub struct OpenStackRelease {
    /// The file it was read from.
    pub file: String,
    /// A one-line description.
    pub description: String,
    /// The content of the variable `openstack` in expressions.
    pub variables: Values,
    /// The releases from which an upgrade is possible.
    pub upgrades_from: Vec<String>,
    /// The values it sets.
    pub fragments: Vec<Fragment>,
}

/// A rule over the whole spec: reports `message` if `when` holds.
#[derive(Debug)]
pub struct Check {
    /// The condition for the message.
    pub when: Expression,
    /// Whether the rule is an error or a warning.
    pub level: Level,
    /// The field of the spec to report.
    pub field: String,
    /// The problem and the remedy.
    pub message: String,
}

impl Catalog {
    /// Returns the paths in a release's values whose value is only a setting of Ceph.
    pub fn ceph_paths(&self, release: &str) -> BTreeSet<Path> {
        let expressions = self.bodies(release).flat_map(Body::whole_scalar_expressions);
        expressions.filter(|(_, expression)| crate::ceph::uses_ceph(expression)).map(|(path, _)| path).collect()
    }

    /// Returns the Secret keys that these features reference, in the order of their fields.
    pub(crate) fn secret_references(&self, features: &Values) -> Vec<SecretField> {
        let known = features.iter().filter_map(|(name, value)| Some((name, &self.features.get(name)?.schema, value)));
        let marked = known.filter(|(_, schema, _)| schema.contains_text(SECRET_MARK));
        marked.flat_map(|(name, schema, value)| secrets::secrets(name, schema, value)).collect()
    }

    /// Returns the known keys of the charts.
    pub fn keys(&self) -> &Keys {
        &self.release_index.keys
    }
}

#[cfg(test)]
mod tests;
