//! Checks `spec.nodes.roles` for mistakes that osdpl can find without access to a cluster: unknown names and invalid
//! labels.

use super::Finding;
use crate::api::{NodeOperator, NodeSelector, OpenStackDeploymentSpec, RoleNodes};
use crate::catalog::schema::field_path;
use crate::catalog::{Catalog, Level, did_you_mean};
use crate::observed::Labels;

/// Returns the labels of a node role: the labels in the spec or, if the spec has none, the labels in the catalogue.
pub fn role_labels(name: &str, role: &RoleNodes, catalog: &Catalog) -> Labels {
    let known = || catalog.roles.get(name).map(|known| known.labels.clone()).unwrap_or_default();
    if role.labels.is_empty() { known() } else { role.labels.clone() }
}

/// Checks the node roles of a spec (`spec.nodes.roles`), and adds an error for each problem.
pub(super) fn check(spec: &OpenStackDeploymentSpec, catalog: &Catalog, findings: &mut Vec<Finding>) {
    for (name, role) in &spec.nodes.roles {
        let field = field_path("spec.nodes.roles", name);
        let mut refuse = |field: String, message: String| {
            findings.push(Finding::new(Level::Error, field, message));
        };
        let labels = role_labels(name, role, catalog);
        if labels.is_empty() {
            let hint = did_you_mean(name, catalog.roles.keys().map(String::as_str));
            let known = catalog.roles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let message = format!(
                "there is no role {name:?}{hint}; choose from {known}; a role with another name needs `labels`"
            );
            refuse(field, message);
            continue;
        }
        if role.names.is_empty() && role.selector.is_none() {
            refuse(field.clone(), "has no nodes for the role; set nodes by `names`, by `selector`, or by both".into());
        }
        for (key, value) in &role.labels {
            if let Some(problem) = bad_key(key).or_else(|| bad_value(value)) {
                refuse(format!("{field}.labels"), problem);
            }
        }
        let Some(selector) = &role.selector else { continue };
        if let Some(problem) = bad_selector(selector) {
            refuse(format!("{field}.selector"), problem);
        }
        // osdpl sets the role's labels on each node with the role. If the role's selector matched one of these labels,
        // a node with the role would always match, and could never lose the role.
        if let Some(key) = keys(selector).find(|key| labels.contains_key(*key)) {
            let message = format!(
                "selects by {key}, which the role itself sets, so that no node could ever lose the role; select by another label, or by `names`"
            );
            refuse(format!("{field}.selector"), message);
        }
    }
}

fn keys(selector: &NodeSelector) -> impl Iterator<Item = &str> {
    let expressions = selector.match_expressions.iter().map(|required| required.key.as_str());
    selector.match_labels.keys().map(String::as_str).chain(expressions)
}

/// Returns why a node selector is invalid; `None` if it is valid.
pub(super) fn bad_selector(selector: &NodeSelector) -> Option<String> {
    if let Some(problem) = keys(selector).find_map(bad_key) {
        return Some(problem);
    }
    if keys(selector).next().is_none() {
        return Some(
            "is empty and would mean every node; name a label, such as matchLabels: {kubernetes.io/os: linux}".into(),
        );
    }
    let values = selector.match_labels.values();
    let values = values.chain(selector.match_expressions.iter().flat_map(|required| &required.values));
    let values = values.filter_map(|value| bad_value(value));
    let operators = selector.match_expressions.iter().filter_map(|required| {
        let takes = matches!(required.operator, NodeOperator::In | NodeOperator::NotIn);
        let (key, operator) = (&required.key, required.operator);
        match (takes, required.values.is_empty()) {
            (true, true) => Some(format!("the operator {operator:?} of key {key} needs `values`; name at least one")),
            (false, false) => {
                Some(format!("the operator {operator:?} of key {key} takes no `values`; leave them out, or use In"))
            }
            _ => None,
        }
    });
    values.chain(operators).next()
}

/// Returns why a label key is invalid; `None` if it is valid. A valid key is a name, or a DNS name, a slash and a name
/// (`k8s.io/apimachinery/pkg/util/validation`).
pub(super) fn bad_key(key: &str) -> Option<String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let fits = !name.is_empty() && is_name(name) && prefix.is_none_or(super::per_node::is_subdomain);
    (!fits).then(|| {
        format!(
            "{key:?} is not a valid label key: it must be a name of letters, digits, `-`, `_` and `.`, optionally after a DNS name and a slash, such as example.org/gpu; correct it"
        )
    })
}

/// Returns why a label value is invalid; `None` if it is valid.
fn bad_value(value: &str) -> Option<String> {
    (!is_name(value)).then(|| {
        format!(
            "{value:?} is not a valid label value: allowed are at most 63 letters, digits, `-`, `_` and `.`; correct it"
        )
    })
}

/// Whether a string is a valid label value, or a valid name in a label key: at most 63 characters, with a letter or
/// digit at each end. The function accepts an empty string, which is valid only as a value.
fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn messages(roles: &Value) -> Vec<String> {
        let known = "roles:\n  compute: {description: x, labels: {compute: 'on'}}\n";
        let catalog = Catalog::load(&crate::testing::files(&[("values/nodes.yaml", known)])).unwrap();
        let spec = json!({"openstackRelease": "2026.1", "nodes": {"roles": roles}});
        let mut findings = Vec::new();
        check(&serde_json::from_value(spec).unwrap(), &catalog, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_invalid_roles_with_a_remedy() {
        let selects = |expression: Value| json!({"compute": {"selector": {"matchExpressions": [expression]}}});
        let cases = [
            (
                json!({"computer": {"names": ["a"]}}),
                "computer: there is no role \"computer\" (did you mean \"compute\"?); choose from compute; a role with another name needs `labels`",
            ),
            (json!({"compute": {}}), "compute: has no nodes for the role"),
            (json!({"own": {"names": ["a"], "labels": {"a b": "x"}}}), "own.labels: \"a b\" is not a valid label key"),
            (json!({"own": {"names": ["a"], "labels": {"A/b": "x"}}}), "own.labels: \"A/b\" is not a valid label key"),
            (
                json!({"own": {"names": ["a"], "labels": {"a": "x/y"}}}),
                "own.labels: \"x/y\" is not a valid label value",
            ),
            (json!({"compute": {"selector": {}}}), "compute.selector: is empty and would mean every node"),
            (
                json!({"compute": {"selector": {"matchLabels": {"compute": "on"}}}}),
                "compute.selector: selects by compute, which the role itself sets",
            ),
            (
                selects(json!({"key": "a", "operator": "In"})),
                "compute.selector: the operator In of key a needs `values`",
            ),
            (
                selects(json!({"key": "a", "operator": "Exists", "values": ["1"]})),
                "compute.selector: the operator Exists of key a takes no `values`",
            ),
            (selects(json!({"key": "-a", "operator": "Exists"})), "compute.selector: \"-a\" is not a valid label key"),
        ];
        for (roles, expected) in cases {
            let messages = messages(&roles);
            assert!(
                messages.len() == 1 && messages[0].starts_with(&format!("spec.nodes.roles.{expected}")),
                "{expected}\n{messages:?}"
            );
        }
        let fine = json!({"own": {"selector": {"matchLabels": {"rack": "1"}}, "labels": {"example.org/gpu": "", "x_y": "A.b"}}});
        assert_eq!(messages(&fine), Vec::<String>::new());
    }
}
