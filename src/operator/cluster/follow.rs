//! A watch in a task of its own.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Has `hear` take in everything that a watch tells, until the handle is dropped; `poke` is told each time it says that a pass should look.
pub(super) fn follow<E: Send + 'static>(
    events: impl Stream<Item = Result<E, watcher::Error>> + Send + 'static,
    poke: Arc<Notify>,
    mut hear: impl FnMut(Result<E, watcher::Error>) -> bool + Send + 'static,
) -> AbortOnDropHandle<()> {
    let told = events.default_backoff().for_each(move |event| {
        if hear(event) {
            poke.notify_one();
        }
        std::future::ready(())
    });
    AbortOnDropHandle::new(tokio::spawn(told))
}
