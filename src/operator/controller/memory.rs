//! What is remembered between passes: only what no record tells, and what is cheaper not to compute again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::certificates::Certificates;
use super::hosts::Hosted;
use super::likeness::Likenesses;
use super::rollout::Rolled;
use super::site::Networks;
use super::spent::Staying;
use super::written::Written;
use crate::cluster::SecretEdits;
use crate::helm::Outcome;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::ceph::Manifest;
use osdpl_core::desired::{Desired, Facts};
use osdpl_core::observed::{Failed, ObservedRelease, ReleaseKey, Repaired, RunningHelm};

/// The operator's memory. Losing it costs nothing but a retry that comes sooner.
#[derive(Default)]
pub struct Memory {
    /// Operations that failed and were not followed by a success.
    pub failures: BTreeMap<ReleaseKey, Failed>,
    /// Releases that were applied again because of what others did to their objects.
    pub repairs: BTreeMap<ReleaseKey, Repaired>,
    /// Annotations that had their effect and could not be taken away.
    pub staying: Option<Staying>,
    /// Repairs that a person asked for and that began, until the annotation names them no more.
    pub repairing: BTreeSet<String>,
    /// Children that ended, and what the API server said of their records right after: until the watch has seen that too, a plan would
    /// be made from the past.
    pub catching_up: BTreeMap<ReleaseKey, CatchingUp>,
    /// What became of children whose records could not be read since.
    pub unread: Vec<Outcome>,
    /// The digests that running children were started with.
    pub started: BTreeMap<ReleaseKey, String>,
    /// The last wish: equal inputs give an equal wish.
    pub resolved: Option<Resolved>,
    /// What waiting changes would change, by release.
    pub changes: BTreeMap<ReleaseKey, Changes>,
    /// How revisions that others made stand to what is wanted.
    pub likeness: Likenesses,
    /// Sweeps that failed, by release: how often in a row, and when last.
    pub sweeps: BTreeMap<ReleaseKey, (u32, Timestamp)>,
    /// What others did to our Secrets.
    pub edits: SecretEdits,
    /// The Services of external services that stand, as (namespace, name); `None` until they were looked at.
    pub external: Option<BTreeSet<(String, String)>>,
    /// Ceph's objects that stand, by their names; `None` until they were looked at.
    pub ceph: Option<Vec<String>>,
    /// What Rook has made, as it was asked for; `None` until all is there.
    pub rook: Option<Vec<Manifest>>,
    /// The networks of Services, as they were read for a generation of the spec.
    pub networks: Networks,
    /// What certificates came to.
    pub certificates: Certificates,
    /// The secrets that were seen, valid or not, each with since when facts tell it no more; `None` while they do.
    pub secrets: BTreeMap<String, Option<Timestamp>>,
    /// What was done about Nova's hosts.
    pub hosts: Hosted,
    /// The status that was written last, and when.
    pub written: Option<Written>,
    /// Rollouts, and the pods that were evicted for them.
    pub rolled: Rolled,
    /// Releases that were uninstalled and whose Jobs are still to be collected.
    pub collect: Vec<ReleaseKey>,
}

/// What a waiting change would change.
pub struct Changes {
    /// Of which revision.
    pub revision: i64,
    /// With which inputs.
    pub inputs: String,
    /// The paths; or why they are not known, until then.
    pub paths: Result<Vec<String>, (String, Timestamp)>,
}

/// What a watch must have seen before a release is planned again.
#[derive(Clone, Debug)]
pub struct CatchingUp {
    /// The child that ended, shown as running until then.
    pub child: RunningHelm,
    /// The newest revision and its status, `None` where no record was left.
    pub record: Option<(i64, String)>,
    /// When the API server said so.
    pub asked: Timestamp,
}

impl CatchingUp {
    /// Whether the watch has seen what the API server said, or something later.
    pub fn is_done(&self, seen: Option<&ObservedRelease>) -> bool {
        match (&self.record, seen) {
            (None, seen) => seen.is_none(),
            (Some(_), None) => false,
            (Some((revision, status)), Some(seen)) => {
                seen.revision > *revision || (seen.revision == *revision && seen.status == *status)
            }
        }
    }
}

/// A wish and what it was made from.
pub struct Resolved {
    /// The spec.
    pub spec: OpenStackDeploymentSpec,
    /// The facts.
    pub facts: Facts,
    /// The result.
    pub desired: Arc<Desired>,
}
