//! What is to be mended, found from what is not ready.

use std::collections::BTreeSet;

use super::Key;
use crate::api::CauseObject;

/// The kind of what nothing ever waits for.
const PERIODIC: &str = "CronJob";

/// A root cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What is wrong, with why, in one line: `mariadb/server: mariadb-server-0: ImagePullBackOff quay.io/…`.
    pub message: String,
    /// What to look at: the root, its pod, a claim, a node.
    pub objects: Vec<CauseObject>,
    /// Whether it can't go on without help.
    pub stuck: bool,
    /// Whether it is known why.
    pub told: bool,
    /// The releases that it, or any of its victims, belongs to.
    pub releases: BTreeSet<Key>,
    /// What waits for it, in people's words: `nova/compute`, `Job nova-db-sync`.
    pub victims: Vec<String>,
}

impl Cause {
    /// Whether it is a `CronJob` that fails: nothing waits for it.
    pub fn is_periodic(&self) -> bool {
        self.objects.first().is_some_and(|object| object.kind == PERIODIC)
    }
}
