//! What one decision keeps in memory for the next: data that cannot be read back, or that is expensive to compute.

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

/// How long the message of a write that is refused again and again stays the same.
///
/// A message may contain the number of the request. Each new message costs an event and a write of the status.
const MESSAGE_LIFETIME: SignedDuration = SignedDuration::from_mins(1);

/// What one decision keeps in memory for the next.
///
/// A restart of the operator loses all of it. Each field documents why it is kept and what a restart costs.
#[derive(Clone, Default)]
pub struct Kept {
    /// The last desired state, with the inputs that it was resolved from.
    ///
    /// Kept because resolving all releases takes milliseconds, and because helm may be installing a release with
    /// credentials that no record contains yet. A restart resolves again, and ends those helm processes.
    pub resolved: Option<Arc<Resolved>>,
    /// The parsed certificates, with the digests of their Secrets.
    ///
    /// Kept because parsing is expensive. A restart parses them again.
    pub(crate) certificates: Arc<Certificates>,
    /// By release: how its newest revision, which osdpl did not make, compares with the desired state.
    ///
    /// Kept because each comparison reads a release record. A restart reads the records again.
    pub(crate) comparisons: BTreeMap<ReleaseKey, ManifestComparison>,
    /// The value paths that each upgrade waiting for approval would change.
    ///
    /// Kept because they come from release records. A restart reads the records again.
    pub changes: BTreeMap<ReleaseKey, Changes>,
    /// The names and resource versions of osdpl's Secrets that match the credentials that the releases run with.
    ///
    /// Kept because osdpl must read release records to compare the Secrets. A restart compares again.
    pub(crate) verified: BTreeSet<(String, String)>,
    /// The Services that external services needed when osdpl last found no obsolete Service of its own.
    ///
    /// Kept so that osdpl lists its Services, to find obsolete ones, only when other Services are needed. A restart
    /// lists them again.
    pub(crate) services: Option<BTreeSet<ReleaseKey>>,
    /// The names of the objects for Ceph that releases mounted when osdpl last found no obsolete object for Ceph.
    ///
    /// Kept so that osdpl looks for obsolete objects only when releases mount other objects. A restart looks again.
    pub(crate) ceph: Option<Vec<String>>,
    /// The results of the lookups of external hosts, by service.
    ///
    /// Kept so that osdpl continues to publish the last known addresses while the name server fails, and so that
    /// warnings do not come and go with single failures. A restart takes the addresses from the Endpoints.
    pub(crate) lookups: BTreeMap<String, Lookup>,
    /// The new Nova hosts for which osdpl started a Job that maps them to a cell.
    ///
    /// Kept so that osdpl starts one Job per attempt. A restart finds the Job by its name.
    pub mapping: Option<Mapping>,
    /// The rollouts as last written to the status.
    ///
    /// Kept because the watch may still report an older status. A restart reads them from the status.
    pub rollouts: Option<Rollouts>,
    /// The uids of evicted pods that the watch still lists.
    ///
    /// Kept so that osdpl evicts each pod once. A restart may evict such a pod again, which has no effect.
    pub evicted: BTreeSet<String>,
    /// The update strategies that osdpl set and that the watch does not report yet.
    ///
    /// Kept so that osdpl sets each strategy once. A restart sets them again.
    pub strategies: BTreeSet<Strategy>,
    /// The update strategies that could not be set because another field manager owns the field.
    ///
    /// Kept so that osdpl does not try to set them again in each pass. A restart tries once more.
    pub refused_strategies: BTreeSet<Strategy>,
    /// The repairs that osdpl started, until the annotation no longer names their releases.
    ///
    /// Kept so that osdpl repairs once per annotation. A restart repairs once more.
    pub repairing: BTreeSet<String>,
    /// The writes that the API server refused, by [`Action::id`](super::Action::id).
    ///
    /// Kept for the backoff and for the message. A restart retries at once.
    pub refused: BTreeMap<String, Refusal>,
}

/// A desired state with the inputs that it was resolved from.
pub struct Resolved {
    /// The spec that `desired` was resolved from.
    pub(crate) spec: OpenStackDeploymentSpec,
    /// The catalogue that `desired` was resolved from.
    pub(crate) catalog: Arc<Catalog>,
    /// The facts that `desired` was resolved from.
    pub(crate) facts: Facts,
    /// The desired state: the releases with their values and needs.
    pub(crate) desired: Arc<Desired>,
}

/// The value paths that an upgrade waiting for approval would change.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The revision that the upgrade would replace.
    pub(crate) revision: i64,
    /// The digest of the inputs that the upgrade would apply.
    pub(crate) inputs: String,
    /// The value paths; or why they are unknown, and when to read the record again.
    pub(crate) paths: Result<Vec<String>, (String, Timestamp)>,
}

/// The results of lookups of an external host.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// The external service that names the host.
    pub(crate) external: ExternalService,
    /// The addresses of the last successful lookup.
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether lookups of the host fail; `None` for a host that never had an address.
    pub(crate) fails: Option<Damped<bool>>,
    /// Why the host has no address, if it never had one.
    pub(crate) problem: Option<Damped<String>>,
}

/// A write that the API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of refusals in a row.
    pub count: u32,
    /// The message of the API server. It stays the same for a while, because each new message costs an event and a
    /// write of the status.
    pub message: String,
    /// When the API server first refused the write with this message.
    pub since: Timestamp,
    /// When the next attempt may start.
    pub until: Timestamp,
}

impl Refusal {
    /// Returns the refusal after the API server refused the write once more; the next attempt may start after `delay`.
    pub fn repeated(before: Option<&Self>, message: String, now: Timestamp, delay: SignedDuration) -> Self {
        let until = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        let count = before.map_or(0, |before| before.count) + 1;
        match before.filter(|before| now.duration_since(before.since) < MESSAGE_LIFETIME) {
            Some(before) => Self { count, until, ..before.clone() },
            None => Self { count, message, since: now, until },
        }
    }
}
