//! Root causes of releases that are not ready.

use std::collections::BTreeSet;

use super::ReleaseKey;
use crate::api::CauseObject;

/// The kind `CronJob`. A root cause of this kind delays no component, because no component waits for a `CronJob`.
const PERIODIC: &str = "CronJob";

/// A root cause of components that are not ready: the last object in a chain of objects, each of which waits for the
/// next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The problem and its reason in one line: `mariadb/server: mariadb-server-0: ImagePullBackOff quay.io/…`.
    pub message: String,
    /// The objects that a person should inspect: first the object that is the root cause, then the objects that show
    /// the problem, such as its pod, and the pod's volume claim.
    pub objects: Vec<CauseObject>,
    /// Whether the root cause persists until a person fixes it.
    pub stuck: bool,
    /// Whether osdpl found the reason of the problem. If not, `message` only names the object that is not ready.
    pub is_explained: bool,
    /// The releases to which the root cause and all affected objects belong.
    pub releases: BTreeSet<ReleaseKey>,
    /// The display names of the objects that are not ready because of the root cause: `Job nova-db-sync`,
    /// `nova/compute`.
    pub affected: Vec<String>,
}

impl Cause {
    /// Whether the root cause is a failing `CronJob`.
    pub(crate) fn is_periodic(&self) -> bool {
        self.objects.first().is_some_and(|object| object.kind == PERIODIC)
    }
}
