//! The plan: everything that osdpl does in a pass, with its reasons, and the data for the status.

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
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{self, Step, Wait};
use osdpl_core::release::Verb;
use osdpl_core::rollout::Rollouts;
use osdpl_values::Values;

/// The recorded values of releases, or why they can't be read.
pub(crate) type RecordedValues = BTreeMap<String, Result<Arc<Values>, String>>;

/// Everything that osdpl does in a pass, with its reasons, and the data for the status.
#[derive(Default)]
pub struct Plan {
    /// The data that the next snapshot must contain.
    pub requests: Requests,
    /// The actions, in the order of their execution.
    pub actions: Vec<Planned>,
    /// The step of every release.
    pub releases: plan::Plan,
    /// The services and releases that the spec selects; `None` if nothing was decided.
    pub selection: Option<Selection>,
    /// The spec, corrected by the releases that exist.
    pub spec: Option<OpenStackDeploymentSpec>,
    /// The facts that values depend on, including credentials.
    pub facts: Facts,
    /// The desired state.
    pub desired: Arc<Desired>,
    /// The observed state.
    pub observed: Observed,
    /// The catalogue's names of releases, desired or not.
    pub names: BTreeMap<ReleaseKey, String>,
    /// Errors, warnings and notes about the resource.
    pub findings: Vec<Finding>,
    /// Problems that belong to no release.
    pub problems: Vec<String>,
    /// The Ceph cluster that the spec declares.
    pub ceph: Option<DeclaredCeph>,
    /// The nodes of each role.
    pub roles: BTreeMap<String, RoleStatus>,
    /// The progress of rollouts.
    pub rollouts: Rollouts,
    /// The comparisons of foreign revisions with the desired state that were made for this plan.
    pub compared: BTreeMap<String, Comparison>,
    /// The recorded values of releases that are not up to date, or why they can't be read; only in a preview.
    pub recorded: RecordedValues,
    /// The value paths that changes waiting for approval would change, by release.
    pub changes: BTreeMap<String, Vec<String>>,
    /// Whether the spec is refused.
    pub refused: bool,
    /// Whether charts in the status are placeholders of charts that are being fetched.
    pub assumed: bool,
    /// The work that is left of a deletion.
    pub deleting: Option<String>,
    /// The older resource that takes precedence.
    pub older: Option<String>,
    /// The requested repairs that were not started yet.
    pub repairs: BTreeSet<String>,
    /// Whether nothing is left that may print the cloud's secrets.
    pub forget_secrets: bool,
    /// Why the plan is not reported; `None` if it is.
    pub hold: Option<Hold>,
    /// The time of the next decision, if no watch triggers one earlier.
    pub requeue_at: Option<Timestamp>,
    /// The state that is kept for the next decision.
    pub kept: Kept,
}

/// Why a plan is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Watched objects were not read yet. The first event of the watch triggers the next pass.
    Objects,
    /// One-off reads are not received yet. The next pass follows at once.
    Reads,
    /// The rest of the decision depends on the result of the actions. The next pass follows at once.
    Actions,
    /// Charts are being fetched, and the stored status is more complete than a new one.
    Charts,
    /// The actions change the resource, so that its watch triggers the next pass if it still exists.
    Watch,
}

impl Plan {
    /// Returns the steps of all releases after `started` were executed: helm runs (`true`) or is queued (`false`).
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
