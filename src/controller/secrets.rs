//! Every secret at hand, told to the scrubber before anything is done with it that could end in a log.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Context;
use super::memory::Memory;
use crate::api::ValuesKind;
use crate::desired::Facts;
use crate::scrub::Scrubber;

impl Context {
    /// Tells the scrubber every secret at hand, see [`secrets`].
    pub(super) fn tell_secrets(&self, facts: &Facts, memory: &mut Memory) {
        // A pod that was not restarted yet may still print the key from before.
        let keys = facts.ceph.iter().flat_map(|ceph| &ceph.secrets);
        memory.keys.extend(keys.map(|secret| secret.0.clone()));
        let mut secrets = secrets(facts);
        secrets.extend(memory.keys.iter().map(String::as_str));
        let digest = crate::values::digest(secrets.iter().copied());
        let mut known = self.charts.secrets_digest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *known != digest {
            self.scrubber.send_replace(Arc::new(Scrubber::new(secrets)));
            *known = digest;
        }
    }
}

/// Every secret that the facts hold: credentials, Ceph's keys, what features name, and all texts that came out of Secrets.
pub fn secrets(facts: &Facts) -> Vec<&str> {
    let mut secrets: Vec<&str> = facts.credentials.values().flat_map(BTreeMap::values).map(String::as_str).collect();
    for ((kind, ..), values) in &facts.values_from {
        if let (ValuesKind::Secret, Ok(values)) = (kind, values) {
            secrets.extend(crate::values::leaves(values).into_iter().filter_map(|(_, value)| value.as_str()));
        }
    }
    secrets.extend(facts.secrets.values().flatten().map(String::as_str));
    secrets.extend(facts.ceph.iter().flat_map(|ceph| &ceph.secrets).map(|secret| secret.0.as_str()));
    secrets
}
