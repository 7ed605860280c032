//! Sends the operator's requests to the API server, except for the reads of the module `tasks`, and the requests for
//! the Lease and for `NodeMaintenance` resources. helm also sends its own requests.
//!
//! ```text
//! Reader         reads: objects that a plan requests to read once, helm's release records
//! Cluster        writes: the OpenStackDeployment, osdpl's objects, release records, CRDs, nodes, Rook's objects
//! ObjectWatches  watches: the objects that a spec names, osdpl's own objects, namespaces, Rook's objects
//! ```

mod additions;
mod adopt;
mod capabilities;
mod cleanup;
mod crds;
mod deployments;
mod evict;
mod external;
mod namespaces;
mod nodes;
mod object_watches;
mod objects;
mod owned;
mod reads;
mod records;
mod recover;
mod rook;
mod stored_secrets;
#[cfg(test)]
mod testing;
mod watch;

use std::sync::Arc;

use kube::Api;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::{Controller, watcher};
use osdpl_client::{ErrorContext, Scope, Stored};
use osdpl_core::api::{MANAGER, OpenStackDeployment};
use tokio::sync::Notify;

pub(crate) use osdpl_client::{Error, api_message};

pub(crate) use evict::EvictionResult;
pub(crate) use namespaces::Namespaces;
pub(crate) use object_watches::ObjectWatches;
pub(crate) use objects::JobCreation;
pub(crate) use owned::is_older;
pub(crate) use records::NewestRecord;
pub use stored_secrets::stored_secrets;

/// A client of the API server that only reads.
#[derive(Clone)]
pub struct Reader {
    client: kube::Client,
    /// The namespaces in which the client has rights.
    scope: Scope,
}

impl Reader {
    /// Creates a reader that sends its requests through `client`.
    pub fn new(client: kube::Client) -> Self {
        Self { client, scope: Scope::All }
    }

    /// Returns the namespaces in which the client has rights.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns a reader that sends no requests to namespaces that are missing or being deleted.
    ///
    /// Kubernetes deletes a namespace together with the operator's `RoleBinding`s in it, so requests would fail. A
    /// reader with rights in the whole cluster needs no `RoleBinding`s, so it keeps its scope.
    pub(crate) fn limited_to(&self, namespaces: &Namespaces) -> Self {
        let scope = self.scope.filtered(|name| namespaces.is_usable(name));
        Self { client: self.client.clone(), scope }
    }

    /// Starts the watches on the objects that reconcile passes read. The watches notify `trigger` of every change.
    pub(crate) fn watch_inputs(&self, trigger: Arc<Notify>) -> ObjectWatches {
        ObjectWatches::new(self.client.clone(), &self.scope, trigger)
    }

    /// Creates a controller of all `OpenStackDeployment`s. The caller must run this controller.
    pub(crate) fn controller(&self) -> Controller<Stored<OpenStackDeployment>> {
        Controller::new(Api::all(self.client.clone()), watcher::Config::default())
    }
}

/// A client of the API server that reads and writes.
#[derive(Clone)]
pub struct Cluster {
    reader: Reader,
    /// The Kubernetes client for evictions; see [`Cluster::with_eviction_client`].
    eviction_client: kube::Client,
    recorder: Recorder,
}

impl std::ops::Deref for Cluster {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl Cluster {
    /// Creates a `Cluster` that sends its requests through kube's `client`. It also sends evictions through `client`,
    /// unless [`Self::with_eviction_client`] sets another Kubernetes client for evictions.
    pub fn new(client: kube::Client) -> Self {
        let reporter = Reporter { controller: MANAGER.into(), instance: std::env::var("POD_NAME").ok() };
        let (recorder, eviction_client) = (Recorder::new(client.clone(), reporter), client.clone());
        Self { reader: Reader::new(client), eviction_client, recorder }
    }

    /// Uses another Kubernetes client for evictions.
    ///
    /// The given client must not retry a request after the error "too many requests". The API server returns this error
    /// if a `PodDisruptionBudget` forbids an eviction, and kube's default client would retry for minutes.
    #[must_use]
    pub fn with_eviction_client(self, client: kube::Client) -> Self {
        Self { eviction_client: client, ..self }
    }

    /// Limits the requests for objects of namespaced kinds to the namespaces in `scope`.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.reader.scope = scope;
        self
    }

    /// Returns the part of this client that only reads.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }
}
