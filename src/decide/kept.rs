//! The state that one decision keeps for the next: only data that cannot be read back, or is expensive to compute.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::certificates::Certificates;
use super::lookups::Damped;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Desired, ExternalService, Facts};
use osdpl_core::observed::{ManifestComparison, ReleaseKey};
use osdpl_core::openstack::Mapping;
use osdpl_core::rollout::{Rollouts, Strategy};

/// How long the message of a repeated refusal stays the same.
///
/// It may contain a request's number, and each new message costs an event and a write of the status.
const MESSAGE_LIFETIME: SignedDuration = SignedDuration::from_mins(1);

/// The state that is kept in memory between decisions.
///
/// A restart of the operator loses all of it. Each field documents why it is kept and what a restart costs.
#[derive(Clone, Default)]
pub struct Kept {
    /// The last desired state with its inputs.
    ///
    /// Kept because resolving all releases takes milliseconds, and because helm may be installing releases with
    /// credentials that no record contains yet. A restart resolves again; it also ends those helm processes.
    pub resolved: Option<Arc<Resolved>>,
    /// The parsed certificates, with the digests of their Secrets.
    ///
    /// Kept because parsing is expensive. A restart parses them again.
    pub(crate) certificates: Arc<Certificates>,
    /// The comparisons of foreign revisions with the desired state.
    ///
    /// Kept because each comparison reads a release record. A restart reads the records again.
    pub(crate) comparisons: BTreeMap<ReleaseKey, ManifestComparison>,
    /// The value paths that changes waiting for approval would change.
    ///
    /// Kept because they come from release records. A restart reads the records again.
    pub changes: BTreeMap<ReleaseKey, Changes>,
    /// The names and versions of our Secrets that match the credentials that releases run with.
    ///
    /// Kept because the comparison reads release records. A restart compares again.
    pub(crate) verified: BTreeSet<(String, String)>,
    /// The desired Services at the last cleanup of Services with our label.
    ///
    /// Kept so that they are listed only after a change. A restart lists them again.
    pub(crate) services: Option<BTreeSet<ReleaseKey>>,
    /// The desired Ceph objects at the last cleanup of those with our label.
    ///
    /// Kept so that the cleanup runs only after a change. A restart cleans up again.
    pub(crate) ceph: Option<Vec<String>>,
    /// The results of lookups of external hosts, by service.
    ///
    /// Kept so that a failing name server withdraws no addresses and warnings do not alternate. A restart starts the
    /// observation anew and takes the addresses from the Endpoints.
    pub(crate) lookups: BTreeMap<String, Lookup>,
    /// The new Nova hosts for which a Job was started.
    ///
    /// Kept so that one Job is started per attempt. A restart finds the Job by its name.
    pub mapping: Option<Mapping>,
    /// The rollouts as last written to the status.
    ///
    /// Kept because the watch may still have an older status. A restart reads them from the status.
    pub rollouts: Option<Rollouts>,
    /// The uids of evicted pods that are still listed.
    ///
    /// Kept so that a pod is evicted once. A restart may evict such a pod again, which has no effect.
    pub evicted: BTreeSet<String>,
    /// The update strategies that were set and that the watch does not report yet.
    ///
    /// Kept so that each is set once. A restart sets them again.
    pub strategies: BTreeSet<Strategy>,
    /// The update strategies that could not be set because another field manager owns the field.
    ///
    /// Kept so that osdpl does not try in each pass. A restart tries once more.
    pub refused_strategies: BTreeSet<Strategy>,
    /// The requested repairs that were started, until the annotation no longer names them.
    ///
    /// Kept so that each is done once. A restart repairs once more.
    pub repairing: BTreeSet<String>,
    /// The writes that the API server refused, by [`Action::id`](super::Action::id).
    ///
    /// Kept for the backoff and the message. A restart retries at once.
    pub refused: BTreeMap<String, Refusal>,
}

/// A desired state with the inputs that it was resolved from.
pub struct Resolved {
    /// The spec.
    pub(crate) spec: OpenStackDeploymentSpec,
    /// The catalogue.
    pub(crate) catalog: Arc<Catalog>,
    /// The facts.
    pub(crate) facts: Facts,
    /// The desired state.
    pub(crate) desired: Arc<Desired>,
}

/// The value paths that a change waiting for approval would change.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The revision that runs.
    pub(crate) revision: i64,
    /// The digest of the desired inputs.
    pub(crate) inputs: String,
    /// The paths; or why they are unknown, and when to retry.
    pub(crate) paths: Result<Vec<String>, (String, Timestamp)>,
}

/// The results of lookups of an external host.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// The external service that names the host.
    pub(crate) external: ExternalService,
    /// The addresses of the last successful lookup.
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether lookups fail; `None` for a host that never had an address.
    pub(crate) fails: Option<Damped<bool>>,
    /// The problem of a host that never had an address.
    pub(crate) problem: Option<Damped<String>>,
}

/// A write that the API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of refusals in a row.
    pub count: u32,
    /// The message of the API server. It stays the same for a while, because each new message is an event and a status.
    pub message: String,
    /// The time of the first refusal with this message.
    pub since: Timestamp,
    /// The time of the next attempt.
    pub until: Timestamp,
}

impl Refusal {
    /// Returns the refusal after one more, with the next attempt after `delay`.
    pub fn repeated(before: Option<&Self>, message: String, now: Timestamp, delay: SignedDuration) -> Self {
        let until = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        let count = before.map_or(0, |before| before.count) + 1;
        match before.filter(|before| now.duration_since(before.since) < MESSAGE_LIFETIME) {
            Some(before) => Self { count, until, ..before.clone() },
            None => Self { count, message, since: now, until },
        }
    }
}
