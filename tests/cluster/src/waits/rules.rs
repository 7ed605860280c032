//! Fault rules make pods misbehave. Tests use rules for pods that they cannot label in advance, such as the pods of a
//! chart's hook Jobs.
//!
//! The ConfigMap `kwok-faults` in `kube-system` contains the rules, one per key, as YAML. The supervisor process of the
//! cluster writes the settings of a rule into annotations of all matching pods. A new pod gets the annotations before
//! it starts, and a running pod at once. When a rule is removed, the supervisor removes the annotations of this rule.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// The name of the ConfigMap that contains all rules.
pub(crate) const FAULTS: &str = "kwok-faults";
/// The namespace of the ConfigMap that contains all rules.
pub(crate) const FAULTS_NAMESPACE: &str = "kube-system";
/// The name (without the prefix `kwok.osdpl.dev/`) of an annotation of the ConfigMap [`FAULTS`]. The annotation
/// contains the digest of the rules that the supervisor has read. Tests wait for this digest after they change a rule.
pub(crate) const IN_FORCE: &str = "in-force";

/// The names of the settings that a rule may contain. The annotation for the setting `NAME` is `kwok.osdpl.dev/NAME`.
pub(super) const RULE_KEYS: [&str; 9] =
    ["behaviour", "delay", "digest", "exit-code", "log", "message", "ready", "restart-delay", "termination-delay"];

/// A fault rule, which selects pods and sets how they behave. The crate's documentation explains the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rule {
    /// The rule matches only pods in this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The rule matches only pods whose names begin with this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The rule matches only pods with all these labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The fault of the pod: `hang`, `creating`, `image-pull-error`, `crash-loop`, `fail` or `fail-once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<String>,
    /// The time for which the pod runs before it is Ready or completes, such as `1.5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// The digest of the images that the pod runs, such as `sha256:0f…`, except for images whose name contains a digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The time between restarts of a failing container, such as `1.5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_delay: Option<String>,
    /// The time for which the pod continues to exist after a client has deleted it, such as `1.5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_delay: Option<String>,
    /// The exit code of a failing container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The termination message of a failing container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The text that the log of every container of the pod contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// With `false`, the pod runs but is not Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
}

impl Rule {
    /// Returns a rule with this behaviour. The rule matches the pods of `namespace` whose names begin with `name`.
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

    /// Returns the value that the rule sets for the annotation `key`, which is one of [`RULE_KEYS`].
    pub(super) fn value(&self, key: &str) -> Option<String> {
        match key {
            "behaviour" => self.behaviour.clone(),
            "delay" => self.delay.clone(),
            "digest" => self.digest.clone(),
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

/// The fault rules in the ConfigMap [`FAULTS`]. `by_name` contains only the valid rules, but `digest` also covers the
/// invalid ones. `acknowledged` is the digest in the annotation [`IN_FORCE`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rules {
    pub by_name: BTreeMap<String, Rule>,
    pub digest: String,
    pub acknowledged: Option<String>,
    pub uid: String,
}

/// Reads the rules in the ConfigMap. Logs and skips an invalid rule.
pub(super) fn read(map: &ConfigMap) -> Rules {
    let mut by_name = BTreeMap::new();
    for (name, text) in map.data.iter().flatten() {
        match serde_saphyr::from_str::<Rule>(text) {
            Ok(rule) => drop(by_name.insert(name.clone(), rule)),
            Err(error) => eprintln!("rule {name} in ConfigMap {FAULTS_NAMESPACE}/{FAULTS} is ignored: {error}"),
        }
    }
    let acknowledged = map.annotations().get(&format!("{}{IN_FORCE}", super::PREFIX)).cloned();
    Rules { by_name, digest: digest(map), acknowledged, uid: map.uid().unwrap_or_default() }
}

/// Returns a digest of the names and texts of all rules in the ConfigMap.
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
