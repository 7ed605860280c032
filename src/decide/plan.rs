//! Defines the plan of a pass: the actions with their reasons, the data that the next pass needs, and the data for the
//! status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::action::Planned;
use super::kept::Kept;
use super::requests::Requests;
use osdpl_core::adopt::Comparison;
use osdpl_core::api::{OpenStackDeploymentSpec, RoleStatus};
use osdpl_core::ceph::DeclaredCeph;
use osdpl_core::desired::{Desired, Facts, Finding, Selection};
use osdpl_core::nodes::LabelRemoval;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{self, Step, Wait};
use osdpl_core::release::Verb;
use osdpl_core::rollout::Rollouts;
use osdpl_core::status::Ignored;
use osdpl_values::Values;

/// The values in the newest record of each release, by the release's name in the catalogue, or why osdpl can't read the
/// record.
pub(crate) type RecordedValues = BTreeMap<String, Result<Arc<Values>, String>>;

/// The plan of a pass: the actions with their reasons, the data that the next pass needs, and the data for the status.
#[derive(Default)]
pub struct Plan {
    /// The data that the next snapshot must contain.
    pub requests: Requests,
    /// The actions, in the order in which the operator executes them.
    pub actions: Vec<Planned>,
    /// The next step of every release.
    pub releases: plan::Plan,
    /// The services and releases that the spec selects; `None` if the pass ended before it decided about the cloud.
    pub selection: Option<Arc<Selection>>,
    /// The spec that the plan follows. In this spec, existing releases keep their name and namespace, because osdpl
    /// does not move releases.
    pub spec: Option<OpenStackDeploymentSpec>,
    /// The facts that values depend on, including credentials.
    pub facts: Facts,
    /// The desired state of the cloud.
    pub desired: Arc<Desired>,
    /// The releases that the next status lists as releases of the cloud (see `osdpl_core::plan::owned`). Releases to
    /// remove stay in the list until the last of them is removed. The operator writes the list before it starts helm,
    /// so that later passes recognize the helm records as the operator's own. `None` if the pass did not determine the
    /// list: the status then keeps the previous one.
    pub owned: Option<BTreeSet<ReleaseKey>>,
    /// The digest of the approved content of each addition to the catalogue; `None` if the pass did not determine the
    /// digests. The operator writes them to the status before it starts helm.
    pub additions: Option<BTreeMap<String, String>>,
    /// The digests of the charts from repositories, by `chart@version`; `None` if the pass did not determine the
    /// digests. The operator writes them to the status before it starts helm.
    pub charts: Option<BTreeMap<String, String>>,
    /// The observed state of the cloud.
    pub observed: Observed,
    /// The name that each release has in the catalogue, by the namespace and name of the helm release. The map also
    /// contains releases that the spec does not select.
    pub names: BTreeMap<ReleaseKey, String>,
    /// Errors, warnings and notes about the spec.
    pub findings: Vec<Finding>,
    /// Problems that belong to no release, for the status.
    pub problems: Vec<String>,
    /// The settings and the status of the Ceph cluster that the spec declares, or why osdpl can't read the settings;
    /// `None` if the cloud does not use Ceph.
    pub ceph: Option<DeclaredCeph>,
    /// The status of each node role, by role name: its labels and nodes.
    pub roles: BTreeMap<String, RoleStatus>,
    /// The removal of role labels from nodes; `None` if the pass did not decide about labels.
    pub label_removal: Option<LabelRemoval>,
    /// The actions that wait for approval and do not belong to a release, as text for the status.
    ///
    /// The list does not contain removals of node labels: the field `label_removal` contains them.
    pub awaiting_objects: Vec<String>,
    /// The status of each rollout.
    pub rollouts: Rollouts,
    /// For each release whose newest revision someone else made: the comparison of this revision with the desired
    /// state. Contains only the comparisons that this pass made.
    pub compared: BTreeMap<String, Comparison>,
    /// For `osdpl plan`: the recorded values of each release whose inputs change, or why osdpl can't read the record.
    pub recorded: RecordedValues,
    /// For each release whose upgrade waits for approval: the paths of the values that the upgrade would change.
    pub changes: BTreeMap<String, Vec<String>>,
    /// Whether osdpl refuses the spec, because it has an error.
    pub refused: bool,
    /// Whether the plan contains placeholders for charts, because the operator is still fetching these charts. The
    /// placeholders have the versions and digests that the status records.
    pub assumed: bool,
    /// The work that osdpl must still do or wait for before the cloud is deleted, as text for the status; `None` if
    /// there is none, or if the cloud is not being deleted.
    pub deleting: Option<String>,
    /// Why osdpl ignores the `OpenStackDeployment`; `None` if osdpl does not ignore it.
    pub ignored: Option<Ignored>,
    /// The names of releases that a person asked osdpl to repair, and whose repair osdpl has not started yet.
    pub repairs: BTreeSet<String>,
    /// Whether the operator can forget the secrets of the cloud. The operator removes the secrets that it knows from
    /// logs and messages, so it must not forget a secret that text from the cluster may still contain.
    pub forget_secrets: bool,
    /// Why the operator does not report this plan in the status; `None` if it reports the plan.
    pub hold: Option<Hold>,
    /// When the next pass must start at the latest, if no watch triggers a pass earlier.
    pub requeue_at: Option<Timestamp>,
    /// The data that the operator keeps in memory for the next decision.
    pub kept: Kept,
}

/// Why the operator does not report a plan in the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The watches have not listed all objects yet. The next pass starts when a watch reports its objects.
    Objects,
    /// The plan lacks responses to reads. The next pass follows at once, and its snapshot contains the responses.
    Reads,
    /// The rest of the decision depends on the result of the actions. The next pass follows at once and decides the
    /// rest.
    Actions,
    /// The operator is fetching charts. It keeps the stored status until it has them, because a status that it computes
    /// without these charts would contain less information.
    Charts,
    /// The actions add or remove the finalizer of the `OpenStackDeployment`. The watch of the `OpenStackDeployment`
    /// then triggers the next pass, if the resource still exists.
    Watch,
}

impl Plan {
    /// Returns the steps of all releases after the operator tried to start helm.
    ///
    /// `started` contains the releases for which the operator tried to start helm: `true` if helm runs, `false` if the
    /// release waits for a slot.
    pub fn releases_after(&self, started: &BTreeMap<String, bool>) -> plan::Plan {
        let mut releases = self.releases.clone();
        for (name, runs) in started {
            let Some(decision) = releases.decisions.get_mut(name) else { continue };
            let verb = match &decision.step {
                Step::Do(plan::Action::Upgrade { .. }, _) => Verb::Upgrade,
                Step::Do(plan::Action::Uninstall { .. }, _) => Verb::Uninstall,
                _ => continue,
            };
            decision.step = Step::Wait(Wait::Helm { verb, queued: !runs, hook: None });
        }
        releases
    }
}
