//! Groups the objects that are not ready by their root cause, so that the status reports each root cause only once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use osdpl_values::CollectSorted;

use super::Chain;
use crate::api::CauseObject;
use crate::observed::{Cause, ReleaseKey};

/// An object that is not ready, with the path to its root cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffectedObject {
    /// The release that the object belongs to.
    pub release: ReleaseKey,
    /// The path from the object to its root cause.
    pub chain: Chain,
}

/// Returns each root cause once, with all objects that it affects. Leaves out a root cause that affects no other object
/// if its reason is unknown.
///
/// The root causes that a person must fix come first, then those that may resolve by themselves. Within each of these
/// two groups, the root causes that affect more objects come first.
pub fn group_by_root_cause<'a>(affected: impl IntoIterator<Item = &'a AffectedObject>) -> Vec<Cause> {
    let mut roots: BTreeMap<String, Cause> = BTreeMap::new();
    for AffectedObject { release, chain } in affected {
        let message = chain.root();
        let cause = roots.entry(message.clone()).or_insert_with(|| Cause {
            objects: objects(chain),
            message,
            stuck: chain.stuck,
            releases: chain.release.iter().cloned().collect_set(),
            affected: Vec::new(),
            is_explained: chain.why.is_some(),
        });
        cause.releases.insert(release.clone());
        if let Some(affected_object) = chain.links.first().filter(|_| chain.is_affected())
            && !cause.affected.contains(&affected_object.label)
        {
            cause.affected.push(affected_object.label.clone());
        }
    }
    let mut causes: Vec<Cause> =
        roots.into_values().filter(|cause| cause.is_explained || !cause.affected.is_empty()).collect();
    causes.sort_by_key(|cause| (Reverse(cause.stuck), Reverse(cause.affected.len()), cause.message.clone()));
    causes
}

/// Returns the objects that a person should inspect: first the root cause, then the objects in [`Chain::inspect`].
fn objects(chain: &Chain) -> Vec<CauseObject> {
    chain.links.last().map(|link| link.object.clone()).into_iter().chain(chain.inspect.iter().cloned()).collect()
}
