//! What is: helm's release records, the workloads and Jobs in the cluster, the children that run now.
//!
//! Pure room: plain data, gathered by the shell (`tasks`, `helm`, `cluster`) and read by `plan` and `status`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::catalog::{Component, WorkloadKind};
use crate::drift;

mod cause;
mod cron;
mod endpoint;
mod failed;
mod likeness;
mod node;
mod rollout;
mod site;
mod storage;

pub use crate::drift::DriftSeen;
pub use crate::release::{Key, Past};
pub use cause::Cause;
pub use cron::{CronSeen, Ended, Run, RunEnd};
pub use endpoint::EndpointSeen;
pub use failed::{Failed, Mend};
pub use likeness::{Likeness, Verdict};
pub use node::{Labels, Node};
pub use rollout::{DaemonPod, Daemons, OnDelete, PodState, Rolling};
pub use site::{Census, Range, Site};
pub use storage::{Claim, ClaimPhase, Class};

/// Everything that `plan` and `status` may look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// What helm recorded, by release.
    pub releases: BTreeMap<Key, ReleaseSeen>,
    /// Deployments, `StatefulSets` and `DaemonSets` of releases.
    pub workloads: Vec<Workload>,
    /// Jobs of releases, hooks included.
    pub jobs: Vec<JobSeen>,
    /// `CronJobs` of releases.
    pub crons: Vec<CronSeen>,
    /// What is to be mended of workloads and Jobs, each root once, the gravest first.
    pub causes: Vec<Cause>,
    /// The children that run now.
    pub running: BTreeMap<Key, RunningSeen>,
    /// Operations of ours that failed and were not followed by a success, by release.
    pub failures: BTreeMap<Key, Failed>,
    /// How often a release was applied again because of what others did to its objects, without a pause long enough to call it settled.
    pub repairs: BTreeMap<Key, Repaired>,
    /// External services whose addresses are published: needs on their components are met.
    pub external_ready: BTreeSet<String>,
    /// What others did to the objects of releases, by release, where they are looked after and their newest revision is ours and deployed.
    pub drift: Arc<BTreeMap<Key, DriftSeen>>,
    /// What services' APIs answered, by release, of those that are asked and can be reached.
    pub endpoints: Arc<BTreeMap<Key, EndpointSeen>>,
    /// How the newest revisions that others made stand to what is wanted, by release.
    pub likeness: BTreeMap<Key, Likeness>,
    /// Namespaces that are being deleted: nothing can start in them.
    pub terminating: BTreeSet<String>,
    /// Daemons that a batch is being made anew of: on so many nodes their pods may be missing for now.
    pub renewed: BTreeMap<Daemons, i32>,
}

/// What helm recorded of one release: its newest record, and whether one is deployed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleaseSeen {
    /// The status of the newest record (highest revision), in helm's words: `deployed`, `pending-upgrade` …
    pub status: String,
    /// The newest revision.
    pub revision: i64,
    /// When the newest record was made.
    pub since: Option<Timestamp>,
    /// Whether any revision was ever deployed.
    pub was_deployed: bool,
    /// The label that digests the inputs, as it stands on the newest record.
    pub inputs: Option<String>,
    /// The label that digests the catalogue's part, as it stands on the newest record.
    pub catalog: Option<String>,
    /// The release's name in the catalogue: by the label on the newest record, or where that is missing by what else is known of it.
    pub release: Option<String>,
    /// The label that digests the images, as it stands on the newest record.
    pub images: Option<String>,
    /// The label that digests what running guests hold on to, as it stands on the newest record.
    pub guests: Option<String>,
    /// The label that digests how its `DaemonSets` are split by node, as it stands on the newest record.
    pub split: Option<String>,
    /// Every revision that helm has a record of, lowest first.
    pub history: Vec<Past>,
    /// The inputs of the newest record that an operator of ours made for that very revision: what we last applied.
    pub own_inputs: Option<String>,
    /// The newest revision that an operator of ours made, of those that helm has a record of.
    pub own_revision: Option<u32>,
    /// Who made the newest record, as it stands on its label.
    pub attempt: Option<AttemptSeen>,
    /// What is known from the record's body, once it was read.
    pub body: Option<BodySeen>,
    /// Why the newest record can't be read.
    pub undecodable: Option<String>,
}

impl Observed {
    /// Whether it runs and is nobody's of ours: nothing of it is touched.
    pub fn is_others(&self, key: &Key) -> bool {
        self.releases.get(key).is_some_and(|seen| !seen.is_ours())
    }

    /// The objects of a release that others changed since its newest revision.
    pub fn drifted(&self, key: &Key) -> &[drift::Drifted] {
        let revision = self.releases.get(key).map(|seen| seen.revision);
        let found = self.drift.get(key).filter(|found| Some(found.revision) == revision);
        found.map_or(&[], |found| found.objects.as_slice())
    }

    /// Whether someone scaled it to 0 beside helm. What was asked for is what the applied manifest says: values may say 0 pods on purpose, in as
    /// many places as there are charts, and all of them end there.
    pub fn is_scaled_away(&self, workload: &Workload) -> bool {
        if workload.kind == WorkloadKind::DaemonSet || workload.desired != 0 {
            return false;
        }
        let key = Key::new(&workload.namespace, &workload.release);
        let identity = (workload.kind, workload.namespace.clone(), workload.name.clone());
        let body = self.releases.get(&key).and_then(|seen| seen.body.as_ref());
        body.is_some_and(|body| body.workloads.contains(&identity) && !body.at_rest.contains(&identity))
    }
}

/// Repairs of a release in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// How many.
    pub count: u32,
    /// When the last one began.
    pub at: Timestamp,
}

impl ReleaseSeen {
    /// Whether an operator of ours made any of its revisions.
    pub fn is_ours(&self) -> bool {
        self.attempt.is_some() || self.own_inputs.is_some()
    }
}

/// Who made a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSeen {
    /// The operator process.
    pub instance: String,
    /// The revision it was made for: where it differs from the record's own, the label was inherited or revived.
    pub revision: i64,
    /// Whether the process that made it lives.
    pub owner: Owner,
}

/// Whether the maker of a record lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This process.
    Us,
    /// A process of the operator that is gone: its helm is gone with it.
    Dead,
    /// A process of the operator that lives.
    Alive,
    /// Nobody can tell, such as a process on another machine.
    Unknown,
}

/// What a record's body says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BodySeen {
    /// The chart's name.
    pub chart: String,
    /// The chart's version.
    pub chart_version: String,
    /// Helm's own description of the last operation.
    pub description: String,
    /// The hook that runs now, or that the operation failed with.
    pub hook: Option<HookSeen>,
    /// The workloads in the manifest: what must become available.
    pub workloads: BTreeSet<(WorkloadKind, String, String)>,
    /// Those of them for which the manifest itself asks no pods.
    pub at_rest: BTreeSet<(WorkloadKind, String, String)>,
    /// The plain Jobs and post-hook Jobs of this revision, as (namespace, name): what must be complete.
    pub jobs: BTreeSet<(String, String)>,
    /// The Jobs that every upgrade makes anew after it has changed the workloads (post-upgrade hooks), as (namespace, name).
    pub hook_jobs: BTreeSet<(String, String)>,
    /// Whether every pre-install hook was satisfied: decides how a pending install is recovered.
    pub pre_install_satisfied: bool,
    /// The objects of the manifest that are looked after, with what it says of them.
    pub left: Arc<BTreeMap<drift::Id, drift::Left>>,
    /// How big the record is as it is stored, in bytes; see [`crate::release::RECORD_LIMIT`].
    pub stored: usize,
}

/// A hook that runs now or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct HookSeen {
    /// `post-upgrade Job keystone-db-sync`.
    pub name: String,
    /// The name of its Job, where it is one.
    pub job: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Whether it ended with a failure: then it does not run any more, and the record says `failed`.
    pub failed: bool,
}

/// A Deployment, `StatefulSet` or `DaemonSet`.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Helm's release that owns it.
    pub release: String,
    /// Its labels `application` and `component` (of its pods, where it has none).
    pub component: Component,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// How many pods should be there; for a `DaemonSet` on how many nodes.
    pub desired: i32,
    /// How many are ready.
    pub ready: i32,
    /// How many are of the newest template; equal to `desired` for update strategy `OnDelete`.
    pub updated: i32,
    /// What counts of a `DaemonSet` with that strategy.
    pub on_delete: Option<OnDelete>,
    /// How many pods of an older template are still there, of a Deployment: they may be the ones that are ready.
    pub outdated: i32,
    /// Whether this template's pods were all available once: what is missing now was lost, not yet to come.
    pub was_available: bool,
    /// The labels that a `DaemonSet` asks of nodes, where it asks for any: `openvswitch=enabled`.
    pub selects: String,
    /// On how many nodes pods of this `DaemonSet` run on without being wanted there: such as those of nodes that are `NotReady`.
    pub misscheduled: i32,
    /// The nodes that are `NotReady` and have a pod of this `DaemonSet` which is not ready either.
    pub lost_nodes: Vec<String>,
    /// Why pods are not ready, the first cause: `neutron-server-abc: ImagePullBackOff quay.io/…`.
    pub trouble: Option<Trouble>,
}

/// Why a pod is not ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// Whether it can't go on without help (image pull, crash loop, failed); else it waits or starts.
    pub stuck: bool,
    /// One line, scrubbed.
    pub message: String,
}

/// A Job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Helm's release, by ownership annotation or the label `release_group`.
    pub release: String,
    /// Whether it is complete.
    pub complete: bool,
    /// Whether it has failed for good.
    pub failed: bool,
    /// How many of its pods have failed.
    pub failures: i32,
    /// Why it does not get on, with the last lines of its log, scrubbed.
    pub trouble: Option<Trouble>,
}

/// A child that runs now.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningSeen {
    /// `upgrade` or `uninstall`.
    pub verb: String,
    /// The digest of the inputs it was started with; empty for an uninstall.
    pub inputs: String,
    /// Since when.
    pub since: Timestamp,
    /// Whether it was told to stop.
    pub stopping: bool,
    /// Whether it waits for its turn.
    pub queued: bool,
    /// Whether it was started without hooks.
    pub skips_hooks: bool,
}
