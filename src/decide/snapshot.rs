//! Defines the snapshot of a pass: all data that a decision uses. The operator reads this data before the decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::kept::Kept;
use super::objects::Objects;
use super::requests::{ChartRequest, Crds, Responses};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Catalog, file};
use osdpl_core::cause::AffectedObject;
use osdpl_core::desired::{Blocked, ChartInfo, Finding};
use osdpl_core::nodes::Inventory;
use osdpl_core::observed::{Claim, Class, DaemonSetGroup, Observed, ReleaseKey, RolloutPods};
use osdpl_core::openstack::{HostObservation, InstanceObservation};

/// All data that a decision uses.
pub struct Snapshot {
    /// When the operator made the snapshot.
    pub now: Timestamp,
    /// The `OpenStackDeployment`.
    pub deployment: OpenStackDeployment,
    /// The catalogue, with the services, presets and features that `ConfigMap`s add.
    pub catalog: Arc<Catalog>,
    /// The errors about the additions to the catalogue.
    pub catalog_findings: Vec<Finding>,
    /// The number of helm processes that can start now, and the version of helm.
    pub helm: Helm,
    /// The charts of the releases.
    pub charts: Charts,
    /// The observed state, as the operator read it from the cluster. The decision adds the catalogue name of each
    /// observed release, and the root causes of problems.
    pub observed: Observed,
    /// The objects that are not ready, each with the chain of objects that leads to its root cause.
    pub affected: Vec<AffectedObject>,
    /// The nodes of the cluster; `None` if the operator has no right to list them.
    pub nodes: Option<Arc<Inventory>>,
    /// The volume claims of releases.
    pub claims: Vec<Claim>,
    /// The `StorageClasses` of the cluster; `None` if the operator has no right to list them.
    pub classes: Option<Vec<Class>>,
    /// The pods that the operator watches for rollouts, by the namespace and component of their `DaemonSets`.
    pub rolling: Arc<BTreeMap<DaemonSetGroup, RolloutPods>>,
    /// The last query that listed the compute hosts in Nova, with Nova's response; `None` if there was no query yet.
    pub hosts: Option<Arc<HostObservation>>,
    /// The last response of Nova to the question whether the cloud has instances; `None` if there was no query yet.
    pub instances: Option<Arc<InstanceObservation>>,
    /// The problems that keep background tasks and watches from observing the cluster, one line each.
    pub problems: Vec<String>,
    /// The objects that the operator watches.
    pub objects: Objects,
    /// The responses to the reads that the last plan requested.
    pub responses: Responses,
    /// The namespaces in which the operator has rights; `None` if it has rights in all namespaces.
    pub permitted: Option<BTreeSet<String>>,
    /// The uninstalled releases whose remaining Jobs osdpl must still delete. helm leaves the Jobs of hooks behind.
    pub uninstalled: BTreeSet<ReleaseKey>,
    /// The data that the operator kept in memory from the last decision.
    pub kept: Kept,
    /// The assumptions of `osdpl plan` about data that only the operator has; `None` in the operator itself.
    pub assumed: Option<Assumed>,
}

impl Snapshot {
    /// Removes from the snapshot the releases and objects in namespaces that are deleted or being deleted.
    ///
    /// The function does so only if the `OpenStackDeployment` is being deleted and the operator has rights only in some
    /// namespaces.
    ///
    /// Kubernetes deletes the operator's `RoleBinding`s together with the other objects of a namespace. So the operator
    /// can't uninstall the releases in such a namespace. It need not uninstall them, because Kubernetes deletes their
    /// objects. The watches lose their rights, too, so the snapshot can still contain deleted objects.
    pub fn forget_deleted_namespaces(&mut self) {
        if self.permitted.is_none() || self.deployment.metadata.deletion_timestamp.is_none() {
            return;
        }
        let (terminating, existing) = (&self.observed.terminating, self.objects.namespaces.clone());
        let exists = |namespace: &String| existing.as_ref().is_none_or(|all| all.contains(namespace));
        let stays = |key: &ReleaseKey| !terminating.contains(&key.namespace) && exists(&key.namespace);
        self.observed.releases.retain(|key, _| stays(key));
        self.objects.secrets.retain(|key, _| stays(key));
        self.objects.maps.retain(|key, _| stays(key));
        self.uninstalled.retain(stays);
    }

    /// Whether a namespace exists. If the operator has no right to list namespaces, the function assumes that every
    /// namespace exists.
    pub(crate) fn namespace_exists(&self, namespace: &str) -> bool {
        self.objects.namespaces.as_ref().is_none_or(|all| all.contains(namespace))
    }

    /// Whether the operator has rights in a namespace.
    pub(crate) fn is_permitted(&self, namespace: &str) -> bool {
        self.permitted.as_ref().is_none_or(|permitted| permitted.contains(namespace))
    }
}

/// The assumptions of `osdpl plan` about data that only the operator has.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    /// The chart of each release. If `osdpl plan` reads no charts, the chart comes from the status that the operator
    /// wrote.
    pub charts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// Whether `osdpl plan` reads charts. If so, it knows the images that the charts name.
    pub has_charts: bool,
    /// The releases for which `osdpl plan` lacks data. For these releases, it computes other input digests than the
    /// operator.
    pub guessed: BTreeSet<String>,
}

/// The version of helm, and the limits on the number of helm processes: of all processes, and of those that render a
/// chart.
#[derive(Clone, Debug, Default)]
pub struct Helm {
    /// The major version of helm.
    pub major: u64,
    /// The number of further helm processes that may start now.
    pub free_slots: usize,
    /// The number of helm processes that are rendering a chart now.
    pub rendering: usize,
    /// The number of helm processes that may render at the same time: one for each processor core.
    pub cores: usize,
    /// Whether no helm process runs. A process that has ended still counts as running until the watch reports the
    /// release record that the process wrote.
    pub idle: bool,
}

/// The charts that the operator has or is fetching.
#[derive(Clone, Debug, Default)]
pub struct Charts {
    /// Whether the charts come from a folder. If so, the operator ignores the versions that additions to the catalogue
    /// pin.
    pub folder: bool,
    /// The names of the charts that the operator's own chart lock pins.
    pub locked: BTreeSet<String>,
    /// The requested chart of each release, and the operator's progress in fetching it.
    pub known: BTreeMap<String, (ChartRequest, ChartState)>,
    /// For each release: the CRDs in the folder `crds/` of its chart.
    pub crds: BTreeMap<String, Crds>,
    /// The names of the releases whose charts may have CRDs in their templates.
    pub crd_templates: BTreeSet<String>,
}

/// The operator's progress in fetching a requested chart.
#[derive(Clone, Debug)]
pub enum ChartState {
    /// The operator is fetching the chart.
    Pending,
    /// The operator has the chart.
    Ready(ChartInfo),
    /// The operator could not fetch the chart. Contains the reason, and the time when the operator tries again.
    Failed(Blocked, Timestamp),
}

impl Charts {
    /// Returns the operator's progress in fetching the requested chart of a release; `None` if the operator has not
    /// begun to fetch this chart.
    pub(crate) fn state(&self, release: &str, request: &ChartRequest) -> Option<&ChartState> {
        let (before, state) = self.known.get(release)?;
        let ready = match state {
            ChartState::Ready(chart) => Some(chart.digest.as_str()),
            ChartState::Pending | ChartState::Failed(..) => None,
        };
        Some(state).filter(|_| request.is_answered_by(before, ready))
    }

    /// Returns whether the requested chart comes from a folder.
    pub(crate) fn is_in_folder(&self, request: &ChartRequest) -> bool {
        self.folder && request.repository.is_none()
    }

    /// Returns the version of a chart that an addition to the catalogue pins.
    ///
    /// Returns `None` if no addition pins the chart, if the charts come from a folder, or if the operator's own chart
    /// lock pins the chart.
    pub(crate) fn pin<'a>(&self, catalog: &'a Catalog, chart: &str) -> Option<&'a file::Pin> {
        catalog.lock.get(chart).filter(|_| !self.folder && !self.locked.contains(chart))
    }
}
