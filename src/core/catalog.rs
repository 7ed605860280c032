//! The catalogue: services and their releases, presets, features and OpenStack releases, parsed from YAML into types that cannot be wrong.
//!
//! Pure room: it is given the texts of the files ([`Files`]) and knows nothing of disks. Adding a service, preset, feature or OpenStack
//! release is adding a file; `src/catalog/file.rs` is the schema of those files.

mod added;
mod check;
mod component;
mod error;
pub mod file;
mod find;
mod fragment;
mod judgement;
mod keys;
mod load;
pub mod schema;
mod secrets;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

pub use added::{Addition, Extended, LABEL, Refused, extend};
pub use check::{credentials_in, facts_in};
pub use component::Component;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use error::LOOKED;
pub use error::{Error, Errors, did_you_mean, nearest};
pub use file::{CertificateKeys, CredentialKind, Form, Group, Hosts, Level, Role, WorkloadKind};
pub use fragment::{Body, Every, Fragment, Reach};
pub use judgement::{Apart, Coupling, Judgements, Place, Pool, Rule, Shared};
pub use keys::{ANY_KEY, KeyTree, KeyType, Keys, READ, TEXT, entry_name, entry_shape, is_short};
pub use secrets::{MARK as SECRET_MARK, SecretField};
pub use text::{Files, Late, Text};

use crate::drift::Tolerated;
use osdpl_values::expr::Expression;
use osdpl_values::{Path, Values};

/// Everything the operator knows about OpenStack-Helm.
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
    reach: Arc<Reach>,
    /// Services and releases by what they provide.
    providers: BTreeMap<Component, (String, String)>,
    /// What others may write into releases' objects.
    pub tolerated: Tolerated,
    /// The roles that nodes can play, by name.
    pub roles: BTreeMap<String, Role>,
    /// The releases whose `DaemonSets` the operator rolls in batches, in this order, where their strategy is `OnDelete`.
    pub rollout: Vec<String>,
    /// What is judged between the values of releases.
    pub judgements: Judgements,
    /// The files in it that someone added ([`extend`]), each with where it stands: `ConfigMap openstack/edge, key presets.edge.yaml`.
    pub added: BTreeMap<String, String>,
}

/// One service.
#[derive(Debug)]
pub struct Service {
    /// The file it was read from.
    pub file: String,
    /// One line for people.
    pub description: String,
    /// Which common values it takes.
    pub group: Group,
    /// Its releases by name, unique over all services.
    pub releases: BTreeMap<String, Release>,
    /// The credentials it owns, by name.
    pub credentials: BTreeMap<String, file::Credential>,
    /// How it can live outside of the cluster, where it can.
    pub external: Option<file::External>,
}

/// One helm release of a service.
#[derive(Debug)]
pub struct Release {
    /// The chart's name.
    pub chart: String,
    /// The namespace that it is usually in; the resource's where `None`.
    pub namespace: Option<String>,
    /// Whether the release is part of the service, given the features.
    pub when: Option<Expression>,
    /// The components that must be available before it may be submitted.
    pub needs: Vec<Need>,
    /// The components that its pods wait for by themselves.
    pub awaits: Vec<Need>,
    /// The components without which it is of no use, in no order.
    pub alongside: Vec<Need>,
    /// What it provides.
    pub components: BTreeMap<Component, WorkloadKind>,
    /// Its API, which is asked whether it answers.
    pub endpoint: Option<Endpoint>,
    /// Components of which more than half of the pods must be ready.
    pub quorum: Vec<Component>,
    /// The `CronJobs` that are tests, each with where its results are kept.
    pub tests: BTreeMap<Component, String>,
    /// The nodes that its API knows as hosts of instances.
    pub hosts: Option<file::Hosts>,
    /// The `DaemonSets` that take values for some nodes alone, by the name that the chart's overrides have for them, without the chart's own.
    pub daemonsets: BTreeMap<String, DaemonSet>,
    /// Jobs that are no hooks: immutable, deleted before an upgrade.
    pub plain_jobs: Vec<String>,
    /// The `ConfigMap` in which its own Job writes down what it has made.
    pub facts: Option<String>,
    /// Secrets that an uninstall leaves behind: removed by Purge alone.
    pub kept_secrets: Vec<String>,
    /// The digest of what running guests hold on to: when it changes, the upgrade waits for approval.
    pub guests: Option<Expression>,
    /// Helm's `--timeout`, per hook, in seconds.
    pub timeout: u32,
    /// Helm 4's `--server-side`.
    pub server_side: bool,
    /// Its base values.
    pub base: Body,
    /// What is known to be wrong with the chart, as values with the reason beside them.
    pub fragments: Vec<Fragment>,
}

/// The API of a release.
#[derive(Debug)]
pub struct Endpoint {
    /// The component that answers.
    pub component: Component,
    /// Its name below the charts' `endpoints`, which is its type in Keystone's catalogue.
    pub endpoint: String,
    /// The Service, as the chart calls it.
    pub service: String,
    /// The port's name below `endpoints.<endpoint>.port`.
    pub port_name: String,
    /// The chart's TCP port of the internal endpoint.
    pub port: u16,
    /// What is asked for.
    pub path: String,
    /// The HTTP codes that are accepted.
    pub accept: Vec<u16>,
    /// Whether it is Keystone.
    pub keystone: bool,
}

/// A `DaemonSet` that takes values for some nodes alone.
#[derive(Debug)]
pub struct DaemonSet {
    /// How its chart takes them.
    pub form: Form,
    /// Its pods' component.
    pub component: Component,
    /// Whether it is part of the cloud, given the features.
    pub when: Option<Expression>,
    /// Paths that can't differ by node.
    pub shared: Vec<Path>,
}

/// A component that must be available before a release may be submitted.
#[derive(Debug)]
pub struct Need {
    /// The component.
    pub component: Component,
    /// Whether it is needed, given the features.
    pub when: Option<Expression>,
}

/// A kind of cloud.
#[derive(Debug)]
pub struct Preset {
    /// The file it was read from.
    pub file: String,
    /// One line for people.
    pub description: String,
    /// The services it has.
    pub services: Vec<String>,
    /// The defaults of features that it changes.
    pub features: Values,
    /// The values it sets.
    pub fragments: Vec<Fragment>,
    /// Presets that can't be beside it: why, and what to do.
    pub excludes: BTreeMap<String, String>,
    /// What else can't be with it.
    pub checks: Vec<Check>,
}

/// Something that can be turned on and configured.
#[derive(Debug)]
pub struct Feature {
    /// The file it was read from.
    pub file: String,
    /// One line for people.
    pub description: String,
    /// The JSON schema of `spec.features.<name>`, without defaults.
    pub schema: Late,
    /// What holds where the spec and the presets say nothing.
    pub default: Value,
    /// The values it sets.
    pub fragments: Vec<Fragment>,
    /// The certificates that it has taken out of Secrets.
    pub certificates: Vec<Certificates>,
    /// What can't be with it.
    pub checks: Vec<Check>,
}

/// Secrets with certificates of one kind, and what they are to be good for.
#[derive(Debug)]
pub struct Certificates {
    /// The condition; always where `None`.
    pub when: Option<Expression>,
    /// The field of the spec to look at.
    pub field: String,
    /// The Secrets, as the list `secrets`.
    pub secrets: Body,
    /// Under which keys they hold what.
    pub keys: CertificateKeys,
    /// Whether somebody has to bring them.
    pub brought: bool,
}

/// One release of OpenStack.
#[derive(Debug)]
pub struct OpenStackRelease {
    /// The file it was read from.
    pub file: String,
    /// One line for people.
    pub description: String,
    /// What expressions see as `openstack`.
    pub variables: Values,
    /// The releases from which one may come.
    pub upgrades_from: Vec<String>,
    /// The values it sets.
    pub fragments: Vec<Fragment>,
}

/// A rule over the whole spec: where `when` holds, `message` is said.
#[derive(Debug)]
pub struct Check {
    /// When it speaks.
    pub when: Expression,
    /// Whether it refuses or warns.
    pub level: Level,
    /// The field of the spec to look at.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Catalog {
    /// Where a release's values are, whole, what Ceph says.
    pub fn of_ceph(&self, release: &str) -> BTreeSet<Path> {
        let whole = self.bodies(release).flat_map(Body::whole);
        whole.filter(|(_, expression)| crate::ceph::is_of_ceph(expression)).map(|(path, _)| path).collect()
    }

    /// The keys of Secrets that these features name, in the order of their fields.
    pub fn secrets(&self, features: &Values) -> Vec<SecretField> {
        let known = features.iter().filter_map(|(name, value)| Some((name, &self.features.get(name)?.schema, value)));
        let marked = known.filter(|(_, schema, _)| schema.mentions(SECRET_MARK));
        marked.flat_map(|(name, schema, value)| secrets::secrets(name, schema, value)).collect()
    }

    /// What keys each chart knows.
    pub fn keys(&self) -> &Keys {
        &self.reach.keys
    }

    /// Whether `chart` is known to have a key at `path`; `true` for charts whose keys are not known.
    pub fn knows(&self, chart: &str, path: &Path) -> bool {
        self.keys().get(chart).is_none_or(|tree| tree.knows(path))
    }
}

#[cfg(test)]
mod tests;
