//! The API server: every read that is not a watch, and every write that is not helm's. Shell room.

mod added;
mod adopt;
mod answer;
mod beforehand;
mod ceph;
mod crds;
mod credentials;
mod deployments;
mod ending;
mod evict;
mod external;
mod follow;
mod inputs;
mod maintenance;
mod nodes;
mod own;
mod records;
mod recover;
mod remove;
mod rook;
mod run;
mod site;
mod sweep;

use kube::api::{Api, PostParams};
use kube::runtime::events::{Recorder, Reporter};
pub use osdpl_decide::MANAGER;

pub use added::{addition, additions};
pub use beforehand::secrets_beforehand;
pub use evict::Evicted;
pub use inputs::Inputs;
pub use nodes::NODE_MANAGER;
pub use own::is_older;
pub use rook::RookWatch;
pub use run::Made;

/// What can go wrong between us and the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be reached.
    #[error("{what}: {}", explain(.error))]
    Api {
        /// What was tried, on which object.
        what: String,
        /// The client's error.
        error: Box<kube::Error>,
    },
    /// An object is not what it should be.
    #[error("{0}")]
    Object(String),
}

impl Error {
    /// Whether the object was changed meanwhile: what is to be done is looked at anew.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { error, .. } if matches!(&**error, kube::Error::Api(status) if status.is_conflict()))
    }
}

/// The API server's own words where there are some; with the remedy for the one mistake that is ours to make: missing permissions.
fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.is_forbidden() && !ends(status) => {
            format!("{} (grant it with rbac.extraRules of the operator's chart)", status.message)
        }
        kube::Error::Api(status) => status.message.clone(),
        other => format!("the API server does not answer: {other}"),
    }
}

/// Whether the API server refuses new objects because their namespace is being deleted, which no permission helps against.
fn ends(status: &kube::core::Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

trait Explain<T> {
    fn because(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Explain<T> for Result<T, kube::Error> {
    fn because(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Api { what: what(), error: Box::new(error) })
    }
}

/// Reads from the API server. It has no methods that write.
#[derive(Clone)]
pub struct Reader {
    client: kube::Client,
}

impl Reader {
    /// Reads through this client.
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// The client, for watches.
    pub(crate) fn client(&self) -> &kube::Client {
        &self.client
    }
}

/// Writes to the API server, and reads from it.
#[derive(Clone)]
pub struct Cluster {
    reader: Reader,
    /// Asks once: a refusal is an answer.
    asks_once: kube::Client,
    recorder: Recorder,
}

impl std::ops::Deref for Cluster {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl Cluster {
    /// Writes through this client.
    pub fn new(client: kube::Client) -> Self {
        let reporter = Reporter { controller: MANAGER.into(), instance: std::env::var("POD_NAME").ok() };
        let (recorder, asks_once) = (Recorder::new(client.clone(), reporter), client.clone());
        Self { reader: Reader::new(client), asks_once, recorder }
    }

    /// The same, with a client for evictions that takes "too many requests" for an answer: kube's own repeats what was refused so for minutes.
    #[must_use]
    pub fn asking_once(self, client: kube::Client) -> Self {
        Self { asks_once: client, ..self }
    }

    /// The part that only reads.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Creates a namespace where it is missing.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn ensure_namespace(&self, name: &str) -> Result<(), Error> {
        use k8s_openapi::api::core::v1::Namespace;
        let api: Api<Namespace> = Api::all(self.client.clone());
        if api.get_opt(name).await.because(|| format!("reading namespace {name}"))?.is_some() {
            return Ok(());
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        match api.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            other => other.map(drop).because(|| format!("creating namespace {name}")),
        }
    }
}
