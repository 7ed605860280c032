//! The snapshot: everything that a decision is made from, read before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::kept::Kept;
use super::requests::{Answers, ChartRequest, Reference};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Catalog, file};
use osdpl_core::cause::AffectedObject;
use osdpl_core::desired::{Blocked, ChartInfo, Finding, Unavailable};
use osdpl_core::nodes::Inventory;
use osdpl_core::observed::{Claim, Class, DaemonSetGroup, Observed, ReleaseKey, RolloutPods};
use osdpl_core::openstack::HostObservation;

/// Everything that a decision is made from.
pub struct Snapshot {
    /// When it was read.
    pub now: Timestamp,
    /// The resource.
    pub deployment: OpenStackDeployment,
    /// The catalogue, with what `ConfigMap`s add to it.
    pub catalog: Arc<Catalog>,
    /// What is wrong with those `ConfigMap`s.
    pub catalog_findings: Vec<Finding>,
    /// Helm.
    pub helm: Helm,
    /// Charts.
    pub charts: Charts,
    /// What is seen of the cluster; the releases' names in the catalogue and the causes are not filled in yet.
    pub observed: Observed,
    /// What is not ready, each with the chain to its root.
    pub victims: Vec<AffectedObject>,
    /// The nodes; none where they may not be listed.
    pub nodes: Option<Arc<Inventory>>,
    /// The volume claims of releases.
    pub claims: Vec<Claim>,
    /// The `StorageClasses`; none where they may not be listed.
    pub classes: Option<Vec<Class>>,
    /// The pods of daemons that are rolled.
    pub rolling: Arc<BTreeMap<DaemonSetGroup, RolloutPods>>,
    /// What Nova said about its hosts.
    pub hosts: Option<Arc<HostObservation>>,
    /// What keeps the tasks from seeing the cluster.
    pub problems: Vec<String>,
    /// Objects that are watched.
    pub objects: Objects,
    /// Answers to one-off reads.
    pub answers: Answers,
    /// Releases that were uninstalled and whose Jobs are still to be deleted.
    pub uninstalled: BTreeSet<ReleaseKey>,
    /// What the last decision left for this one.
    pub kept: Kept,
    /// What is assumed beside the operator, which alone knows it; none where the operator itself decides.
    pub assumed: Option<Assumed>,
}

/// What is assumed where the decision is made beside the operator.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    /// Charts, as the operator's status reports them where none are read.
    pub charts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// Whether charts are read, so that the images that they name are known.
    pub has_charts: bool,
    /// The releases of which something is not known here, so that their digests are not the operator's.
    pub guessed: BTreeSet<String>,
}

/// What is known of helm.
#[derive(Clone, Debug, Default)]
pub struct Helm {
    /// The major version.
    pub major: u64,
    /// How many more processes may be started.
    pub free_slots: usize,
    /// How many processes render now.
    pub rendering: usize,
    /// How many may render side by side.
    pub cores: usize,
    /// Whether no process runs, not even one whose record was not seen yet.
    pub idle: bool,
}

/// What is known of charts.
#[derive(Clone, Debug, Default)]
pub struct Charts {
    /// Whether they come out of a folder: then an added lock does not count.
    pub folder: bool,
    /// The operator's own lock.
    pub locked: BTreeSet<String>,
    /// By release: what was requested, and what came of it.
    pub known: BTreeMap<String, (ChartRequest, ChartState)>,
}

/// What came of a chart.
#[derive(Clone, Debug)]
pub enum ChartState {
    /// It is being fetched.
    Pending,
    /// It is at hand.
    Ready(ChartInfo),
    /// It can't be had; it is tried again then.
    Failed(Blocked, Timestamp),
}

/// What an object holds, by key.
pub type Data = BTreeMap<String, Vec<u8>>;

/// What is known of a watched object.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ObjectState {
    /// Nothing yet.
    #[default]
    Unread,
    /// It does not exist.
    Missing,
    /// What it holds.
    Read(Arc<Data>),
    /// Why it can't be read.
    Failed(String),
}

/// Objects that are watched.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Those that the spec names.
    pub named: BTreeMap<Reference, ObjectState>,
    /// Those of others in place of ours.
    pub occupants: BTreeMap<Reference, ObjectState>,
    /// Secrets with our label, by namespace and name.
    pub secrets: BTreeMap<ReleaseKey, Arc<Secret>>,
    /// `ConfigMap`s with our label, by namespace and name.
    pub maps: BTreeMap<ReleaseKey, Arc<ConfigMap>>,
    /// Whether the Secrets with our label were listed, or refused.
    pub own_listed: bool,
    /// Rook's objects by kind: those that were listed, or why they can't be.
    pub rook: BTreeMap<&'static str, Result<BTreeMap<String, Value>, String>>,
}

impl Objects {
    /// One key of an object's data.
    ///
    /// # Errors
    /// What is missing, and what to do; never what the object holds.
    pub fn get(&self, reference: &Reference, key: &str) -> Result<Vec<u8>, Unavailable> {
        let data = self.data(reference, || format!("create it with the key {key:?}"))?;
        data.get(key).cloned().ok_or_else(|| {
            let keys = data.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            Unavailable::Missing(format!(
                "{reference} has no key {key:?} (it has: {keys}); add the key or name another one"
            ))
        })
    }

    /// All of an object's data.
    ///
    /// # Errors
    /// What is missing, and what to do; never what the object holds.
    pub fn all(&self, reference: &Reference) -> Result<Data, Unavailable> {
        self.data(reference, || "create it, or correct the name".into()).map(|data| (*data).clone())
    }

    fn data(&self, reference: &Reference, remedy: impl FnOnce() -> String) -> Result<Arc<Data>, Unavailable> {
        match self.named.get(reference) {
            None | Some(ObjectState::Unread) => Err(Unavailable::Unusable(format!("{reference} is being read"))),
            Some(ObjectState::Missing) => {
                Err(Unavailable::Missing(format!("{reference} does not exist; {}", remedy())))
            }
            Some(ObjectState::Failed(error)) => {
                Err(Unavailable::Unusable(format!("{reference} can't be read: {error}")))
            }
            Some(ObjectState::Read(data)) => Ok(Arc::clone(data)),
        }
    }

    /// Rook's objects of a kind, by name.
    ///
    /// # Errors
    /// Why they can't be read.
    pub fn rooks(&self, kind: &str) -> Result<&BTreeMap<String, Value>, String> {
        match self.rook.get(kind) {
            None => Err(format!("{kind}s are being read")),
            Some(Ok(objects)) => Ok(objects),
            Some(Err(problem)) => Err(problem.clone()),
        }
    }
}

impl Charts {
    /// The pin that was added to the catalogue for a chart, where it counts.
    pub(super) fn pin<'a>(&self, catalog: &'a Catalog, chart: &str) -> Option<&'a file::Pin> {
        catalog.lock.get(chart).filter(|_| !self.folder && !self.locked.contains(chart))
    }
}
