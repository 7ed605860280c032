//! The snapshot: everything that a decision is made from. The operator reads it before the decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;

use super::kept::Kept;
use super::objects::Objects;
use super::requests::{ChartRequest, Responses};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Catalog, file};
use osdpl_core::cause::AffectedObject;
use osdpl_core::desired::{Blocked, ChartInfo, Finding};
use osdpl_core::nodes::Inventory;
use osdpl_core::observed::{Claim, Class, DaemonSetGroup, Observed, ReleaseKey, RolloutPods};
use osdpl_core::openstack::HostObservation;

/// Everything that a decision is made from.
pub struct Snapshot {
    /// The time of the snapshot.
    pub now: Timestamp,
    /// The resource.
    pub deployment: OpenStackDeployment,
    /// The catalogue, including additions from `ConfigMap`s.
    pub catalog: Arc<Catalog>,
    /// Problems of those `ConfigMap`s.
    pub catalog_findings: Vec<Finding>,
    /// The state of the helm runner.
    pub helm: Helm,
    /// The charts.
    pub charts: Charts,
    /// The observed state. The decision adds the catalogue's names of the releases, and the root causes.
    pub observed: Observed,
    /// The objects that are not ready, each with the chain to its root cause.
    pub affected: Vec<AffectedObject>,
    /// The nodes; `None` if osdpl may not list them.
    pub nodes: Option<Arc<Inventory>>,
    /// The volume claims of releases.
    pub claims: Vec<Claim>,
    /// The `StorageClasses`; `None` if osdpl may not list them.
    pub classes: Option<Vec<Class>>,
    /// The pods of `DaemonSets` that are being rolled out.
    pub rolling: Arc<BTreeMap<DaemonSetGroup, RolloutPods>>,
    /// The last response of Nova about its hosts.
    pub hosts: Option<Arc<HostObservation>>,
    /// Problems of the background tasks that observe the cluster.
    pub problems: Vec<String>,
    /// The watched objects.
    pub objects: Objects,
    /// The responses to one-off reads.
    pub responses: Responses,
    /// Uninstalled releases whose Jobs are still to be deleted.
    pub uninstalled: BTreeSet<ReleaseKey>,
    /// The state that the last decision kept for this one.
    pub kept: Kept,
    /// The assumptions of a preview; `None` if the operator itself decides.
    pub assumed: Option<Assumed>,
}

/// The assumptions of a preview about data that only the operator has.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    /// The charts; taken from the operator's status if the preview reads none.
    pub charts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// Whether the preview reads charts, so that the images they name are known.
    pub has_charts: bool,
    /// Releases with incomplete data, whose digests therefore differ from the operator's.
    pub guessed: BTreeSet<String>,
}

/// The state of the helm runner.
#[derive(Clone, Debug, Default)]
pub struct Helm {
    /// The major version of helm.
    pub major: u64,
    /// How many more helm processes may start now.
    pub free_slots: usize,
    /// The number of processes that are rendering.
    pub rendering: usize,
    /// The number of processes that may render at the same time.
    pub cores: usize,
    /// Whether no process runs, not even one whose record was not observed yet.
    pub idle: bool,
}

/// The charts that the operator has, or is fetching.
#[derive(Clone, Debug, Default)]
pub struct Charts {
    /// Whether charts come from a folder: pins that were added to the catalogue do not apply then.
    pub folder: bool,
    /// The names of the charts in the operator's own lock.
    pub locked: BTreeSet<String>,
    /// The request and its state, by release.
    pub known: BTreeMap<String, (ChartRequest, ChartState)>,
    /// The CRDs in the `crds/` folder of the chart of each release.
    pub crds: BTreeMap<String, Crds>,
}

/// The CRDs of a chart, or why they can't be decoded.
pub type Crds = Result<Arc<[CustomResourceDefinition]>, String>;

/// The state of a requested chart.
#[derive(Clone, Debug)]
pub enum ChartState {
    /// The chart is being fetched.
    Pending,
    /// The chart is available.
    Ready(ChartInfo),
    /// Fetching failed; the operator retries at this time.
    Failed(Blocked, Timestamp),
}

impl Charts {
    /// Returns the pin of a chart in an addition to the catalogue, unless a folder or the own lock overrides it.
    pub(crate) fn pin<'a>(&self, catalog: &'a Catalog, chart: &str) -> Option<&'a file::Pin> {
        catalog.lock.get(chart).filter(|_| !self.folder && !self.locked.contains(chart))
    }
}
