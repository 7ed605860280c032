//! Defines the requests of a plan for data, and the responses in the next snapshot.
//!
//! A plan requests all data that it needs, even if the snapshot already contains the data. The operator ends a watch
//! and drops a response when the newest plan no longer requests it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::core::ApiResource;
use serde_json::Value;

use osdpl_core::api::ValuesKind;
use osdpl_core::desired::Desired;
use osdpl_core::endpoint::Target;
use osdpl_core::maintenance::CloudSettings;
use osdpl_core::observed::{DaemonSetGroup, Range, ReleaseKey};
use osdpl_core::openstack::{Access, HostQuery};
use osdpl_core::release::{Cleanup, RevisionSource};
use osdpl_values::Values;

/// The time for which osdpl uses a response before it repeats the read, if no watch reports changes of the data.
pub(crate) const FRESH: SignedDuration = SignedDuration::from_secs(15);

/// The delay before osdpl repeats a failed read.
///
/// The delay applies to these reads:
///
/// * Reads of CRDs, in the cluster or in templates. A release waits until the read succeeds.
/// * Reads of the values in records and of the networks of Services. osdpl repeats such a read only after a failure.
const FAILED: SignedDuration = SignedDuration::from_secs(30);

/// The delay before osdpl renders a chart again that helm has not rendered in time.
///
/// The delay is long because a pass waits for each render. A change of the values or of the chart does not wait for the
/// end of the delay, because it results in another [`Read`].
const SLOW_RENDER: SignedDuration = SignedDuration::from_mins(3);

/// A reference to a Secret or `ConfigMap`, such as an object that the spec names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The kind of the object: `Secret` or `ConfigMap`.
    pub kind: ValuesKind,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
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

/// The chart that osdpl requests for a release: its name, version, repository and digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChartRequest {
    /// The name of the chart.
    pub name: String,
    /// The version of the chart; `None` requests the version in the operator's chart lock.
    pub version: Option<String>,
    /// The repository of the chart; `None` requests the chart from the folder or repository that the operator's option
    /// `--charts` names, or from the repository in the operator's chart lock.
    pub repository: Option<String>,
    /// The only accepted digest of the chart. With `None`, osdpl accepts the digest in the operator's chart lock, or
    /// any digest if the lock has none.
    pub digest: Option<ExpectedDigest>,
}

/// The only accepted digest of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExpectedDigest {
    /// The digest, such as `sha256:…`.
    pub digest: String,
    /// The source of the digest.
    pub source: DigestSource,
}

/// The source of the digest that osdpl requires of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DigestSource {
    /// The field `digest` of the release in the spec. It takes precedence over the digest in the operator's chart lock.
    Spec,
    /// The lock that an addition to the catalogue contains.
    Addition,
    /// The status, which contains the digest that the chart had at the first pull.
    Status,
}

impl ChartRequest {
    /// Creates the request for a chart with the version in the operator's chart lock. The operator fetches the chart
    /// from the folder or repository that its option `--charts` names, or from the repository in the lock.
    pub fn locked(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Whether the operator need not fetch the chart again, because the earlier request `before` asked for the same
    /// chart.
    ///
    /// `ready` is the digest of the chart that the operator fetched for `before`; `None` if it has not fetched the
    /// chart.
    pub fn is_answered_by(&self, before: &Self, ready: Option<&str>) -> bool {
        let is_same_chart = Self { digest: None, ..self.clone() } == Self { digest: None, ..before.clone() };
        let is_accepted = |ready| self.digest.as_ref().is_none_or(|expected| expected.digest == ready);
        self == before || is_same_chart && ready.is_some_and(is_accepted)
    }
}

/// The data that a plan needs in the next snapshot.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// The namespaces in which the cloud may have releases and objects. The operator reads osdpl's own objects and the
    /// content of release records only in these namespaces. In other namespaces, it reads only the metadata of records.
    pub namespaces: BTreeSet<String>,
    /// The objects that the spec names, and that the operator therefore watches.
    pub objects: BTreeSet<Reference>,
    /// References to objects without osdpl's label that osdpl uses as they are, because they already contain the data
    /// that it would write. The operator watches these objects, because their data can change.
    pub foreign: BTreeSet<Reference>,
    /// The namespace of Rook, and the kinds of objects that the operator watches there.
    pub rook: Option<(String, Vec<&'static str>)>,
    /// The one-off reads of data that no watch reports.
    pub reads: BTreeSet<Read>,
    /// The requested chart of each release, by the release's name in the catalogue.
    pub charts: BTreeMap<String, ChartRequest>,
    /// The objects and APIs that the background tasks of the operator must watch and probe; with `None`, the tasks keep
    /// what the last plan requested.
    pub watches: Option<Watches>,
    /// The query that lists the compute hosts in Nova; `None` if the operator need not send the query.
    pub hosts: Option<HostQuery>,
    /// The URL and credentials with which the operator asks Nova whether the cloud has instances; `None` if the
    /// operator need not ask.
    pub instances: Option<Access>,
    /// The desired state from which the operator takes the releases whose charts it renders for
    /// [`Read::RenderedCrds`]; `None` if the plan requests no such read.
    pub desired: Option<Arc<Desired>>,
    /// The settings of the cloud that the maintenance of nodes uses; `None` keeps the settings of the last plan.
    pub setting: Option<CloudSettings>,
}

/// The objects and APIs that the background tasks of the operator must watch and probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watches {
    /// The releases whose objects the operator watches for drift.
    pub drift: BTreeSet<ReleaseKey>,
    /// The APIs to probe, by release; `None` keeps the probes of the last plan.
    pub endpoints: Option<BTreeMap<ReleaseKey, Target>>,
    /// The `DaemonSets` whose pods the operator watches for a rollout.
    pub daemons: BTreeSet<DaemonSetGroup>,
}

/// A one-off read of data that no watch reports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// Reads the values in the record of a revision.
    Values {
        /// The release to which the record belongs.
        release: ReleaseKey,
        /// The revision of the record.
        revision: i64,
        /// Whether the pass fails if the operator can't read the record. If false, the response contains the error.
        required: bool,
    },
    /// Reads the chart and values of a revision that osdpl did not make.
    Source {
        /// The release to which the revision belongs.
        release: ReleaseKey,
        /// The revision to read.
        revision: i64,
        /// Whether the operator also checks if another tool manages the release.
        owner: bool,
    },
    /// Reads a Secret or `ConfigMap` that no watch reports, for example because it lacks osdpl's label.
    Stored(Reference),
    /// Reads the Service of an external service, and the Endpoints of this Service.
    Service(ReleaseKey),
    /// Looks up the addresses of an external host, given as a host name or address and a port.
    Addresses(String, u16),
    /// Reads an object of Rook, such as a pool, by kind, namespace and name.
    Rook(&'static str, ReleaseKey),
    /// Reads the networks of the cluster's Services. The number is the generation of the spec, because osdpl reads the
    /// networks once per generation.
    ServiceNetworks(i64),
    /// Reads a CRD, by name.
    Crd(String),
    /// Lists the CRDs left behind by uninstalled releases that had the same name as the given release, in whatever
    /// namespace.
    AbandonedCrds(ReleaseKey),
    /// Renders the chart of a release in [`Requests::desired`], and returns the CRDs among the rendered objects.
    RenderedCrds {
        /// The release's name in the catalogue.
        release: String,
        /// The digest of the release's inputs, which include the chart and the values.
        inputs: String,
        /// Whether helm renders the chart for an upgrade, not for an install.
        is_upgrade: bool,
    },
    /// Lists the Services with osdpl's label.
    OwnServices,
    /// Lists the `CephObjectStores` with osdpl's label.
    OwnStores,
    /// Checks whether the cluster has a node with this name.
    Node(String),
    /// Lists the Jobs that helm left behind after the uninstall of a release.
    Jobs(ReleaseKey),
    /// Lists the volume claims of a release.
    Claims(ReleaseKey),
    /// Lists the objects that a cleanup of a release must delete. The read decodes release records, so a plan requests
    /// it only if a cleanup is due.
    Leftovers {
        /// The namespace and name of the release.
        release: ReleaseKey,
        /// The revisions that may have left objects behind, and the revisions whose objects osdpl keeps.
        cleanup: Cleanup,
        /// The newest and deployed revisions of other releases. A cleanup must keep their objects, so the response
        /// omits these objects.
        others: Vec<(ReleaseKey, u32)>,
    },
}

/// The response to a read.
///
/// A response may contain secrets, so the type does not implement `Debug`.
#[derive(Clone)]
pub enum Response {
    /// The response to [`Read::Values`]: the values, or why the record can't be read.
    Values(Result<Arc<Values>, String>),
    /// The response to [`Read::Source`]: the chart and values, or why the record can't be read.
    Source(Result<Arc<Recorded>, String>),
    /// The response to [`Read::Stored`]: the object, if it exists.
    Stored(Stored),
    /// The response to [`Read::Service`]: the Service and its Endpoints, or why the operator can't read them.
    Service(Result<Box<Published>, String>),
    /// The response to [`Read::Addresses`]: the addresses, or why the lookup found none.
    Addresses(Result<Vec<IpAddr>, String>),
    /// The response to [`Read::Rook`]: the object of Rook if it exists, or why the operator can't read it.
    Rook(Result<Option<Arc<Value>>, String>),
    /// The response to [`Read::ServiceNetworks`]: the networks, or why the operator can't read them.
    Networks(Result<Vec<Range>, String>),
    /// The response to [`Read::Crd`]: the CRD if it exists, or why the operator can't read it.
    Crd(Result<Option<Arc<CustomResourceDefinition>>, String>),
    /// The response to [`Read::AbandonedCrds`]: the CRDs, or why the operator can't list CRDs.
    AbandonedCrds(Result<Vec<AbandonedCrd>, String>),
    /// The response to [`Read::RenderedCrds`]: the CRDs, or why the operator can't render the chart.
    RenderedCrds(Crds),
    /// The response to [`Read::RenderedCrds`] if helm did not render the chart in time: the message for the user.
    SlowRender(String),
    /// The response to [`Read::RenderedCrds`] if the operator has not rendered the chart yet, because other reads took
    /// the time of the pass.
    PostponedRender,
    /// The response to [`Read::OwnServices`], [`Read::OwnStores`], [`Read::Jobs`] or [`Read::Claims`]: the namespace
    /// and name of each object, and its uid.
    Objects(Vec<(ReleaseKey, String)>),
    /// The response to [`Read::Node`]: whether the node exists.
    Node(bool),
    /// The response to [`Read::Leftovers`]: the objects, or why the operator can't determine them. `Ok(None)` means
    /// that the cleanup is outdated, because helm has made a newer revision since osdpl decided about the cleanup.
    Leftovers(Result<Option<Vec<Leftover>>, String>),
}

/// The content of a revision that osdpl did not make, and the tool that manages the release.
pub struct Recorded {
    /// The chart and values of the revision.
    pub source: RevisionSource,
    /// The message that another controller manages the release, with the remedy; `None` if the read found no such
    /// controller, or did not look for one.
    pub owner: Option<String>,
}

/// The object that a [`Read::Stored`] found in the cluster.
#[derive(Clone, Debug)]
pub enum Stored {
    /// No object of this kind and name exists.
    Nothing,
    /// The object is a Secret.
    Secret(Box<Secret>),
    /// The object is a `ConfigMap`.
    Map(Box<ConfigMap>),
}

/// The Kubernetes Service of an external service, and the Endpoints of this Service, as stored in the cluster.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The Service; `None` if it does not exist.
    pub service: Option<Service>,
    /// The Endpoints of the Service; `None` if they do not exist.
    pub endpoints: Option<Endpoints>,
}

/// The CRDs of a chart, or why osdpl can't decode them.
pub type Crds = Result<Arc<[CustomResourceDefinition]>, String>;

/// A CRD that an uninstalled release left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedCrd {
    /// The name of the CRD.
    pub name: String,
    /// The resource version of the CRD at the time of the read.
    pub resource_version: Option<String>,
    /// The uninstalled release that left the CRD behind.
    pub owner: ReleaseKey,
}

/// An object in the cluster that helm created for a failed revision, and that a cleanup must delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The API group, version, kind and plural name of the object's kind.
    pub resource: ApiResource,
    /// The namespace of the object; `None` if the object is cluster-scoped.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The uid of the object. osdpl does not delete a newer object of the same name, because that object has another
    /// uid.
    pub uid: String,
    /// The resource version of the object at the time of the read. osdpl does not delete the object if someone has
    /// changed it since, for example to keep it.
    pub resource_version: Option<String>,
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = &self.resource.kind;
        match &self.namespace {
            Some(namespace) => write!(formatter, "{kind} {namespace}/{}", self.name),
            None => write!(formatter, "{kind} {}", self.name),
        }
    }
}

/// The response to a read, with the time of the read.
#[derive(Clone)]
pub struct Received {
    /// The response to the read.
    pub response: Response,
    /// When the operator executed the read.
    pub at: Timestamp,
    /// Whether the operator executed the read for this snapshot; if false, the response is from an earlier snapshot.
    pub fresh: bool,
}

/// The responses to the reads that the last plan requested.
pub type Responses = BTreeMap<Read, Received>;

impl Received {
    /// Returns the time at which the operator must repeat the read; `None` if the response stays valid as long as plans
    /// request the read.
    pub fn until(&self) -> Option<Timestamp> {
        let lifetime = match &self.response {
            Response::Networks(Err(_))
            | Response::Values(Err(_))
            | Response::Crd(Err(_))
            | Response::AbandonedCrds(Err(_))
            | Response::RenderedCrds(Err(_))
            | Response::PostponedRender => FAILED,
            Response::SlowRender(_) => SLOW_RENDER,
            Response::Stored(_)
            | Response::Service(_)
            | Response::Addresses(_)
            | Response::Rook(_)
            | Response::Crd(Ok(_))
            | Response::AbandonedCrds(Ok(_))
            | Response::Node(_)
            | Response::Leftovers(_) => FRESH,
            Response::Values(Ok(_))
            | Response::Source(_)
            | Response::Networks(Ok(_))
            | Response::RenderedCrds(Ok(_))
            | Response::Objects(_) => return None,
        };
        self.at.checked_add(lifetime).ok()
    }
}
