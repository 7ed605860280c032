//! Parses the catalogue from YAML into typed and validated structs: services and their releases, presets, features and
//! OpenStack releases.
//!
//! Pure module (no I/O): callers pass the texts of the files ([`Files`]). To add a service, preset, feature or
//! OpenStack release, add a YAML file to the catalogue. The types in [`file`] are the schema of these files.

mod added;
mod check;
mod checks;
mod error;
pub mod file;
mod find;
mod fragment;
mod keys;
mod load;
mod named;
mod options;
pub mod schema;
mod secrets;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

pub use added::{Addition, ExtendedCatalog, RejectedAddition, extend_catalog, has_catalog_keys};
pub use check::credentials_in;
pub(crate) use check::releases_of_facts;
pub use checks::{ConnectionPool, CrossChecks, EqualSetting, Rule, SeparateServers, SettingPath, SharedClaim};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use error::SEARCHES;
pub use error::{Error, Errors, did_you_mean, nearest_name};
pub use file::{CertificateKeys, CredentialKind, Form, Group, Hosts, Role, WorkloadKind};
pub use fragment::{Body, Fragment, ReleaseIndex, ValuesForEvery};
pub use keys::{ANY_KEY, KeyTree, KeyType, Keys, READ_MARKER, TEXT_PREFIX, entry_name, entry_shape, is_short};
pub use named::{ConfigMapData, NamedAdditions};
pub use options::{Absence, OptionFile, OptionFiles, OptionType, Options, ServiceOption};
pub(crate) use secrets::MARK as SECRET_MARK;
pub use secrets::SecretField;
pub use text::{Files, LazyTree, Text};

use crate::drift::ToleratedChanges;
pub use crate::finding::Level;
use osdpl_values::CollectSorted;
use osdpl_values::expr::Expression;
use osdpl_values::{Path, Values};

/// A component: the pair of labels that identifies all pods and workloads of one program in upstream's charts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Component {
    /// The label `application`, such as `nova`.
    pub application: String,
    /// The label `component`, such as `compute`.
    pub component: String,
}

impl std::fmt::Display for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.application, self.component)
    }
}

impl Component {
    /// Parses a component from the form `application/component`; `None` if `text` has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let (application, component) = text.split_once('/')?;
        let is_valid = !application.is_empty() && !component.is_empty() && !component.contains('/');
        is_valid.then(|| Self { application: application.into(), component: component.into() })
    }
}

/// The parsed and validated catalogue: everything that osdpl knows about services, presets and features.
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
    /// The fragments of `values/shared/`. Each fragment sets values in many releases at once, such as endpoints and
    /// credentials.
    pub shared: Vec<Fragment>,
    /// The chart lock (`values/lock.yaml`): the pinned version of each chart, by the chart's name.
    pub lock: BTreeMap<String, file::Pin>,
    release_index: Arc<ReleaseIndex>,
    /// The options that services read from their configuration files (`values/options/`).
    pub options: OptionFiles,
    /// Maps each component to the names of the service and the release whose chart creates the component's workload.
    providers: BTreeMap<Component, (String, String)>,
    /// The changes that osdpl does not report as drift: all changes by some field managers, and all changes of some
    /// fields (`values/drift.yaml`).
    pub tolerated: ToleratedChanges,
    /// The paths of the values that no hook of a release reads, by the name of the release (`values/hooks.yaml`). If a
    /// release has no entry, osdpl assumes that its hooks read all values.
    pub unread_by_hooks: BTreeMap<String, Vec<Path>>,
    /// The built-in roles of nodes, by name (`values/nodes.yaml`).
    pub roles: BTreeMap<String, Role>,
    /// The names of the releases whose `DaemonSets` the operator rolls out in batches, in the order of the rollouts
    /// (`values/nodes.yaml`).
    pub rollout: Vec<String>,
    /// The checks of the releases' values (`values/couplings.yaml` and `values/rules.yaml`).
    pub cross_checks: CrossChecks,
    /// The catalogue files that users added in `ConfigMap`s (see [`extend_catalog`]): maps the path of each file in the
    /// catalogue to its origin in messages, such as `ConfigMap openstack/edge, key presets.edge.yaml`.
    pub added: BTreeMap<String, String>,
    /// The digest of the data of each `ConfigMap` that adds files to the catalogue, by the `ConfigMap`'s name.
    pub additions: BTreeMap<String, String>,
}

/// An OpenStack or infrastructure service, such as nova or rabbitmq, and the helm releases that it consists of.
#[derive(Debug)]
pub struct Service {
    /// The path of the file that declares the service, such as `values/services/nova.yaml`.
    pub file: String,
    /// A one-line description of the service.
    pub description: String,
    /// The group that the service belongs to. `spec.common` and shared fragments can set values for all releases of a
    /// group.
    pub group: Group,
    /// The releases of the service, by name. A name is unique across all services. The releases are boxed to save
    /// memory: most services have only one release, but each `BTreeMap` allocates space for eleven entries.
    pub releases: BTreeMap<String, Box<Release>>,
    /// The passwords and keys that the service owns, by name. osdpl generates each credential that the user does not
    /// provide.
    pub credentials: BTreeMap<String, file::Credential>,
    /// The Kubernetes Service through which pods reach the service if it runs outside of the cluster; `None` if the
    /// service can't run outside of the cluster.
    pub external: Option<file::External>,
}

/// A helm release of a service: its chart, its values, and what the operator must know about its Kubernetes objects.
#[derive(Debug)]
pub struct Release {
    /// The name of the chart that helm installs.
    pub chart: String,
    /// The default namespace of the release; `None` for the namespace of the OpenStackDeployment. The spec can set
    /// another namespace.
    pub namespace: Option<String>,
    /// The condition under which the release is part of the service; `None` if the release always is part of it.
    pub when: Option<Expression>,
    /// The components that must be available before helm installs the release. The services that provide the components
    /// become part of the cloud.
    pub needs: Vec<Need>,
    /// The components that the init containers of the release's pods wait for. The operator does not wait for these
    /// components before it starts helm. The services that provide the components become part of the cloud.
    pub waits_for: Vec<Need>,
    /// The components without which the programs in the release's pods do not work. The operator does not wait for
    /// these components before it installs the release, because the components' pods can also depend on the release's
    /// pods. The services that provide the components become part of the cloud, unless the spec disables these
    /// services.
    pub alongside: Vec<Need>,
    /// The components whose pods the release's chart creates, each with the kind of workload that runs the pods.
    pub components: BTreeMap<Component, WorkloadKind>,
    /// The HTTP API of the release, which the operator probes; `None` if the release has none.
    pub endpoint: Option<Endpoint>,
    /// The components that form a quorum: they work only while more than half of their pods are ready. Before the
    /// operator allows the drain of a node, it checks that enough pods of these components are ready on other nodes.
    pub quorum: Vec<Component>,
    /// The components whose `CronJobs` test the cloud, each with a text that tells people where to find the test
    /// results.
    pub tests: BTreeMap<Component, String>,
    /// The component whose pods run on the hypervisors, and the `CronJob` that registers the hypervisors in Nova;
    /// `None` for releases other than nova.
    pub hosts: Option<file::Hosts>,
    /// The `DaemonSets` whose values can differ between nodes.
    ///
    /// The map's key is the `DaemonSet`'s name in the chart's overrides, without the prefix `<chart>_`: `ovs-agent` for
    /// `neutron_ovs-agent`.
    pub daemonsets: BTreeMap<String, DaemonSet>,
    /// The names of the release's plain Jobs: the Jobs in the chart's manifest that are not helm hooks. The operator
    /// deletes these Jobs before an upgrade, because Kubernetes refuses to change the pod template of a Job.
    pub plain_jobs: Vec<String>,
    /// The name of the `ConfigMap` in which a Job of the release records facts, such as the UUIDs of OpenStack objects
    /// that the Job created. The `ConfigMap` is in the release's namespace. Expressions read the facts as
    /// `facts.<release>.<key>`.
    pub facts: Option<String>,
    /// The names of Secrets that `helm uninstall` does not delete, because the chart creates them in hooks with
    /// `resource-policy: keep`. The operator deletes these Secrets only with the deletion policy `Purge`.
    pub kept_secrets: Vec<String>,
    /// The names of `ConfigMap`s that programs in the release's pods create, and that `helm uninstall` does not delete.
    /// The operator deletes these `ConfigMap`s only with the deletion policy `Purge`. `${release.name}` in a name
    /// stands for the name of the helm release.
    pub kept_config_maps: Vec<String>,
    /// The values that set the size of volume claims, each with the owner of the claims. The sizes of existing claims
    /// override the sizes in the catalogue, because Kubernetes can neither shrink a claim nor change the claim template
    /// of a `StatefulSet`.
    pub claim_sizes: BTreeMap<Path, ClaimOwner>,
    /// The keys below `images.tags` of the images that long-running containers use and whose default tag moves, such as
    /// `latest`. The status reports their digests.
    pub floating_images: Vec<String>,
    /// An expression that computes a digest of the settings on which running OpenStack instances depend; `None` if the
    /// release has no such settings. If an upgrade changes the digest, the operator waits for a person to approve the
    /// upgrade.
    pub instance_digest: Option<Expression>,
    /// The value of helm's flag `--timeout`, in seconds. helm applies it to each hook separately.
    pub timeout: u32,
    /// Whether helm 4 writes the release's objects with server-side apply (`--server-side`).
    pub server_side: bool,
    /// The values that the release gets in every cloud. They override the shared fragments. All other fragments of the
    /// catalogue override these values.
    pub base: Body,
    /// Further values of the release, such as workarounds for errors in the chart. Each fragment has a text that says
    /// why the catalogue sets the values, and may have a condition.
    pub fragments: Vec<Fragment>,
}

/// The object that determines the size of volume claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOwner {
    /// The `StatefulSet` with this component. Its first template of volume claims sets the size of the claims.
    StatefulSet(Component),
    /// The volume claim with this name. The chart creates the claim.
    Claim(String),
}

/// The HTTP API of a release, which the operator probes.
#[derive(Debug)]
pub struct Endpoint {
    /// The component whose pods serve the API.
    pub component: Component,
    /// The key of the API below `endpoints` in the values of charts, such as `key_manager`.
    pub endpoint: String,
    /// The name of the Kubernetes Service that the chart creates for the API.
    pub service: String,
    /// The key of the API's port below `endpoints.<endpoint>.port` in the values of charts, such as `api`.
    pub port_name: String,
    /// The default of the internal endpoint's TCP port in the chart. osdpl uses it if the release's values set no port.
    pub port: u16,
    /// The path of the URL that the probe requests. The API must respond there without a token.
    pub path: String,
    /// The HTTP status codes with which a probe succeeds.
    pub accept: Vec<u16>,
    /// Whether this is Keystone's own API. If so, a probe also checks that the response describes version 3 of the API.
    /// The operator also requests a token as the administrator: Keystone sends its service catalogue with the token.
    pub keystone: bool,
}

impl Endpoint {
    /// Returns the type of the API in Keystone's service catalogue, such as `key-manager`. helm-toolkit derives the key
    /// below `endpoints` from the type: it replaces `-` with `_`.
    ///
    /// Source: `helm-toolkit/templates/endpoints/_keystone_endpoint_name_lookup.tpl`
    pub fn service_type(&self) -> String {
        self.endpoint.replace('_', "-")
    }
}

/// A `DaemonSet` whose chart accepts different values for some nodes.
#[derive(Debug)]
pub struct DaemonSet {
    /// The format in which the chart accepts the values for single nodes or groups of nodes.
    pub form: Form,
    /// The component of the `DaemonSet`'s pods.
    pub component: Component,
    /// The condition under which the chart creates the `DaemonSet`; `None` if the chart always creates it.
    pub when: Option<Expression>,
    /// The paths whose values must be equal on all nodes. The chart writes these values to objects that exist only once
    /// for all nodes, such as a `ConfigMap` with scripts.
    pub shared: Vec<Path>,
}

/// A reference to a component that a release needs, waits for, or works with.
#[derive(Debug)]
pub struct Need {
    /// The component that the release needs, waits for, or works with.
    pub component: Component,
    /// The condition under which the release requires the component; `None` if it always requires it.
    pub when: Option<Expression>,
}

/// A preset: the services, settings of features, and values that a spec gets if it names the preset.
#[derive(Debug)]
pub struct Preset {
    /// The path of the file that declares the preset, such as `presets/ha.yaml`.
    pub file: String,
    /// A one-line description of the preset.
    pub description: String,
    /// The names of the services that the preset enables.
    pub services: Vec<String>,
    /// The settings of features that the preset provides, by the feature's name. The spec can override these settings.
    pub features: Values,
    /// The values that the preset sets in releases.
    pub fragments: Vec<Fragment>,
    /// The presets that a spec can't combine with this preset, each with a message that says why and what to do.
    pub excludes: BTreeMap<String, String>,
    /// The checks that osdpl runs on a spec that uses the preset.
    pub checks: Vec<Check>,
}

/// A feature: the schema of its settings in the spec, and the values that these settings set in releases.
#[derive(Debug)]
pub struct Feature {
    /// The path of the file that declares the feature, such as `values/features/storage.yaml`.
    pub file: String,
    /// A one-line description of the feature.
    pub description: String,
    /// The JSON schema of `spec.features.<name>`. A `default` in the schema has no effect.
    pub schema: LazyTree,
    /// The settings of the feature if neither the spec nor a preset sets any.
    pub default: Value,
    /// The values that the feature sets in releases.
    pub fragments: Vec<Fragment>,
    /// The Secrets with certificates that the feature requires.
    pub certificates: Vec<Certificates>,
    /// The checks that the feature contributes. osdpl runs them on every spec, even if the spec has no settings of the
    /// feature.
    pub checks: Vec<Check>,
}

/// A list of Secrets with certificates that a feature requires, and how osdpl checks the Secrets.
#[derive(Debug)]
pub struct Certificates {
    /// The condition under which the feature requires the Secrets; `None` if it always requires them.
    pub when: Option<Expression>,
    /// The field of the spec to which findings about these certificates refer.
    pub field: String,
    /// The list of Secrets with the certificates. The list can contain expressions, so it is stored in a [`Body`],
    /// which evaluates them. A `Body` contains a map, so the list is under its only key, `secrets`.
    pub secrets: Body,
    /// The names of the entries in each Secret's data that contain the certificate, the private key and the CA.
    pub keys: CertificateKeys,
    /// Whether the user must create the Secrets. If so, osdpl reports a Secret that is missing.
    pub user_provided: bool,
}

/// An OpenStack release, such as 2026.1, with its values and upgrade paths.
#[derive(Debug)]
pub struct OpenStackRelease {
    /// The path of the file that declares the OpenStack release, such as `values/openstack/2026.1.yaml`.
    pub file: String,
    /// A one-line description of the OpenStack release.
    pub description: String,
    /// The content of the variable `openstack` in expressions, such as the tag of the container images.
    pub variables: Values,
    /// The names of the OpenStack releases from which a cloud can be upgraded directly to this OpenStack release.
    pub upgrades_from: Vec<String>,
    /// The values that the OpenStack release sets in helm releases.
    pub fragments: Vec<Fragment>,
}

/// A check that a preset or feature contributes: osdpl reports `message` if the condition `when` is true for the spec.
#[derive(Debug)]
pub struct Check {
    /// The condition under which osdpl reports the message.
    pub when: Expression,
    /// The severity of the finding. If it is `Error`, osdpl refuses the `OpenStackDeployment`.
    pub level: Level,
    /// The field of the spec to which the finding refers.
    pub field: String,
    /// The text of the finding: the problem and the remedy. It can contain expressions (`${…}`).
    pub message: String,
}

impl Catalog {
    /// Returns the paths at which the catalogue inserts Ceph's settings, such as the name of a pool, into the values of
    /// a release. At each of these paths, the whole value is one expression that reads the variable `ceph`.
    pub fn ceph_paths(&self, release: &str) -> BTreeSet<Path> {
        let expressions = self.bodies(release).flat_map(Body::whole_scalar_expressions);
        expressions.filter(|(_, expression)| crate::ceph::uses_ceph(expression)).map(|(path, _)| path).collect_set()
    }

    /// Returns each field of `features` that references a key of a Secret, in the order of `features`. `features`
    /// contains the settings of all features.
    pub(crate) fn secret_references(&self, features: &Values) -> Vec<SecretField> {
        let known = features.iter().filter_map(|(name, value)| Some((name, &self.features.get(name)?.schema, value)));
        let marked = known.filter(|(_, schema, _)| schema.contains_text(SECRET_MARK));
        marked.flat_map(|(name, schema, value)| secrets::secrets(name, schema, value)).collect()
    }

    /// Returns the key trees of all charts: the keys that `values.yaml` contains or that the templates read.
    pub fn keys(&self) -> &Keys {
        &self.release_index.keys
    }

    /// Returns where a catalogue file is, as text for users: for a file that a user added, the ConfigMap and the key
    /// with the file; for any other file, its path.
    pub(crate) fn file_location<'a>(&'a self, file: &'a str) -> &'a str {
        self.added.get(file).map_or(file, String::as_str)
    }

    /// Returns where the file of a service is (see [`Self::file_location`]); an empty string for an unknown service.
    pub(crate) fn service_location(&self, service: &str) -> &str {
        self.services.get(service).map_or("", |service| self.file_location(&service.file))
    }
}

#[cfg(test)]
mod tests;
