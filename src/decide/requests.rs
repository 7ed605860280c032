//! Requests: what the next snapshot must contain, as the plan that needs it says.
//!
//! A plan names everything that it needs, also what it has already. The reader keeps watches and answers exactly as long as the newest plan
//! requests them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Secret, Service};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use osdpl_core::api::ValuesKind;
use osdpl_core::endpoint::Target;
use osdpl_core::maintenance::Setting;
use osdpl_core::observed::{DaemonSetGroup, Range, ReleaseKey};
use osdpl_core::openstack::HostQuery;
use osdpl_core::release::RevisionSource;
use osdpl_values::Values;

/// How long an answer counts that no watch corrects.
pub const FRESH: SignedDuration = SignedDuration::from_secs(15);

/// How long a failed read counts of what never changes by itself.
const FAILED: SignedDuration = SignedDuration::from_secs(30);

/// An object that the spec names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Its kind.
    pub kind: ValuesKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Reference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A chart that a release is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChartRequest {
    /// The chart's name.
    pub name: String,
    /// The version, where one is named; else the lock's.
    pub version: Option<String>,
    /// The repository, where it is not the operator's own.
    pub repository: Option<String>,
}

/// Everything that a plan needs to be made again.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Objects that the spec names: each is watched.
    pub objects: BTreeSet<Reference>,
    /// Objects of others in place of ours: each is watched.
    pub occupants: BTreeSet<Reference>,
    /// The namespace of Rook, and the kinds whose objects are kept.
    pub rook: Option<(String, Vec<&'static str>)>,
    /// One-off reads.
    pub reads: BTreeSet<Read>,
    /// The chart of each release.
    pub charts: BTreeMap<String, ChartRequest>,
    /// What the tasks watch; `None` leaves them as they are.
    pub watches: Option<Watches>,
    /// What is asked of Nova about its hosts.
    pub hosts: Option<HostQuery>,
    /// What the cloud means for nodes in maintenance; `None` leaves it as it is.
    pub setting: Option<Setting>,
}

/// What the tasks beside the passes watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watches {
    /// The releases whose objects are watched for drift.
    pub drift: BTreeSet<ReleaseKey>,
    /// The APIs that are probed; `None` leaves them as they are.
    pub endpoints: Option<BTreeMap<ReleaseKey, Target>>,
    /// The daemons whose pods are watched.
    pub daemons: BTreeSet<DaemonSetGroup>,
}

/// A read of one thing that no watch covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// The values in helm's record of a revision.
    Values {
        /// The release.
        release: ReleaseKey,
        /// The revision.
        revision: i64,
        /// Whether the plan can't be made without.
        required: bool,
    },
    /// What a revision was made from, and where asked for, who else drives the release.
    Source {
        /// The release.
        release: ReleaseKey,
        /// The revision.
        revision: i64,
        /// Whether its owner matters.
        owner: bool,
    },
    /// The object that has the name of one of ours and not our label.
    Stored(Reference),
    /// A Service and its Endpoints.
    Service(ReleaseKey),
    /// The addresses of a host.
    Addresses(String, u16),
    /// An object that Rook is asked for: kind, namespace, name.
    Rook(&'static str, ReleaseKey),
    /// The networks of Services, for this generation of the spec.
    ServiceNetworks(i64),
    /// The Services with our label.
    OwnServices,
    /// The object stores with our label.
    OwnStores,
    /// Whether a node exists.
    Node(String),
    /// The Jobs that helm left of a release.
    Jobs(ReleaseKey),
    /// The volume claims of a release.
    Claims(ReleaseKey),
}

/// What came of a read. It may hold secrets, and does not show itself.
#[derive(Clone)]
pub enum Answer {
    /// See [`Read::Values`]; an error says why they can't be read.
    Values(Result<Arc<Values>, String>),
    /// See [`Read::Source`]; an error says why it can't be read.
    Source(Result<Arc<Recorded>, String>),
    /// See [`Read::Stored`].
    Stored(Stored),
    /// See [`Read::Service`]; an error says why it can't be read.
    Service(Result<Box<Published>, String>),
    /// See [`Read::Addresses`]; an error says what is wrong with the host.
    Addresses(Result<Vec<IpAddr>, String>),
    /// See [`Read::Rook`]; an error says why it can't be read.
    Rook(Result<Option<Arc<Value>>, String>),
    /// See [`Read::ServiceNetworks`]; an error says why they can't be read.
    Networks(Result<Vec<Range>, String>),
    /// Namespaces and names, with the uid where it matters.
    Objects(Vec<(ReleaseKey, Option<String>)>),
    /// See [`Read::Node`].
    Node(bool),
}

/// What a revision that someone else made holds.
pub struct Recorded {
    /// What it was made from.
    pub source: RevisionSource,
    /// Who else drives the release, where that was asked for.
    pub owner: Option<String>,
}

/// An object in place of one of ours.
#[derive(Clone, Debug)]
pub enum Stored {
    /// There is none.
    Nothing,
    /// A Secret.
    Secret(Box<Secret>),
    /// A `ConfigMap`.
    Map(Box<ConfigMap>),
}

/// A Service and its Endpoints as they are stored.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The Service.
    pub service: Option<Service>,
    /// Its Endpoints.
    pub endpoints: Option<Endpoints>,
}

/// An answer with its time.
#[derive(Clone)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// When it was read.
    pub at: Timestamp,
    /// Whether it was read for this very snapshot.
    pub fresh: bool,
}

/// The answers to the reads that the last plan requested.
pub type Answers = BTreeMap<Read, Answered>;

impl Answered {
    /// When it has to be read again; `None` where it never changes, or a watch tells.
    pub fn until(&self) -> Option<Timestamp> {
        let lasts = match &self.answer {
            Answer::Networks(Err(_)) | Answer::Values(Err(_)) => FAILED,
            Answer::Stored(_) | Answer::Service(_) | Answer::Addresses(_) | Answer::Rook(_) | Answer::Node(_) => FRESH,
            Answer::Values(Ok(_)) | Answer::Source(_) | Answer::Networks(Ok(_)) | Answer::Objects(_) => return None,
        };
        self.at.checked_add(lasts).ok()
    }
}
