//! The operator's rights: sufficient for the catalogue's charts, and not excessive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::rules::{Deed, allowed, deeds};
use crate::{path, read, render};

/// The rendered objects of the catalogue's charts: rendered once, used by several tests.
pub static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(render::catalogue);

fn rules_of(object: &Value) -> Vec<PolicyRule> {
    serde_json::from_value(object["rules"].clone()).unwrap()
}

fn shipped() -> Vec<PolicyRule> {
    let objects = render::own(&[]);
    rules_of(objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap())
}

/// Returns the additional rights of services, by service (`rbac.services`).
fn beyond() -> BTreeMap<String, Vec<PolicyRule>> {
    let files = std::fs::read_dir(path("deploy/osdpl/rbac")).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|file| {
            let service = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = read(&format!("deploy/osdpl/rbac/{service}.yaml"));
            let rules: Vec<Value> = osdpl_values::yaml::parse(&service, &text).unwrap();
            let rules = rules.into_iter().map(|rule| serde_json::from_value(rule).unwrap()).collect();
            (service, rules)
        })
        .collect()
}

/// Returns the right to bind a role that is not among the same objects.
fn bound(objects: &[Value]) -> impl Fn(&Value) -> Vec<Deed> {
    let made: BTreeSet<String> = objects
        .iter()
        .filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role")
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    move |binding| {
        let name = binding["roleRef"]["name"].as_str().unwrap().to_owned();
        let resource = binding["roleRef"]["kind"].as_str().unwrap().to_lowercase() + "s";
        let group = "rbac.authorization.k8s.io".to_owned();
        let deed = Deed { group, resource, verb: "bind".into(), name: Some(name.clone()) };
        if made.contains(&name) { Vec::new() } else { vec![deed] }
    }
}

/// Returns the actions of helm on an object during its lifetime.
fn handled(object: &Value) -> Vec<Deed> {
    let group = object["apiVersion"].as_str().unwrap().rsplit_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let resource = match (kind.strip_suffix('y'), kind.ends_with('s')) {
        (Some(stem), _) => format!("{stem}ies"),
        (None, true) => format!("{kind}es"),
        (None, false) => format!("{kind}s"),
    };
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
fn operator_may_manage_all_chart_objects() {
    let missing = missing(&shipped(), OBJECTS.iter(), handled);
    assert!(missing.is_empty(), "add to deploy/osdpl/templates/clusterrole.yaml: {missing:#?}");
}

#[test]
fn operator_may_watch_all_chart_kinds() {
    let held = shipped();
    for kind in &osdpl_core::drift::KINDS {
        for verb in ["get", "list", "watch"] {
            let deed = Deed { group: kind.group.into(), resource: kind.plural.into(), verb: verb.into(), name: None };
            assert!(allowed(&held, &deed), "add to deploy/osdpl/templates/clusterrole.yaml: {deed}");
        }
    }
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let overlooked = OBJECTS.iter().map(|object| (text(object, "apiVersion"), text(object, "kind")));
    let overlooked = overlooked.filter(|(version, kind)| osdpl_core::drift::find_kind(version, kind).is_none());
    let overlooked: BTreeSet<_> = overlooked.map(|(_, kind)| kind).collect();
    assert!(overlooked.is_subset(&["CustomResourceDefinition".to_owned()].into()), "{overlooked:?}");
}

#[test]
fn operator_holds_all_granted_rights() {
    let roles = OBJECTS.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    assert!(roles.clone().count() > 50, "the charts make Roles");
    let missing = missing(&shipped(), roles, |role| rules_of(role).iter().flat_map(deeds).collect());
    assert!(missing.is_empty(), "add to deploy/osdpl/templates/clusterrole.yaml: {missing:#?}");
}

#[test]
fn each_service_needs_only_its_listed_rights() {
    let beyond = beyond();
    let services = render::services();
    assert!(services.len() > 10, "{:?}", services.keys());
    let mut lacking: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (service, objects) in services {
        let mut held = shipped();
        held.extend(beyond.get(&service).into_iter().flatten().cloned());
        // The CRDs in charts of other projects are kept, or in a folder that helm never deletes from.
        let handled_by_helm = objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition");
        let mut missing_here = missing(&held, handled_by_helm, handled);
        let of = |kinds: [&'static str; 2]| {
            objects.iter().filter(move |object| kinds.iter().any(|kind| object["kind"] == *kind))
        };
        let granted = of(["Role", "ClusterRole"]).filter(|role| role["rules"].is_array());
        missing_here.extend(missing(&held, granted, |role| rules_of(role).iter().flat_map(deeds).collect()));
        missing_here.extend(missing(&held, of(["RoleBinding", "ClusterRoleBinding"]), bound(&objects)));
        if !missing_here.is_empty() {
            lacking.insert(service, missing_here);
        }
    }
    assert!(lacking.is_empty(), "add to deploy/osdpl/rbac/<service>.yaml: {lacking:#?}");
}

#[test]
fn services_with_extra_rights_declare_them() {
    let schema: Value = serde_json::from_str(&read("deploy/osdpl/values.schema.json")).unwrap();
    let named = &schema["properties"]["rbac"]["properties"]["services"]["items"]["enum"];
    let named: BTreeSet<String> = serde_json::from_value(named.clone()).unwrap();
    let catalog = crate::shipped();
    let says = catalog.services.iter().filter(|(_, entry)| entry.description.contains("rbac.services"));
    let says: BTreeSet<String> = says.map(|(service, _)| service.clone()).collect();
    assert_eq!(named, says);
    assert_eq!(named, beyond().into_keys().collect());
}

#[test]
fn extra_rights_are_held_only_if_listed() {
    let beyond = beyond();
    let rules = |setting: &[&str]| {
        let objects = render::own(setting);
        rules_of(objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap())
    };
    let named = rules(&["rbac.services={nagios,prometheus_node_exporter}"]);
    assert_eq!(named.len(), shipped().len() + beyond["nagios"].len() + beyond["prometheus_node_exporter"].len());
    for (service, more) in &beyond {
        let asked = service == "nagios" || service == "prometheus_node_exporter";
        for rule in more {
            assert!(!shipped().contains(rule), "{service}: {rule:?} is held by default");
            assert!(!asked || named.contains(rule), "{service}: {rule:?} is missing");
        }
    }
}

#[test]
fn no_wildcard_escalate_bind_or_impersonate() {
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
fn crds_of_clouds_can_not_be_deleted() {
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
