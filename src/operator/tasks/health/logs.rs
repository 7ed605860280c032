//! The last words of a failed container.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use tokio::sync::watch;

use super::said::{self, Heard, Subject};
use osdpl_core::health::pod::Failing;
use osdpl_core::scrub::Scrubber;

/// How many lines are kept.
const LINES: i64 = 5;

/// How many bytes of them are kept.
const BYTES: usize = 512;

/// How many bytes are fetched: more than are kept, because a secret must not be cut in two before it is looked for.
const FETCHED_BYTES: i64 = 16 * 1024;

/// How long the kubelet may take. Logs are an extra, and at the start the first picture waits for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// A log that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) failing: Failing,
}

/// A log that was fetched.
pub(super) struct Log {
    pub(super) uid: String,
    /// Scrubbed and short; `None` where there was none to be had.
    pub(super) text: Option<String>,
}

/// Where logs come from, and what must not stay in them.
#[derive(Clone)]
pub(super) struct Logs {
    client: Client,
    scrubber: watch::Receiver<Arc<Scrubber>>,
}

impl Logs {
    pub(super) fn new(client: Client, scrubber: watch::Receiver<Arc<Scrubber>>) -> Self {
        Self { client, scrubber }
    }

    /// Asks what controllers said of an object.
    pub(super) fn ask(&self, subject: Subject) -> impl Future<Output = Heard> + Send + use<> {
        said::ask(self.client.clone(), self.scrubber.clone(), subject)
    }

    /// Fetches a log; that it can't be had is no failure.
    pub(super) fn fetch(&self, wanted: Wanted) -> impl Future<Output = Log> + Send + use<> {
        let Self { client, scrubber } = self.clone();
        async move {
            let api = Api::<Pod>::namespaced(client, &wanted.namespace);
            let read = read(&api, &wanted.pod, &wanted.failing);
            let text = match tokio::time::timeout(PATIENCE, read).await {
                Ok(Ok(text)) => short(&text, &scrubber.borrow()),
                Ok(Err(error)) => {
                    tracing::debug!(pod = wanted.pod, %error, "the log of a failed container cannot be had");
                    None
                }
                Err(_) => None,
            };
            Log { uid: wanted.uid, text }
        }
    }
}

async fn read(api: &Api<Pod>, pod: &str, failing: &Failing) -> kube::Result<String> {
    let parameters = LogParams {
        container: Some(failing.container.clone()),
        previous: failing.previous,
        tail_lines: Some(LINES),
        limit_bytes: Some(FETCHED_BYTES),
        ..LogParams::default()
    };
    api.logs(pod, &parameters).await
}

/// The end of a log, without secrets, on one line.
fn short(text: &str, scrubber: &Scrubber) -> Option<String> {
    let whole = i64::try_from(text.len()).is_ok_and(|length| length < FETCHED_BYTES);
    let clean = if whole { scrubber.scrub(text) } else { scrubber.scrub_beginning(text) };
    let lines: Vec<&str> = clean.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" | ");
    let start = line.len().saturating_sub(BYTES);
    let start = (start..=line.len()).find(|start| line.is_char_boundary(*start))?;
    let kept = if start > 0 { format!("…{}", &line[start..]) } else { line };
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests;
