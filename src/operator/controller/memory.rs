//! The data that the operator keeps in memory between passes, because the cluster does not contain this data or a read
//! is costly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::cluster::{NewestRecord, is_older};
use crate::helm::Outcome;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::Desired;
use osdpl_core::observed::{Failed, ObservedRelease, ReleaseKey, Repaired, RunningHelm};
use osdpl_decide::{Kept, Read, Responses};

/// The state that the operator keeps between passes. Each field says why the operator keeps it, and how a restart
/// affects it.
#[derive(Default)]
pub(super) struct Memory {
    /// The last failed helm operation of each release, for the backoff and the status. osdpl removes the entry when an
    /// operation of the release succeeds. helm's records can't replace this map, because they contain neither failed
    /// uninstalls nor the causes of failures. After a restart, osdpl retries at once, and the backoff starts again.
    pub(super) failures: BTreeMap<ReleaseKey, Failed>,
    /// The repairs of drift in each release, which osdpl counts to limit their rate. After a restart, osdpl may repair
    /// a release once more than allowed.
    pub(super) repairs: BTreeMap<ReleaseKey, Repaired>,
    /// The ended helm processes whose new records the watch on records has not reported yet. Without this map, a plan
    /// would see only the older records and run helm again. After a restart, the watch lists all records.
    pub(super) unobserved: BTreeMap<ReleaseKey, UnobservedResult>,
    /// The outcomes of ended helm processes that osdpl has not evaluated yet, because it could not read their records,
    /// or because the pass was cancelled. The next pass reads the records again. After a restart, the watch lists all
    /// records.
    pub(super) unread: Vec<Outcome>,
    /// For each running helm process, the digest of the inputs that it installs. Plans compare the digest with the
    /// desired inputs, and osdpl stores it with a failure of the process. The release record can't replace this map,
    /// because the process may not have written its record yet. A restart loses nothing, because the helm processes end
    /// with the operator.
    pub(super) started: BTreeMap<ReleaseKey, String>,
    /// The releases that helm has uninstalled, but whose Jobs osdpl has not deleted yet. After a restart, the Jobs
    /// remain until the cloud is deleted.
    pub(super) uninstalled: BTreeSet<ReleaseKey>,
    /// The reads that the last plan requested. After a restart, the first plan requests the reads again.
    pub(super) reads: BTreeSet<Read>,
    /// The responses to `reads`, kept to save requests. After a restart, osdpl executes the reads again.
    pub(super) responses: Responses,
    /// The desired state of the last plan, if `reads` contains a [`Read::RenderedCrds`]: the next pass renders the
    /// charts from it. `None` otherwise. After a restart, the first plan requests these reads again.
    pub(super) desired: Option<Arc<Desired>>,
    /// The state that a decision keeps for the next decision; [`Kept`] documents each field.
    pub(super) kept: Kept,
    /// All known secrets, which the scrubber removes from logs. If the last complete facts contain a secret, the value
    /// is `None`. Otherwise, it is the time of the first pass whose facts lacked the secret, or, if no facts have
    /// contained the secret in this process, the time at which osdpl read it from the cluster. osdpl keeps a secret as
    /// long as a log may show it. After a restart, osdpl begins with the secrets in the cluster.
    pub(super) secrets: BTreeMap<String, Option<Timestamp>>,
    /// The digest of the secrets that the scrubber knows. osdpl replaces the scrubber only if this digest has changed.
    /// After a restart, osdpl replaces the scrubber once.
    pub(super) scrubber_digest: String,
    /// The last status that osdpl wrote, kept because the watch on the resource may lag. After a restart, osdpl reads
    /// the status from the resource.
    pub(super) written: Option<WrittenStatus>,
}

/// An ended helm process whose result the watch on release records has not reported yet.
#[derive(Clone, Debug)]
pub(super) struct UnobservedResult {
    /// The ended process. Plans treat it as running until the watch has reported the result, see [`Self::is_done`].
    pub(super) process: RunningHelm,
    /// The newest revision of the release, as the API server or the watch reported it; `None` if the release has no
    /// record.
    pub(super) record: Option<NewestRecord>,
    /// The time when the operator got `record` from the API server or the watch.
    pub(super) read_at: Timestamp,
}

impl UnobservedResult {
    /// Whether the watch on records has reported `record`, or a later record of the release. If `record` is `None`,
    /// whether the watch has reported the deletion of all records.
    pub(super) fn is_done(&self, observed: Option<&ObservedRelease>) -> bool {
        match (self.record, observed) {
            (None, observed) => observed.is_none(),
            (Some(_), None) => false,
            (Some(NewestRecord { revision, status }), Some(observed)) => {
                observed.revision > revision || (observed.revision == revision && observed.status == status)
            }
        }
    }
}

/// The last status that osdpl wrote.
///
/// osdpl keeps this status because the watch may still have an older one. A pass that starts from the older status
/// would write the new status, and record the events about the change, a second time.
pub(super) struct WrittenStatus {
    /// When a pass last reported; osdpl uses this time to limit the rate of reports. If an action writes the status,
    /// this time does not change.
    pub(super) at: Timestamp,
    /// The resource with the written status; `None` once the watch has reported this version of the resource.
    resource: Option<OpenStackDeployment>,
}

impl WrittenStatus {
    pub(super) fn new(resource: OpenStackDeployment, at: Timestamp) -> Self {
        Self { at, resource: Some(resource) }
    }

    /// Returns the resource with the status that osdpl wrote last, if `watched` is an older version of the resource.
    pub(super) fn newer_than(&mut self, watched: &OpenStackDeployment) -> Option<OpenStackDeployment> {
        let is_same = |resource: &&OpenStackDeployment| resource.uid() == watched.uid();
        if self.resource.as_ref().filter(is_same).is_some_and(|resource| !is_older(watched, resource)) {
            self.resource = None;
        }
        self.resource.as_ref().filter(is_same).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(uid: &str, version: &str, observed_generation: i64) -> OpenStackDeployment {
        serde_json::from_value(json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "uid": uid, "resourceVersion": version},
            "spec": {"openstackRelease": "2026.1"}, "status": {"observedGeneration": observed_generation},
        }))
        .unwrap()
    }

    #[test]
    fn uses_the_written_status_until_the_watch_has_it() {
        let mut written = WrittenStatus::new(deployment("1", "9", 2), Timestamp::UNIX_EPOCH);
        for older in ["7", "8"] {
            let newer = written.newer_than(&deployment("1", older, 1)).unwrap();
            assert_eq!(newer.status, deployment("1", "9", 2).status);
        }
        assert!(
            written.newer_than(&deployment("2", "7", 1)).is_none(),
            "the written status is not used for another resource"
        );
        assert!(written.newer_than(&deployment("1", "9", 2)).is_none());
        assert!(
            written.newer_than(&deployment("1", "8", 1)).is_none(),
            "the written status is forgotten once the watch has reported it"
        );
    }
}
