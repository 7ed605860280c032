//! Requests: the data that a plan needs in the next snapshot, and the responses.
//!
//! A plan requests everything that it needs, even if the snapshot already has it. The reader keeps watches and
//! responses exactly as long as the newest plan requests them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use osdpl_core::api::ValuesKind;
use osdpl_core::endpoint::Target;
use osdpl_core::maintenance::CloudSettings;
use osdpl_core::observed::{DaemonSetGroup, Range, ReleaseKey};
use osdpl_core::openstack::HostQuery;
use osdpl_core::release::RevisionSource;
use osdpl_values::Values;

/// How long a response is valid if no watch reports changes.
pub(crate) const FRESH: SignedDuration = SignedDuration::from_secs(15);

/// How long a failure is valid for reads whose failure delays a release or whose successful response never changes.
const FAILED: SignedDuration = SignedDuration::from_secs(30);

/// An object that the spec names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The kind.
    pub kind: ValuesKind,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Reference {
    /// Returns a reference to a Secret.
    pub(crate) fn secret(namespace: &str, name: &str) -> Self {
        Self { kind: ValuesKind::Secret, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The chart that a release is installed from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChartRequest {
    /// The name of the chart.
    pub name: String,
    /// The version; `None` for the one in the lock.
    pub version: Option<String>,
    /// The repository; `None` for the operator's own.
    pub repository: Option<String>,
}

/// The data that a plan needs in the next snapshot.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// The objects that the spec names. Each is watched.
    pub objects: BTreeSet<Reference>,
    /// The foreign objects that have the name of one of ours. Each is watched.
    pub foreign: BTreeSet<Reference>,
    /// The namespace of Rook, and the kinds to watch there.
    pub rook: Option<(String, Vec<&'static str>)>,
    /// The one-off reads.
    pub reads: BTreeSet<Read>,
    /// The chart of each release.
    pub charts: BTreeMap<String, ChartRequest>,
    /// The watches of the background tasks; `None` leaves them as they are.
    pub watches: Option<Watches>,
    /// The query about Nova's hosts.
    pub hosts: Option<HostQuery>,
    /// The cloud's settings for node maintenance; `None` leaves them as they are.
    pub setting: Option<CloudSettings>,
}

/// The watches of the background tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watches {
    /// The releases whose objects are watched for drift.
    pub drift: BTreeSet<ReleaseKey>,
    /// The APIs to probe; `None` leaves them as they are.
    pub endpoints: Option<BTreeMap<ReleaseKey, Target>>,
    /// The `DaemonSets` whose pods are watched.
    pub daemons: BTreeSet<DaemonSetGroup>,
}

/// A one-off read of data that no watch covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// Reads the values in the record of a revision.
    Values {
        /// The release.
        release: ReleaseKey,
        /// The revision.
        revision: i64,
        /// Whether the pass fails if the record can't be read.
        required: bool,
    },
    /// Reads the inputs of a revision, and optionally which other tool manages the release.
    Source {
        /// The release.
        release: ReleaseKey,
        /// The revision.
        revision: i64,
        /// Whether to look for another tool that manages the release.
        owner: bool,
    },
    /// Reads the object that has the name of one of ours but not our label.
    Stored(Reference),
    /// Reads a Service and its Endpoints.
    Service(ReleaseKey),
    /// Looks up the addresses of a host, for a port.
    Addresses(String, u16),
    /// Reads an object that Rook's operator acts on, by kind, namespace and name.
    Rook(&'static str, ReleaseKey),
    /// Reads the networks of Services, once per generation of the spec.
    ServiceNetworks(i64),
    /// Reads a CRD.
    Crd(String),
    /// Lists the CRDs of an uninstalled release of the same name in another namespace.
    AbandonedCrds(ReleaseKey),
    /// Lists the Services with our label.
    OwnServices,
    /// Lists the `CephObjectStores` with our label.
    OwnStores,
    /// Checks whether a node exists.
    Node(String),
    /// Lists the Jobs that helm left behind after the uninstall of a release.
    Jobs(ReleaseKey),
    /// Lists the volume claims of a release.
    Claims(ReleaseKey),
}

/// The response to a read.
///
/// It may contain secrets, and therefore has no `Debug`.
#[derive(Clone)]
pub enum Response {
    /// The response to [`Read::Values`]; an error contains the reason.
    Values(Result<Arc<Values>, String>),
    /// The response to [`Read::Source`]; an error contains the reason.
    Source(Result<Arc<Recorded>, String>),
    /// The response to [`Read::Stored`].
    Stored(Stored),
    /// The response to [`Read::Service`]; an error contains the reason.
    Service(Result<Box<Published>, String>),
    /// The response to [`Read::Addresses`]; an error contains the reason.
    Addresses(Result<Vec<IpAddr>, String>),
    /// The response to [`Read::Rook`]; an error contains the reason.
    Rook(Result<Option<Arc<Value>>, String>),
    /// The response to [`Read::ServiceNetworks`]; an error contains the reason.
    Networks(Result<Vec<Range>, String>),
    /// The response to [`Read::Crd`]; an error contains the reason.
    Crd(Result<Option<Arc<CustomResourceDefinition>>, String>),
    /// The response to [`Read::AbandonedCrds`]; an error contains the reason.
    AbandonedCrds(Result<Vec<AbandonedCrd>, String>),
    /// The response to a list: namespaces and names, with the uid if it is needed.
    Objects(Vec<(ReleaseKey, Option<String>)>),
    /// The response to [`Read::Node`].
    Node(bool),
}

/// The content of a foreign revision.
pub struct Recorded {
    /// The inputs of the revision.
    pub source: RevisionSource,
    /// The other tool that manages the release, if the read asked for it.
    pub owner: Option<String>,
}

/// An object that has the name of one of ours.
#[derive(Clone, Debug)]
pub enum Stored {
    /// No such object exists.
    Nothing,
    /// The object is a Secret.
    Secret(Box<Secret>),
    /// The object is a `ConfigMap`.
    Map(Box<ConfigMap>),
}

/// A Service and its Endpoints as stored in the cluster.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The Service.
    pub service: Option<Service>,
    /// The Endpoints of the Service.
    pub endpoints: Option<Endpoints>,
}

/// A CRD that an uninstalled release left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedCrd {
    /// The name of the CRD.
    pub name: String,
    /// The version of the CRD when it was read.
    pub resource_version: Option<String>,
    /// The uninstalled release.
    pub owner: ReleaseKey,
}

/// A response with its time.
#[derive(Clone)]
pub struct Received {
    /// The response.
    pub response: Response,
    /// The time of the read.
    pub at: Timestamp,
    /// Whether the read was made for this snapshot.
    pub fresh: bool,
}

/// The responses to the reads that the last plan requested.
pub type Responses = BTreeMap<Read, Received>;

impl Received {
    /// Returns until when the response is valid; `None` if it never changes or a watch reports changes.
    pub fn until(&self) -> Option<Timestamp> {
        let lifetime = match &self.response {
            Response::Networks(Err(_))
            | Response::Values(Err(_))
            | Response::Crd(Err(_))
            | Response::AbandonedCrds(Err(_)) => FAILED,
            Response::Stored(_)
            | Response::Service(_)
            | Response::Addresses(_)
            | Response::Rook(_)
            | Response::Crd(Ok(_))
            | Response::AbandonedCrds(Ok(_))
            | Response::Node(_) => FRESH,
            Response::Values(Ok(_)) | Response::Source(_) | Response::Networks(Ok(_)) | Response::Objects(_) => {
                return None;
            }
        };
        self.at.checked_add(lifetime).ok()
    }
}
