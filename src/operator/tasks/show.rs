//! What a task has found, handed to whoever observes.

use tokio::sync::{Notify, watch};

/// Shows what was found, and pokes where it is something else than what was shown.
pub(super) fn show<T: PartialEq>(found: T, sender: &watch::Sender<T>, poke: &Notify) {
    let different = sender.send_if_modified(|shown| {
        let different = *shown != found;
        if different {
            *shown = found;
        }
        different
    });
    if different {
        poke.notify_one();
    }
}
