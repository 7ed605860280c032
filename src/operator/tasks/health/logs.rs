//! Fetches the end of the log of a failed container.

mod excerpt;

use std::sync::Arc;
use std::time::Duration;

use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use tokio::sync::watch;

use excerpt::{Excerpt, LINES, excerpt};

use super::events::{self, EventMessage, Subject};
use osdpl_core::health::pod::FailedContainer;
use osdpl_core::scrub::{Scrubber, printable};

/// The maximum number of lines that the operator fetches from the end of a log. This number is enough for a long
/// traceback of Python.
const FETCHED_LINES: usize = 100;

/// The maximum number of bytes of a log that the operator shows in messages.
const BYTES: usize = 512;

/// The maximum number of bytes of a log that the operator fetches. It is larger than [`BYTES`], because the operator
/// must remove secrets before it shortens the log: the scrubber would not recognize a cut secret.
const FETCHED_BYTES: u32 = 32 * 1024;

/// The timeout of the kubelet's response. It is short, because the health task waits for the logs before it publishes
/// its first result. The task can publish the result without the logs.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A failed container of a pod. The health task fetches the end of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) failing: FailedContainer,
}

/// The result of an attempt to fetch the log of a pod's failed container.
pub(super) struct Log {
    pub(super) uid: String,
    /// The end of the log without secrets; `None` if the log is empty or could not be fetched.
    pub(super) text: Option<String>,
}

/// Fetches logs and events, and removes secrets from them.
#[derive(Clone)]
pub(super) struct Logs {
    client: Client,
    scrubber: watch::Receiver<Arc<Scrubber>>,
}

impl Logs {
    pub(super) fn new(client: Client, scrubber: watch::Receiver<Arc<Scrubber>>) -> Self {
        Self { client, scrubber }
    }

    /// Fetches the latest event that explains why an object waits.
    pub(super) fn fetch_event(&self, subject: Subject) -> impl Future<Output = EventMessage> + Send + use<> {
        events::fetch_event(self.client.clone(), self.scrubber.clone(), subject)
    }

    /// Fetches the end of the log of a failed container.
    ///
    /// If the request fails, the function only logs the error: the health task can report the failure without this log.
    pub(super) fn fetch(&self, wanted: Wanted) -> impl Future<Output = Log> + Send + use<> {
        let Self { client, scrubber } = self.clone();
        async move {
            let api = Api::<Pod>::namespaced(client, &wanted.namespace);
            let read = read(&api, &wanted.pod, &wanted.failing);
            let text = match tokio::time::timeout(TIMEOUT, read).await {
                Ok(Ok(text)) => shorten(&text, &scrubber.borrow()),
                Ok(Err(error)) => {
                    tracing::debug!(pod = wanted.pod, %error, "cannot fetch the log of a failed container");
                    None
                }
                Err(_) => None,
            };
            Log { uid: wanted.uid, text }
        }
    }
}

/// Reads the last [`FETCHED_LINES`] lines of a log.
///
/// If these lines are longer than [`FETCHED_BYTES`], the kubelet cuts off the end of the log, which is the most
/// important part. Then the function reads only the last [`LINES`] lines.
async fn read(api: &Api<Pod>, pod: &str, failing: &FailedContainer) -> kube::Result<String> {
    let parameters = |lines: usize| LogParams {
        container: Some(failing.container.clone()),
        previous: failing.previous,
        tail_lines: i64::try_from(lines).ok(),
        limit_bytes: Some(FETCHED_BYTES.into()),
        ..LogParams::default()
    };
    let text = read_text(api, pod, &parameters(FETCHED_LINES)).await?;
    if is_complete(&text) { Ok(text) } else { read_text(api, pod, &parameters(LINES)).await }
}

/// Reads at most [`FETCHED_BYTES`] of a log, and replaces bytes that are not UTF-8.
///
/// Programs can write any bytes, and the kubelet can cut a log within a character. [`Api::logs`] would return an error.
async fn read_text(api: &Api<Pod>, pod: &str, parameters: &LogParams) -> kube::Result<String> {
    let mut log = api.log_stream(pod, parameters).await?.take(FETCHED_BYTES.into());
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether the kubelet did not cut the log. Replaced bytes make the text longer, so the result can be `false` for a
/// complete log, too.
fn is_complete(text: &str) -> bool {
    u32::try_from(text.len()).is_ok_and(|length| length < FETCHED_BYTES)
}

/// Returns the part of a log that explains the failure, without secrets, on one line.
fn shorten(text: &str, scrubber: &Scrubber) -> Option<String> {
    let shown = printable(text);
    let text = if is_complete(text) { scrubber.scrub(&shown) } else { scrubber.scrub_beginning(&shown) };
    let kept = match excerpt(&text) {
        Excerpt::Exceptions(exceptions) => {
            let line = exceptions.join(" | ");
            if line.len() > BYTES { format!("{}…", &line[..line.floor_char_boundary(BYTES)]) } else { line }
        }
        Excerpt::Lines(lines) => {
            let line = lines.join(" | ");
            let start = line.ceil_char_boundary(line.len().saturating_sub(BYTES));
            if start > 0 { format!("…{}", &line[start..]) } else { line }
        }
    };
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests;
