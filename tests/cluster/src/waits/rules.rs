//! Fault rules: make pods misbehave that nobody can label beforehand, such as those of a chart's hook Jobs.
//!
//! They stand in the ConfigMap `kwok-faults` in `kube-system`, one a key, as YAML. They are put on matching pods
//! before these start, and on running ones at once; a rule that is removed takes its words away again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// The ConfigMap of all rules.
pub(crate) const FAULTS: &str = "kwok-faults";
/// Its namespace.
pub(crate) const FAULTS_NAMESPACE: &str = "kube-system";
/// The annotation (without prefix) by which the rules' reader says which rules it has read.
pub(crate) const IN_FORCE: &str = "in-force";

/// The steering words that a rule may set.
pub(super) const RULE_KEYS: [&str; 8] =
    ["behaviour", "delay", "exit-code", "log", "message", "ready", "restart-delay", "termination-delay"];

/// Which pods are to behave how. See the crate's documentation for the words' meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rule {
    /// Only pods of this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only pods whose name begins so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only pods with all these labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `hang`, `creating`, `image-pull-error`, `crash-loop`, `fail` or `fail-once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<String>,
    /// How long it takes to become ready or to end, such as `1.5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// Time between restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_delay: Option<String>,
    /// Time between a pod's deletion and its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_delay: Option<String>,
    /// Exit code of a failing container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Termination message of a failing container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the containers log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// `false`: running and not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
}

impl Rule {
    /// A rule for the pods of a namespace whose name begins with `name`.
    pub fn new(namespace: &str, name: &str, behaviour: &str) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: Some(name.into()),
            behaviour: Some(behaviour.into()),
            ..Self::default()
        }
    }

    /// Whether a pod is meant.
    pub(super) fn concerns(&self, namespace: &str, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
            && self.name.as_ref().is_none_or(|wanted| name.starts_with(wanted.as_str()))
            && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// The steering annotation that the rule sets under a name of [`RULE_KEYS`].
    pub(super) fn word(&self, key: &str) -> Option<String> {
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

/// All rules, with what is needed to acknowledge them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rules {
    pub by_name: BTreeMap<String, Rule>,
    pub digest: String,
    pub acknowledged: Option<String>,
    pub uid: String,
}

/// Reads the ConfigMap. A rule that does not parse is said in the supervisor's log and left out.
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

/// Tells one set of rules from another.
pub(crate) fn digest(map: &ConfigMap) -> String {
    crate::digest::short(map.data.iter().flatten().flat_map(|(name, text)| [name.as_str(), text.as_str()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_means_pods_by_namespace_name_and_labels_together() {
        let labels: BTreeMap<_, _> = [("application".to_string(), "glance".to_string())].into();
        let rule = Rule { labels: labels.clone(), ..Rule::new("openstack", "glance-db-", "fail") };
        assert!(rule.concerns("openstack", "glance-db-sync-x7x2p", &labels));
        assert!(!rule.concerns("other", "glance-db-sync-x7x2p", &labels));
        assert!(!rule.concerns("openstack", "glance-api-0", &labels));
        assert!(!rule.concerns("openstack", "glance-db-sync-x7x2p", &BTreeMap::new()));
    }

    #[test]
    fn a_rule_survives_its_way_through_yaml_and_a_misspelt_word_is_refused() {
        let rule = Rule { exit_code: Some(3), ready: Some(false), ..Rule::new("a", "b", "fail-once") };
        let text = serde_saphyr::to_string(&rule).unwrap();
        assert_eq!(serde_saphyr::from_str::<Rule>(&text).unwrap(), rule);
        assert!(serde_saphyr::from_str::<Rule>("behavior: fail\n").is_err());
    }
}
