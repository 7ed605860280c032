//! Groups affected objects by root cause.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Chain;
use crate::api::CauseObject;
use crate::observed::{Cause, Key};

/// An object that is not ready, with the path to its root cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its release.
    pub release: Key,
    /// The path to its root cause.
    pub chain: Chain,
}

/// The root causes, each once. Causes that cannot recover come first, then those with the most affected objects.
pub fn roots<'a>(victims: impl IntoIterator<Item = &'a Victim>) -> Vec<Cause> {
    let mut roots: BTreeMap<String, Cause> = BTreeMap::new();
    for Victim { release, chain } in victims {
        let message = chain.root();
        let cause = roots.entry(message.clone()).or_insert_with(|| Cause {
            objects: objects(chain),
            message,
            stuck: chain.stuck,
            releases: chain.release.iter().cloned().collect(),
            victims: Vec::new(),
            told: chain.why.is_some(),
        });
        cause.releases.insert(release.clone());
        if let Some(victim) = chain.links.first().filter(|_| chain.is_victim())
            && !cause.victims.contains(&victim.label)
        {
            cause.victims.push(victim.label.clone());
        }
    }
    let mut causes: Vec<Cause> = roots.into_values().filter(|cause| cause.told || !cause.victims.is_empty()).collect();
    causes.sort_by_key(|cause| (Reverse(cause.stuck), Reverse(cause.victims.len()), cause.message.clone()));
    causes
}

/// The root cause itself and further objects to inspect.
fn objects(chain: &Chain) -> Vec<CauseObject> {
    chain.links.last().map(|link| link.object.clone()).into_iter().chain(chain.look.iter().cloned()).collect()
}
