//! Every secret at hand, told to the scrubber before anything is done with it that could end in a log.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Context;
use super::memory::Memory;
use crate::api::ValuesKind;
use crate::desired::Facts;
use crate::scrub::Scrubber;

impl Context {
    /// Tells the scrubber every secret at hand, see [`secrets`].
    pub(super) fn tell_secrets(&self, facts: &Facts, memory: &mut Memory) {
        memory.learn_secrets(facts);
        let digest = crate::values::digest(memory.secrets.iter().map(String::as_str));
        let mut known = self.charts.secrets_digest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *known != digest {
            self.scrubber.send_replace(Arc::new(Scrubber::new(&memory.secrets)));
            *known = digest;
        }
    }
}

impl Memory {
    /// A memory that begins with secrets that were known before.
    pub fn knowing(secrets: BTreeSet<String>) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Takes in what the facts hold, and forgets none: a pod that was not restarted yet, or whose release waits for its uninstall, may still print
    /// what no fact tells any more.
    fn learn_secrets(&mut self, facts: &Facts) {
        for secret in secrets(facts) {
            if !self.secrets.contains(secret.as_ref()) {
                self.secrets.insert(secret.into_owned());
            }
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
    #[test]
    fn what_was_known_when_the_operator_started_is_never_forgotten() {
        let mut memory = Memory::knowing(["of heat, which waits for its uninstall".to_owned()].into());
        let mut facts = Facts::default();
        memory.learn_secrets(&facts);
        facts.credentials.insert("nova".into(), [("user".to_owned(), "hunter2".to_owned())].into());
        memory.learn_secrets(&facts);
        memory.learn_secrets(&Facts::default());
        assert_eq!(memory.secrets, ["hunter2", "of heat, which waits for its uninstall"].map(str::to_owned).into());
    }
}
