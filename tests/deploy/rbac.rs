//! The operator's rights: enough for the catalogue's charts, and nothing that would be too much for anyone.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::render;
use crate::rules::{Deed, allowed, deeds};

/// What the catalogue's charts render: rendered once, used by several tests.
pub static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(render::catalogue);

fn rules_of(object: &Value) -> Vec<PolicyRule> {
    serde_json::from_value(object["rules"].clone()).unwrap()
}

fn shipped() -> Vec<PolicyRule> {
    let objects = render::own(&[]);
    rules_of(objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap())
}

/// What helm does with an object over its life.
fn handled(object: &Value) -> Vec<Deed> {
    let group = object["apiVersion"].as_str().unwrap().rsplit_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let resource = if let Some(stem) = kind.strip_suffix('y') { format!("{stem}ies") } else { format!("{kind}s") };
    let kept =
        object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" && kind == "customresourcedefinition";
    let verbs = ["create", "get", "list", "patch", "update", "watch", "delete"];
    let verbs = verbs.iter().filter(|verb| !(kept && **verb == "delete"));
    verbs
        .map(|verb| Deed { group: group.into(), resource: resource.clone(), verb: (*verb).into(), name: None })
        .collect()
}

fn missing<'a>(
    held: &[PolicyRule],
    wanted: impl Iterator<Item = &'a Value>,
    of: impl Fn(&Value) -> Vec<Deed>,
) -> BTreeSet<String> {
    wanted.flat_map(of).filter(|deed| !allowed(held, deed)).map(|deed| deed.to_string()).collect()
}

#[test]
fn the_operator_may_handle_whatever_the_charts_create() {
    let missing = missing(&shipped(), OBJECTS.iter(), handled);
    assert!(missing.is_empty(), "add to deploy/osdpl/templates/clusterrole.yaml: {missing:#?}");
}

#[test]
fn the_operator_may_watch_every_kind_that_it_looks_after_and_overlooks_none_that_charts_create() {
    let held = shipped();
    for kind in &osdpl::drift::KINDS {
        for verb in ["get", "list", "watch"] {
            let deed = Deed { group: kind.group.into(), resource: kind.plural.into(), verb: verb.into(), name: None };
            assert!(allowed(&held, &deed), "add to deploy/osdpl/templates/clusterrole.yaml: {deed}");
        }
    }
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let overlooked = OBJECTS.iter().map(|object| (text(object, "apiVersion"), text(object, "kind")));
    let overlooked = overlooked.filter(|(version, kind)| osdpl::drift::kind(version, kind).is_none());
    let overlooked: BTreeSet<_> = overlooked.map(|(_, kind)| kind).collect();
    assert!(overlooked.is_subset(&["CustomResourceDefinition".to_owned()].into()), "{overlooked:?}");
}

#[test]
fn the_operator_holds_whatever_the_charts_grant() {
    let roles = OBJECTS.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    assert!(roles.clone().count() > 50, "the charts make Roles");
    let missing = missing(&shipped(), roles, |role| rules_of(role).iter().flat_map(deeds).collect());
    assert!(missing.is_empty(), "add to deploy/osdpl/templates/clusterrole.yaml: {missing:#?}");
}

#[test]
fn no_wildcard_no_escalate_no_bind_no_impersonate() {
    for rule in shipped() {
        assert!(rule.non_resource_urls.is_none(), "{rule:?}");
        for deed in deeds(&rule) {
            let words = [&deed.group, &deed.resource, &deed.verb];
            assert!(words.iter().all(|word| !word.contains('*')), "{deed}");
            assert!(!["escalate", "bind", "impersonate", "deletecollection"].contains(&deed.verb.as_str()), "{deed}");
            assert!(!["serviceaccounts/token", "pods/exec", "pods/attach"].contains(&deed.resource.as_str()), "{deed}");
        }
    }
}

#[test]
fn no_cloud_can_be_deleted_with_the_definition_of_its_kind() {
    let deed = |group: &str, resource: &str| Deed {
        group: group.into(),
        resource: resource.into(),
        verb: "delete".into(),
        name: None,
    };
    let held = shipped();
    assert!(!allowed(&held, &deed("apiextensions.k8s.io", "customresourcedefinitions")));
    assert!(!allowed(&held, &deed("osdpl.dev", "openstackdeployments")));
    assert!(!allowed(&held, &deed("", "namespaces")));
}
