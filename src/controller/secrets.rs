//! Every secret at hand, told to the scrubber before anything is done with it that could end in a log.

use std::borrow::Cow;
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
        // A pod that was not restarted yet may still print the key or the password from before.
        let keys = facts.ceph.iter().flat_map(|ceph| &ceph.secrets).map(|secret| &secret.0);
        memory.keys.extend(keys.chain(facts.credentials.values().flat_map(BTreeMap::values)).cloned());
        let mut secrets = secrets(facts);
        secrets.extend(memory.keys.iter().map(|key| Cow::from(key.as_str())));
        let digest = crate::values::digest(secrets.iter().map(AsRef::as_ref));
        let mut known = self.charts.secrets_digest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *known != digest {
            self.scrubber.send_replace(Arc::new(Scrubber::new(secrets)));
            *known = digest;
        }
    }
}

/// Every secret that the facts hold: credentials, Ceph's keys, what features name, and all texts and numbers that came out of Secrets.
pub fn secrets(facts: &Facts) -> Vec<Cow<'_, str>> {
    let credentials = facts.credentials.values().flat_map(BTreeMap::values);
    let named = facts.secrets.values().flatten();
    let keys = facts.ceph.iter().flat_map(|ceph| &ceph.secrets).map(|secret| &secret.0);
    let mut secrets: Vec<_> = credentials.chain(named).chain(keys).map(|text| Cow::from(text.as_str())).collect();
    for ((kind, ..), values) in &facts.values_from {
        if let (ValuesKind::Secret, Ok(values)) = (kind, values) {
            secrets.extend(values.values().flat_map(crate::scrub::scalars));
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_in_lists_and_what_is_a_number_is_a_secret_too() {
        let values = json!({"users": [{"name": "alice", "password": "hunter2"}], "pin": 12_345_678, "port": 35357, "debug": true});
        let reference = (ValuesKind::Secret, "mine".to_owned(), "values.yaml".to_owned());
        let mut facts = Facts::default();
        facts.values_from.insert(reference, Ok(values.as_object().unwrap().clone()));
        assert_eq!(secrets(&facts), ["12345678", "1.2345678e+07", "alice", "hunter2"]);
    }
}
