//! Defines the data that the operator keeps in memory from one decision to the next. The data is expensive to compute,
//! or stored nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::certificates::Certificates;
use super::lookups::Damped;
use super::selection::Selected;
use osdpl_core::api::{LabelRemovalStatus, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Desired, ExternalService, Facts};
use osdpl_core::observed::{ManifestComparison, ReleaseKey};
use osdpl_core::openstack::Mapping;
use osdpl_core::rollout::{Rollouts, Strategy};

/// The time for which osdpl reports the API server's first message about a refused write, although each retry may get
/// another message.
///
/// The messages can differ, for example in the number of the request. Each time osdpl reports another message, it
/// creates an event and writes the status, which it must not do for every retry.
const MESSAGE_LIFETIME: SignedDuration = SignedDuration::from_mins(1);

/// The data of a decision that the operator keeps in memory for the next decision.
///
/// A restart of the operator loses this data. Each field documents why osdpl keeps it and what a restart costs. Some
/// fields, such as `selected` and `certificates`, are caches of results that the next decision could compute again:
/// osdpl keeps them because the computation would cost each pass milliseconds, or requests to the API server.
#[derive(Clone, Default)]
pub struct Kept {
    /// The services and releases that the spec selects, with the data from which osdpl selected them.
    ///
    /// Kept because osdpl evaluates many expressions of the catalogue to make a selection. After a restart, osdpl makes
    /// the selection again.
    pub(crate) selected: Option<Arc<Selected>>,
    /// The last desired state, with the data from which osdpl resolved it.
    ///
    /// Kept so that not every pass spends milliseconds on resolving all releases. Also kept because this field can
    /// contain credentials that no release record contains yet, while a helm process installs a release with them. A
    /// restart of the operator also ends this helm process, so osdpl can then safely resolve the releases again.
    pub resolved: Option<Arc<Resolved>>,
    /// The parsed certificates, with the digests of their Secrets.
    ///
    /// Kept because parsing is expensive. After a restart, osdpl parses the certificates again.
    pub(crate) certificates: Arc<Certificates>,
    /// The comparison of the newest revision with the desired state, for each release whose newest revision osdpl did
    /// not make.
    ///
    /// Kept because each comparison reads a release record. After a restart, osdpl reads the records again.
    pub(crate) comparisons: BTreeMap<ReleaseKey, ManifestComparison>,
    /// For each upgrade that waits for approval: the paths of the values that the upgrade would change.
    ///
    /// Kept because osdpl must read release records to find the paths. After a restart, osdpl reads the records again.
    pub changes: BTreeMap<ReleaseKey, Changes>,
    /// The unfinished removal of labels from nodes; `None` if there is none.
    ///
    /// Kept because the pause after a batch of nodes begins when osdpl removes the batch's labels, but the status shows
    /// the batch only later. After a restart, osdpl reads the state of the removal from the status.
    pub(crate) label_removal: Option<LabelRemovalStatus>,
    /// The Secrets of osdpl whose credentials equal those in the release records, each by its name and resource
    /// version.
    ///
    /// Kept because osdpl must read release records for the comparison. After a restart, osdpl compares the Secrets
    /// again.
    pub(crate) verified: BTreeSet<(String, String)>,
    /// The Kubernetes Services of external services that osdpl had to keep when it last searched for obsolete Services;
    /// `None` if the search found obsolete Services, so that osdpl searches again until it has deleted all of them.
    ///
    /// Kept so that osdpl searches again only when the set of Services that it must keep changes. After a restart,
    /// osdpl searches once.
    pub(crate) services: Option<BTreeSet<ReleaseKey>>,
    /// The names of the objects for Ceph that osdpl had to keep when it last searched for obsolete objects; `None` if
    /// the search found obsolete objects, so that osdpl searches again until it has deleted all of them.
    ///
    /// Kept so that osdpl searches again only when the set of objects that it must keep changes. After a restart, osdpl
    /// searches once.
    pub(crate) ceph: Option<Vec<String>>,
    /// The results of the DNS lookups of external hosts, by service.
    ///
    /// Kept so that osdpl continues to publish the last known addresses while the name server fails, and so that
    /// warnings do not come and go with single failures. After a restart, osdpl takes the addresses from the Endpoints.
    pub(crate) lookups: BTreeMap<String, Lookup>,
    /// The new Nova hosts for which osdpl started a Job that maps them to a cell.
    ///
    /// Kept to count the Jobs for the same hosts, because osdpl starts only a few. After a restart, osdpl counts from
    /// one again, and finds the first Job by its name.
    pub mapping: Option<Mapping>,
    /// The status of the rollouts, as osdpl last wrote it.
    ///
    /// Kept because the watch may still report an older status. After a restart, osdpl reads the rollouts from the
    /// status.
    pub rollouts: Option<Rollouts>,
    /// The uids of pods that osdpl has evicted, but that the watch still lists.
    ///
    /// Kept so that osdpl evicts each pod once. After a restart, osdpl can evict such a pod again, which has no effect.
    pub evicted: BTreeSet<String>,
    /// The update strategies of `DaemonSets` that osdpl set and that the watch does not report yet.
    ///
    /// Kept so that osdpl sets each strategy once. After a restart, osdpl sets the strategies again.
    pub strategies: BTreeSet<Strategy>,
    /// The update strategies of `DaemonSets` that osdpl could not set, because another field manager owns the field.
    ///
    /// Kept so that osdpl does not try again in each pass. After a restart, osdpl tries once more.
    pub refused_strategies: BTreeSet<Strategy>,
    /// The releases whose repair osdpl started, while the annotation `osdpl.dev/repair` still names them.
    ///
    /// Kept so that osdpl repairs a release only once, although the annotation names it in several passes. After a
    /// restart, osdpl repairs the release once more.
    pub repairing: BTreeSet<String>,
    /// The actions that failed, for example because the API server refused the write, by
    /// [`Action::id`](super::Action::id).
    ///
    /// Kept so that osdpl retries an action only after a delay, and reports the failure until then. After a restart,
    /// osdpl retries the action at once.
    pub refused: BTreeMap<String, Refusal>,
}

impl Kept {
    /// Drops all data that osdpl computed from the catalogue, so that a replaced catalogue does not stay in memory.
    pub fn forget_catalog(&mut self) {
        self.selected = None;
        self.resolved = None;
        self.changes.clear();
    }
}

/// A desired state, with the data from which osdpl resolved it.
pub struct Resolved {
    /// The spec that `desired` was resolved from.
    pub(crate) spec: OpenStackDeploymentSpec,
    /// The catalogue that `desired` was resolved from.
    pub(crate) catalog: Arc<Catalog>,
    /// The facts that `desired` was resolved from.
    pub(crate) facts: Facts,
    /// The desired state: the releases with their values and the components that they need.
    pub(crate) desired: Arc<Desired>,
}

/// The paths of the values that an upgrade would change; osdpl keeps them while the upgrade waits for approval.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The revision that the waiting upgrade would replace.
    pub(crate) revision: i64,
    /// The digest of the desired inputs, which the waiting upgrade would apply.
    pub(crate) inputs: String,
    /// The paths of the values that the upgrade would change. If osdpl could not find them: the reason, and the time
    /// when osdpl tries again.
    pub(crate) paths: Result<Vec<String>, (String, Timestamp)>,
}

/// The results of osdpl's DNS lookups of an external host.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// The external service whose host osdpl looks up.
    pub(crate) external: ExternalService,
    /// The addresses of the last successful lookup.
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether osdpl reports that lookups of the host fail; `None` for a host that never had an address.
    pub(crate) fails: Option<Damped<bool>>,
    /// Why osdpl knows no address of the host; `None` if it has ever known one.
    pub(crate) problem: Option<Damped<String>>,
}

/// An action that failed, usually because the API server refused the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of times in a row that the action has failed.
    pub count: u32,
    /// The message that osdpl reports. osdpl replaces it at most once a minute, because each new message causes an
    /// event and a write of the status.
    pub message: String,
    /// The time of the failure whose error is `message`.
    pub since: Timestamp,
    /// When osdpl may retry the action.
    pub until: Timestamp,
}

impl Refusal {
    /// Returns what osdpl stores after an action has failed. `before` is what osdpl stored after the last failure of
    /// the same action, if there is one. osdpl may retry the action after `delay`.
    pub(crate) fn repeated(before: Option<&Self>, message: String, now: Timestamp, delay: SignedDuration) -> Self {
        let until = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        let count = before.map_or(0, |before| before.count) + 1;
        match before.filter(|before| now.duration_since(before.since) < MESSAGE_LIFETIME) {
            Some(before) => Self { count, until, ..before.clone() },
            None => Self { count, message, since: now, until },
        }
    }
}
