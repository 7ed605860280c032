//! Fault rules make pods misbehave that can't be labelled in advance, such as those of a chart's hook Jobs.
//!
//! They are stored in the ConfigMap `kwok-faults` in `kube-system`, one per key, as YAML. They are applied to matching
//! pods before these start, and to running ones at once; removing a rule removes its annotations.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// The ConfigMap of all rules.
pub(crate) const FAULTS: &str = "kwok-faults";
/// Its namespace.
pub(crate) const FAULTS_NAMESPACE: &str = "kube-system";
/// The annotation (without prefix) in which the reader of the rules acknowledges them.
pub(crate) const IN_FORCE: &str = "in-force";

/// The settings that a rule may contain.
pub(super) const RULE_KEYS: [&str; 8] =
    ["behaviour", "delay", "exit-code", "log", "message", "ready", "restart-delay", "termination-delay"];

/// A fault rule: the matching pods and their behaviour. See the crate's documentation for the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rule {
    /// Only pods of this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only pods whose name has this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only pods with all these labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `hang`, `creating`, `image-pull-error`, `crash-loop`, `fail` or `fail-once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<String>,
    /// The time until it is ready or has completed, such as `1.5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// Time between restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_delay: Option<String>,
    /// The time between a pod's deletion and its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_delay: Option<String>,
    /// Exit code of a failing container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Termination message of a failing container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The log of the containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// `false`: running but not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
}

impl Rule {
    /// Returns a rule for the pods of a namespace whose name begins with `name`.
    pub fn new(namespace: &str, name: &str, behaviour: &str) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: Some(name.into()),
            behaviour: Some(behaviour.into()),
            ..Self::default()
        }
    }

    /// Whether the rule matches a pod.
    pub(super) fn matches(&self, namespace: &str, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
            && self.name.as_ref().is_none_or(|wanted| name.starts_with(wanted.as_str()))
            && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Returns the annotation that the rule sets for a name of [`RULE_KEYS`].
    pub(super) fn value(&self, key: &str) -> Option<String> {
        match key {
            "behaviour" => self.behaviour.clone(),
            "delay" => self.delay.clone(),
            "exit-code" => self.exit_code.map(|code| code.to_string()),
            "log" => self.log.clone(),
            "message" => self.message.clone(),
            "ready" => self.ready.map(|ready| ready.to_string()),
            "restart-delay" => self.restart_delay.clone(),
            "termination-delay" => self.termination_delay.clone(),
            _ => None,
        }
    }
}

/// All rules, with the data to acknowledge them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rules {
    pub by_name: BTreeMap<String, Rule>,
    pub digest: String,
    pub acknowledged: Option<String>,
    pub uid: String,
}

/// Reads the ConfigMap. An invalid rule is logged by the supervisor and skipped.
pub(super) fn read(map: &ConfigMap) -> Rules {
    let mut by_name = BTreeMap::new();
    for (name, text) in map.data.iter().flatten() {
        match serde_saphyr::from_str::<Rule>(text) {
            Ok(rule) => drop(by_name.insert(name.clone(), rule)),
            Err(error) => eprintln!("configmap {FAULTS_NAMESPACE}/{FAULTS}, rule {name} is ignored: {error}"),
        }
    }
    let acknowledged = map.annotations().get(&format!("{}{IN_FORCE}", super::PREFIX)).cloned();
    Rules { by_name, digest: digest(map), acknowledged, uid: map.uid().unwrap_or_default() }
}

/// Returns a digest of the rules.
pub(crate) fn digest(map: &ConfigMap) -> String {
    crate::digest::short(map.data.iter().flatten().flat_map(|(name, text)| [name.as_str(), text.as_str()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_matches_namespace_name_and_labels() {
        let labels: BTreeMap<_, _> = [("application".to_string(), "glance".to_string())].into();
        let rule = Rule { labels: labels.clone(), ..Rule::new("openstack", "glance-db-", "fail") };
        assert!(rule.matches("openstack", "glance-db-sync-x7x2p", &labels));
        assert!(!rule.matches("other", "glance-db-sync-x7x2p", &labels));
        assert!(!rule.matches("openstack", "glance-api-0", &labels));
        assert!(!rule.matches("openstack", "glance-db-sync-x7x2p", &BTreeMap::new()));
    }

    #[test]
    fn rule_roundtrips_and_rejects_unknown_keys() {
        let rule = Rule { exit_code: Some(3), ready: Some(false), ..Rule::new("a", "b", "fail-once") };
        let text = serde_saphyr::to_string(&rule).unwrap();
        assert_eq!(serde_saphyr::from_str::<Rule>(&text).unwrap(), rule);
        assert!(serde_saphyr::from_str::<Rule>("behavior: fail\n").is_err());
    }
}
