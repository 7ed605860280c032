//! One watch that never ends.

use std::pin::pin;

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Error};

use super::partial::{Kind, Partial};
use super::problems::Problems;

/// How many objects a page holds where the API server has no streaming lists.
const PAGE: u32 = 100;

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
            Self::All => vec![Api::all(client.clone())],
            Self::Namespaces(names) => names.iter().map(|name| Api::namespaced(client.clone(), name)).collect(),
        }
    }
}

/// Watches for ever and hands on every event. Errors are waited out with growing pauses and noted as a problem.
pub(super) async fn follow<K: Kind>(
    api: Api<Partial<K>>,
    selector: watcher::Config,
    problems: Problems,
    mut take: impl FnMut(watcher::Event<Partial<K>>),
) {
    let what = format!("watching {}", K::PLURAL);
    let mut config = selector.clone().streaming_lists();
    loop {
        let mut events = pin!(watcher(api.clone(), config.clone()).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // A list that begins has not come through yet.
                    if !matches!(event, watcher::Event::Init) {
                        problems.clear(&what);
                    }
                    take(event);
                }
                Err(error) if refuses_streaming(&error) => break,
                Err(error) => note::<K>(&problems, &what, &error),
            }
        }
        config = selector.clone().page_size(PAGE);
    }
}

fn refuses_streaming(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(Error::Api(status)) if status.code == UNPROCESSABLE)
}

fn note<K: Kind>(problems: &Problems, what: &str, error: &watcher::Error) {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            problems.set(what, explain::<K>(error));
        }
        // One object that cannot be parsed: the others go on.
        watcher::Error::WatchFailed(error @ Error::SerdeError(_)) => problems.set(what, explain::<K>(error)),
        // A connection that ends is taken up again where it was.
        watcher::Error::WatchFailed(error) => tracing::debug!(what, %error, "a watch was interrupted"),
        watcher::Error::WatchError(status) => tracing::debug!(what, status.message, "a watch begins anew"),
        watcher::Error::NoResourceVersion => problems.set(what, "the API server gave no resourceVersion".into()),
    }
}

fn explain<K: Kind>(error: &Error) -> String {
    let group = if K::GROUP.is_empty() { "core" } else { K::GROUP };
    match error {
        Error::Api(status) if status.is_forbidden() => format!(
            "{}; grant `list` and `watch` on {} ({group}) to the operator's ServiceAccount, as its chart does",
            status.message,
            K::PLURAL
        ),
        Error::Api(status) => status.message.clone(),
        // serde may quote the object, which may be a Secret's.
        Error::SerdeError(error) => format!("an object cannot be read: column {}", error.column()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
