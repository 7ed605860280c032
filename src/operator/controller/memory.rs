//! Memory between passes: only what cannot be read back, and what is cheaper not to read again.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::written::Written;
use crate::helm::Outcome;
use osdpl_core::observed::{Failed, ObservedRelease, ReleaseKey, Repaired, RunningHelm};
use osdpl_decide::{Answers, Kept, Read};

/// The operator's memory. All of it can be lost: the documentation of each field says at what price.
#[derive(Default)]
pub struct Memory {
    /// Operations that failed and were not followed by a success: helm's records hold no failed uninstall, and no reason. A restart tries again at
    /// once, and counts anew.
    pub failures: BTreeMap<ReleaseKey, Failed>,
    /// Releases that were applied again because of drift, with the pace of it. A restart repairs once more.
    pub repairs: BTreeMap<ReleaseKey, Repaired>,
    /// Helm processes that ended, with their records as the API server had them: the watch may be older, and a plan would be made from the past. A
    /// restart lists the records anew.
    pub catching_up: BTreeMap<ReleaseKey, CatchingUp>,
    /// Helm processes that ended and whose records could not be read since. A restart lists the records anew.
    pub unread: Vec<Outcome>,
    /// The digests that running helm processes were started with. They end with the operator.
    pub started: BTreeMap<ReleaseKey, String>,
    /// Releases that were uninstalled and whose Jobs are still to be deleted. After a restart they stay until the cloud is deleted.
    pub uninstalled: BTreeSet<ReleaseKey>,
    /// The reads that the last plan requested. A restart plans anew.
    pub reads: BTreeSet<Read>,
    /// The answers to them. A restart reads them again.
    pub answers: Answers,
    /// What the last decision left for the next one; see [`Kept`].
    pub kept: Kept,
    /// The secrets that were seen, valid or not, each with since when the facts lack it; `None` while they hold it. They are kept out of logs for as
    /// long as something may still print them. A restart begins with those that the cluster holds.
    pub secrets: BTreeMap<String, Option<Timestamp>>,
    /// The status that was written last, and when: the watch may be older. A restart reads it from the resource.
    pub written: Option<Written>,
}

/// What a watch must have seen before a release is planned again.
#[derive(Clone, Debug)]
pub struct CatchingUp {
    /// The process that ended, shown as running until then.
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
