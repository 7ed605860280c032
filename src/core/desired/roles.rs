//! Checks `spec.nodes.roles` for mistakes that osdpl can find without access to a cluster: unknown names, roles without
//! nodes, and invalid labels and selectors.

use super::Finding;
use super::selectors::{bad_key, bad_selector, bad_value, keys};
use crate::api::{OpenStackDeploymentSpec, RoleNodes};
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
