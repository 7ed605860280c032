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
use osdpl_client::Explain;
use osdpl_core::api::MANAGER;

pub(crate) use osdpl_client::Error;

pub use added::{addition, additions};
pub use beforehand::secrets_beforehand;
pub use evict::Evicted;
pub use inputs::Inputs;
pub use nodes::NODE_MANAGER;
pub use own::is_older;
pub use rook::RookWatch;
pub use run::Made;

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
