//! One watch that never ends.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Error, Resource};
use serde::de::DeserializeOwned;

use super::partial::{Kind, Partial};
use super::problems::Problems;

/// How many objects a page holds where the API server has no streaming lists.
const PAGE: u32 = 100;

/// The pause after the first failure, and the most that it grows to.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What a watch does, in a problem's words.
const WATCHING: &str = "watching";

/// HTTP's "unprocessable": how an API server without streaming lists refuses one.
const UNPROCESSABLE: u16 = 422;

/// Which namespaces are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them: one watch of each kind.
    All,
    /// These: one watch of each kind in each.
    Namespaces(Vec<String>),
}

impl Scope {
    /// One API for each watch of a kind.
    pub(super) fn apis<K: Kind>(&self, client: &Client) -> Vec<Api<Partial<K>>> {
        match self {
            _ if K::CLUSTER_WIDE => vec![Api::all(client.clone())],
            Self::All => vec![Api::all(client.clone())],
            Self::Namespaces(names) => names.iter().map(|name| Api::namespaced(client.clone(), name)).collect(),
        }
    }
}

/// What a watch has to tell.
pub(super) enum News<O> {
    /// Something was seen.
    Event(watcher::Event<O>),
    /// It does not get through.
    Refused,
}

impl<O> From<watcher::Event<O>> for News<O> {
    fn from(event: watcher::Event<O>) -> Self {
        Self::Event(event)
    }
}

/// What is watched, in a problem's words.
#[derive(Clone, Copy)]
pub(super) struct What {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
}

/// [`follow_objects`] of a kind whose fields are known.
pub(super) async fn follow<K: Kind>(
    api: Api<Partial<K>>,
    selector: watcher::Config,
    problems: Problems,
    take: impl FnMut(News<Partial<K>>),
) {
    follow_objects(api, What { group: K::GROUP, plural: K::PLURAL }, selector, problems, take).await;
}

/// Watches for ever and hands on every event. Errors are waited out with growing pauses and noted as a problem.
pub(super) async fn follow_objects<O>(
    api: Api<O>,
    what: What,
    selector: watcher::Config,
    problems: Problems,
    mut take: impl FnMut(News<O>),
) where
    O: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let mut config = selector.clone().streaming_lists();
    loop {
        let mut events = pin!(watcher(api.clone(), config.clone()).backoff(Pauses::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // A list that begins has not come through yet.
                    if !matches!(event, watcher::Event::Init) {
                        problems.works(WATCHING, what.plural);
                    }
                    take(News::Event(event));
                }
                Err(error) if refuses_streaming(&error) => break,
                Err(error) => {
                    note(what, &problems, &error);
                    take(News::Refused);
                }
            }
        }
        config = selector.clone().page_size(PAGE);
    }
}

fn refuses_streaming(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(Error::Api(status)) if status.code == UNPROCESSABLE)
}

fn note(what: What, problems: &Problems, error: &watcher::Error) {
    let kind = what.plural;
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            problems.fails(WATCHING, kind, explain(what, error));
        }
        // One object that cannot be parsed: the others go on.
        watcher::Error::WatchFailed(error @ Error::SerdeError(_)) => {
            problems.happened(WATCHING, kind, explain(what, error));
        }
        // A connection that ends is taken up again where it was.
        watcher::Error::WatchFailed(error) => tracing::debug!(kind, %error, "a watch was interrupted"),
        watcher::Error::WatchError(status) => tracing::debug!(kind, status.message, "a watch begins anew"),
        watcher::Error::NoResourceVersion => {
            problems.fails(WATCHING, kind, "the API server gave no resourceVersion".into());
        }
    }
}

fn explain(What { group, plural }: What, error: &Error) -> String {
    let group = if group.is_empty() { "core" } else { group };
    match error {
        Error::Api(status) if status.is_forbidden() => format!(
            "{}; grant `list` and `watch` on {plural} ({group}) to the operator's ServiceAccount, as its chart does",
            status.message
        ),
        other => said(other),
    }
}

/// What an error of the API server, or on the way to it, means.
pub(super) fn said(error: &Error) -> String {
    match error {
        Error::Api(status) => status.message.clone(),
        // serde may quote the object, which may be a Secret.
        Error::SerdeError(error) => format!("an object cannot be read: column {}", error.column()),
        other => {
            let mut cause: &dyn std::error::Error = other;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            format!("the API server cannot be reached: {cause}")
        }
    }
}

/// The pauses between attempts: short ones at first, because an API server that restarts is back in seconds.
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
