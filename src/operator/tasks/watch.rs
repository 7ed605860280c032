//! Watches objects of one kind, and restarts the watch after every failure.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Error, Resource};
use osdpl_client::{Scope, api_message, refusal};
use serde::de::DeserializeOwned;

use super::partial::{Kind, Partial};
use super::problems::Problems;

/// The number of objects that the operator requests in one page of a list, from an API server that does not support
/// streaming lists.
const PAGE: u32 = 100;

/// The pause of a watch after its first failure. The pauses after repeated failures grow up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The beginning of messages about failed watches, as in `watching pods: …` (see [`Problems::report_failure`]).
const WATCHING: &str = "watching";

/// The HTTP status code ("unprocessable") with which an API server rejects streaming lists that it does not support.
const UNPROCESSABLE: u16 = 422;

/// Returns one client for each watch of a kind: one for the whole cluster, or one for each namespace in `scope`.
pub(super) fn apis<K: Kind>(scope: &Scope, client: &Client) -> Vec<Api<Partial<K>>> {
    if K::CLUSTER_WIDE { vec![Api::all(client.clone())] } else { scope.apis(client) }
}

/// The report of a watch to its caller: an event, or a failure.
pub(super) enum Update<O> {
    /// The API server has sent an event: a change of an object, or a part of a list.
    Event(watcher::Event<O>),
    /// An attempt to list or watch failed. The watch retries.
    Failed,
}

impl<O> From<watcher::Event<O>> for Update<O> {
    fn from(event: watcher::Event<O>) -> Self {
        Self::Event(event)
    }
}

/// The API group and the plural name of a watched kind, for messages about failed watches.
#[derive(Clone, Copy)]
pub(super) struct WatchedKind {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
}

/// Runs [`follow_objects`] for one of the kinds in `tasks::partial`.
pub(super) async fn follow<K: Kind>(
    api: Api<Partial<K>>,
    selector: watcher::Config,
    problems: Problems,
    take: impl FnMut(Update<Partial<K>>),
) {
    follow_objects(api, WatchedKind { group: K::GROUP, plural: K::PLURAL }, selector, problems, take).await;
}

/// Watches a kind until the future is dropped, and calls `take` with every event and after every failure.
///
/// This function reports failures as problems, and retries with growing pauses.
pub(super) async fn follow_objects<O>(
    api: Api<O>,
    kind: WatchedKind,
    selector: watcher::Config,
    problems: Problems,
    mut take: impl FnMut(Update<O>),
) where
    O: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let mut config = selector.clone().streaming_lists();
    loop {
        let mut events = pin!(watcher(api.clone(), config.clone()).backoff(Pauses::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // The event `Init` only announces that the watch begins to list objects. The watch has recovered
                    // from a problem only when the first object, or the end of the list, arrives.
                    if !matches!(event, watcher::Event::Init) {
                        problems.report_success(WATCHING, kind.plural);
                    }
                    take(Update::Event(event));
                }
                Err(error) if refuses_streaming(&error) => break,
                Err(error) => {
                    report_error(kind, &problems, &error);
                    take(Update::Failed);
                }
            }
        }
        config = selector.clone().page_size(PAGE);
    }
}

fn refuses_streaming(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(Error::Api(status)) if status.code == UNPROCESSABLE)
}

fn report_error(watched: WatchedKind, problems: &Problems, error: &watcher::Error) {
    let kind = watched.plural;
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            problems.report_failure(WATCHING, kind, explain(watched, error));
        }
        // The operator cannot parse one object. Report this failure as a single event, because the watch goes on and
        // delivers all other objects.
        watcher::Error::WatchFailed(error @ Error::SerdeError(_)) => {
            problems.report_event(WATCHING, kind, explain(watched, error));
        }
        // Do not report an interrupted watch as a problem: the watcher resumes the watch where it stopped.
        watcher::Error::WatchFailed(error) => tracing::debug!(kind, %error, "a watch was interrupted"),
        watcher::Error::WatchError(status) => tracing::debug!(kind, status.message, "a watch restarts"),
        watcher::Error::NoResourceVersion => {
            problems.report_failure(WATCHING, kind, "the API server returned a list without a resourceVersion".into());
        }
    }
}

fn explain(WatchedKind { group, plural }: WatchedKind, error: &Error) -> String {
    let group = if group.is_empty() { "core" } else { group };
    match error {
        Error::Api(status) if status.is_forbidden() => format!(
            "{}; grant `list` and `watch` on {plural} ({group}) to the operator's ServiceAccount, as its chart does \
             (for `osdpl plan`: to your user)",
            refusal(status)
        ),
        other => describe_error(other),
    }
}

/// Describes an error of the API server, or of the connection to it.
pub(super) fn describe_error(error: &Error) -> String {
    match error {
        Error::Api(_) | Error::SerdeError(_) => api_message(error),
        other => {
            let mut cause: &dyn std::error::Error = other;
            while let Some(source) = cause.source() {
                cause = source;
            }
            format!("the API server cannot be reached: {cause}")
        }
    }
}

/// The growing pauses between a watch's attempts to connect. The first pauses are short, because a restarted API server
/// is back in seconds. A restart of the operator loses the number of attempts, so the pauses are short again.
#[derive(Default)]
struct Pauses {
    attempts: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = SHORTEST_PAUSE.saturating_mul(1 << self.attempts.min(16));
        self.attempts = self.attempts.saturating_add(1);
        Some(pause.min(LONGEST_PAUSE))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests;
