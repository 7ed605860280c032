//! What one decision leaves for the next: only what cannot be read back, and what is cheaper not to compute again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::certificates::Certificates;
use super::steady::Steady;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Desired, ExternalService, Facts};
use osdpl_core::observed::{ManifestComparison, ReleaseKey};
use osdpl_core::openstack::Mapping;
use osdpl_core::rollout::{Rollouts, Strategy};

/// The memory of decisions. All of it can be lost: the documentation of each field says at what price.
#[derive(Clone, Default)]
pub struct Kept {
    /// The last desired state with its inputs. Resolving all releases takes milliseconds; helm may also be installing releases with credentials that
    /// no record holds yet. A restart resolves again, and ends helm with the operator.
    pub resolved: Option<Arc<Resolved>>,
    /// The certificates that were parsed, by the digest of their Secrets. A restart parses them again.
    pub certificates: Arc<Certificates>,
    /// How revisions of others compare with the desired state. A restart reads their records again.
    pub comparisons: BTreeMap<ReleaseKey, ManifestComparison>,
    /// The paths of values that changes which wait for approval would change. A restart reads the records again.
    pub changes: BTreeMap<ReleaseKey, Changes>,
    /// The versions of our Secrets, by name, that were compared with what releases run with. A restart compares again.
    pub verified: BTreeSet<(String, String)>,
    /// The Services that were wanted when those with our label were last listed. A restart lists them again.
    pub services: Option<BTreeSet<ReleaseKey>>,
    /// The objects of Ceph that were wanted when those with our label were last cleaned up. A restart cleans up again.
    pub ceph: Option<Vec<String>>,
    /// How lookups of external hosts went. A restart starts counting anew and takes the addresses from the Endpoints.
    pub lookups: BTreeMap<String, Lookup>,
    /// New hosts of Nova for which a Job was started. A restart finds the Job by its name.
    pub mapping: Option<Mapping>,
    /// What the last status says of rollouts: the watch may be older. A restart reads it from the status.
    pub rollouts: Option<Rollouts>,
    /// The uids of pods that were evicted and are still listed. A restart may evict such a pod again, which changes nothing.
    pub evicted: BTreeSet<String>,
    /// Update strategies that were set and are not seen yet. A restart sets them again.
    pub strategies: BTreeSet<Strategy>,
    /// Update strategies that another field manager holds. A restart tries once more.
    pub unguarded: BTreeSet<Strategy>,
    /// Repairs that a person asked for and that began, until the annotation no longer names them. A restart repairs once more.
    pub repairing: BTreeSet<String>,
    /// Writes that the API server refused. A restart tries them at once.
    pub refused: BTreeMap<String, Refusal>,
}

/// A desired state and what it was made from.
pub struct Resolved {
    /// The spec.
    pub spec: OpenStackDeploymentSpec,
    /// The catalogue.
    pub catalog: Arc<Catalog>,
    /// The facts.
    pub facts: Facts,
    /// The result.
    pub desired: Arc<Desired>,
}

/// What a change that waits for approval would change.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The revision that runs.
    pub revision: i64,
    /// The inputs that are desired.
    pub inputs: String,
    /// The paths; or why they are not known, until then.
    pub paths: Result<Vec<String>, (String, Timestamp)>,
}

/// How lookups of an external host went.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The service that the host is for.
    pub external: ExternalService,
    /// The addresses that it had last.
    pub addresses: Vec<IpAddr>,
    /// Whether lookups fail, since it had any.
    pub fails: Option<Steady<bool>>,
    /// What is wrong with a host that never had any.
    pub problem: Option<Steady<String>>,
}

/// A write that the API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// How often in a row.
    pub count: u32,
    /// The API server's words. They stay the same for a while: each new text is an event, and a status.
    pub message: String,
    /// When that text was taken.
    pub since: Timestamp,
    /// When it is tried again.
    pub until: Timestamp,
}
