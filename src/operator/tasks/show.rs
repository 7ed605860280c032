//! Publishes the result of a task.

use tokio::sync::{Notify, watch};

/// Publishes a result, and triggers a reconcile if it differs from the previous one.
pub(super) fn publish<T: PartialEq>(result: T, sender: &watch::Sender<T>, trigger: &Notify) {
    let different = sender.send_if_modified(|current| {
        let different = *current != result;
        if different {
            *current = result;
        }
        different
    });
    if different {
        trigger.notify_one();
    }
}
