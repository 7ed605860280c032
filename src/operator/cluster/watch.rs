//! Starts watches whose events the operator caches, and detects when the API server forbids a watch.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Calls `apply` with each event of a watch, until the returned handle is dropped.
///
/// `apply` returns whether the event changed the cached data. If so, this function notifies `trigger`, which triggers a
/// pass.
pub(super) fn spawn_watch<E: Send + 'static>(
    events: impl Stream<Item = Result<E, watcher::Error>> + Send + 'static,
    trigger: Arc<Notify>,
    mut apply: impl FnMut(Result<E, watcher::Error>) -> bool + Send + 'static,
) -> AbortOnDropHandle<()> {
    let watch = events.default_backoff().for_each(move |event| {
        if apply(event) {
            trigger.notify_one();
        }
        std::future::ready(())
    });
    AbortOnDropHandle::new(tokio::spawn(watch))
}

/// Whether an error of a watch says that the operator lacks the permission for this watch.
///
/// If the permission is missing, passes do not wait for the first list of this watch. After any other error they wait,
/// because the watch retries.
pub(super) fn is_forbidden(error: &watcher::Error) -> bool {
    let forbids = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.is_forbidden());
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => forbids(error),
        watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_) | watcher::Error::NoResourceVersion => false,
    }
}
