//! Checks that the operator's rights are sufficient for the catalogue's charts, and not excessive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::rules::{Permission, allowed, permissions};
use crate::{path, read, render};

/// The rendered objects of the catalogue's charts. Several tests use the objects, so they are rendered only once.
pub static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(render::catalogue);

fn rules_of(object: &Value) -> Vec<PolicyRule> {
    serde_json::from_value(object["rules"].clone()).unwrap()
}

/// The rights that the operator's chart grants.
#[derive(Clone)]
struct Rights {
    /// The rules for cluster-scoped objects. These rules also apply in every namespace.
    cluster: Vec<PolicyRule>,
    /// The rules that apply in the cloud's namespaces, which the chart's value `namespaces` lists. These rules include
    /// the rules in `cluster`.
    namespaces: Vec<PolicyRule>,
}

impl Rights {
    /// Returns the rights that the chart grants with these settings, each an argument of `--set`.
    fn with(settings: &[&str]) -> Self {
        let objects = render::own(settings);
        let rules = |name: &str| rules_of(objects.iter().find(|object| is_role(object, "ClusterRole", name)).unwrap());
        let cluster = rules("osdpl");
        Self { namespaces: [rules("osdpl-namespaced"), cluster.clone()].concat(), cluster }
    }

    /// Returns the rules that apply to an object: `namespaces` for a namespaced object, and `cluster` for a
    /// cluster-scoped object.
    fn for_object(&self, object: &Value) -> &[PolicyRule] {
        let kind = object["kind"].as_str().unwrap();
        let is_namespaced = osdpl_core::drift::find_kind(object["apiVersion"].as_str().unwrap(), kind)
            .map_or(kind != "CustomResourceDefinition", |known| known.namespaced);
        if is_namespaced { &self.namespaces } else { &self.cluster }
    }
}

fn is_role(object: &Value, kind: &str, name: &str) -> bool {
    object["kind"] == kind && object["metadata"]["name"] == name
}

fn shipped() -> Rights {
    Rights::with(&[])
}

/// Returns the rights in each file of `deploy/osdpl/rbac`, by service. The operator's chart grants the rights of a
/// service only if the chart's setting `rbac.services` contains this service.
fn additional_rules() -> BTreeMap<String, Vec<PolicyRule>> {
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

/// Returns a function from a binding to the rights that the operator needs to create the binding.
///
/// A binding refers to a role. The operator needs the right to bind this role, unless the operator holds all rights of
/// the role. If the operator has created the role, it holds all these rights, because it needs them to create the role.
fn needed_to_bind(objects: &[Value]) -> impl Fn(&Value) -> Vec<Permission> {
    let created: BTreeSet<String> = objects
        .iter()
        .filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role")
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    move |binding| {
        let name = binding["roleRef"]["name"].as_str().unwrap().to_owned();
        let resource = binding["roleRef"]["kind"].as_str().unwrap().to_lowercase() + "s";
        let group = "rbac.authorization.k8s.io".to_owned();
        let permission = Permission { group, resource, verb: "bind".into(), name: Some(name.clone()) };
        if created.contains(&name) { Vec::new() } else { vec![permission] }
    }
}

/// Returns the rights that helm needs to create, read, change and delete an object.
fn needed_for(object: &Value) -> Vec<Permission> {
    let group = object["apiVersion"].as_str().unwrap().rsplit_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let resource = match (kind.strip_suffix('y'), kind.ends_with('s')) {
        (Some(stem), _) => format!("{stem}ies"),
        (None, true) => format!("{kind}es"),
        (None, false) => format!("{kind}s"),
    };
    let is_kept =
        object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" && kind == "customresourcedefinition";
    let verbs = ["create", "get", "list", "patch", "update", "watch", "delete"];
    let verbs = verbs.iter().filter(|verb| !(is_kept && **verb == "delete"));
    verbs
        .map(|verb| Permission { group: group.into(), resource: resource.clone(), verb: (*verb).into(), name: None })
        .collect()
}

fn missing<'a>(
    granted: &Rights,
    wanted: impl Iterator<Item = &'a Value>,
    of: impl Fn(&Value) -> Vec<Permission>,
) -> BTreeSet<String> {
    let lacking = wanted.flat_map(|object| {
        let granted = granted.for_object(object);
        let lacking = of(object).into_iter().filter(|permission| !allowed(granted, permission));
        lacking.map(|permission| permission.to_string()).collect::<Vec<_>>()
    });
    lacking.collect()
}

#[test]
fn operator_may_manage_all_chart_objects() {
    let missing = missing(&shipped(), OBJECTS.iter(), needed_for);
    assert!(missing.is_empty(), "add to deploy/osdpl/templates/clusterrole.yaml: {missing:#?}");
}

#[test]
fn operator_may_watch_all_chart_kinds() {
    let granted = shipped();
    for kind in &osdpl_core::drift::KINDS {
        for verb in ["get", "list", "watch"] {
            let permission =
                Permission { group: kind.group.into(), resource: kind.plural.into(), verb: verb.into(), name: None };
            let rules = if kind.namespaced { &granted.namespaces } else { &granted.cluster };
            assert!(allowed(rules, &permission), "add to deploy/osdpl/templates/clusterrole.yaml: {permission}");
        }
    }
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let unknown = OBJECTS.iter().map(|object| (text(object, "apiVersion"), text(object, "kind")));
    let unknown = unknown.filter(|(version, kind)| osdpl_core::drift::find_kind(version, kind).is_none());
    let unknown: BTreeSet<_> = unknown.map(|(_, kind)| kind).collect();
    assert!(unknown.is_subset(&["CustomResourceDefinition".to_owned()].into()), "{unknown:?}");
}

#[test]
fn operator_holds_all_granted_rights() {
    let roles = OBJECTS.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    assert!(roles.clone().count() > 50, "the charts must contain more than 50 Roles and ClusterRoles");
    let missing = missing(&shipped(), roles, |role| rules_of(role).iter().flat_map(permissions).collect());
    assert!(missing.is_empty(), "add to deploy/osdpl/templates/clusterrole.yaml: {missing:#?}");
}

#[test]
fn each_service_needs_only_its_listed_rights() {
    let additional = additional_rules();
    let services = render::services();
    assert!(services.len() > 10, "{:?}", services.keys());
    let mut lacking: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (service, objects) in services {
        let mut granted = shipped();
        let more: Vec<_> = additional.get(&service).into_iter().flatten().cloned().collect();
        granted.cluster.extend(more.clone());
        granted.namespaces.extend(more);
        // Leave out CRDs, because the operator needs no right to delete them: helm never deletes a CRD of these charts.
        // Each CRD has the annotation `helm.sh/resource-policy: keep`, or is in the folder `crds` of its chart.
        let handled_by_helm = objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition");
        let mut missing_rights = missing(&granted, handled_by_helm, needed_for);
        let of = |kinds: [&'static str; 2]| {
            objects.iter().filter(move |object| kinds.iter().any(|kind| object["kind"] == *kind))
        };
        let roles = of(["Role", "ClusterRole"]).filter(|role| role["rules"].is_array());
        missing_rights.extend(missing(&granted, roles, |role| rules_of(role).iter().flat_map(permissions).collect()));
        missing_rights.extend(missing(&granted, of(["RoleBinding", "ClusterRoleBinding"]), needed_to_bind(&objects)));
        if !missing_rights.is_empty() {
            lacking.insert(service, missing_rights);
        }
    }
    assert!(lacking.is_empty(), "add to deploy/osdpl/rbac/<service>.yaml: {lacking:#?}");
}

#[test]
fn services_with_extra_rights_declare_them() {
    let schema: Value = serde_json::from_str(&read("deploy/osdpl/values.schema.json")).unwrap();
    let listed = &schema["properties"]["rbac"]["properties"]["services"]["items"]["enum"];
    let listed: BTreeSet<String> = serde_json::from_value(listed.clone()).unwrap();
    let catalog = crate::shipped();
    let described = catalog.services.iter().filter(|(_, entry)| entry.description.contains("rbac.services"));
    let described: BTreeSet<String> = described.map(|(service, _)| service.clone()).collect();
    assert_eq!(listed, described);
    assert_eq!(listed, additional_rules().into_keys().collect());
}

#[test]
fn extra_rights_are_held_only_if_listed() {
    let additional = additional_rules();
    let shipped = shipped().cluster;
    let with_services = Rights::with(&["rbac.services={nagios,prometheus_node_exporter}"]).cluster;
    assert_eq!(
        with_services.len(),
        shipped.len() + additional["nagios"].len() + additional["prometheus_node_exporter"].len()
    );
    for (service, more) in &additional {
        let is_enabled = service == "nagios" || service == "prometheus_node_exporter";
        for rule in more {
            assert!(!shipped.contains(rule), "{service}: by default, the operator must not hold {rule:?}");
            assert!(
                !is_enabled || with_services.contains(rule),
                "{service}: with rbac.services, the operator must hold {rule:?}"
            );
        }
    }
}

#[test]
fn no_wildcard_escalate_bind_or_impersonate() {
    for rule in Rights::with(&["rbac.clusterWide=true", "rbac.rook={rook-ceph}"]).namespaces {
        assert!(rule.non_resource_urls.is_none(), "{rule:?}");
        for permission in permissions(&rule) {
            let parts = [&permission.group, &permission.resource, &permission.verb];
            assert!(parts.iter().all(|part| !part.contains('*')), "{permission}");
            assert!(
                !["escalate", "bind", "impersonate", "deletecollection"].contains(&permission.verb.as_str()),
                "{permission}"
            );
            assert!(
                !["serviceaccounts/token", "pods/exec", "pods/attach"].contains(&permission.resource.as_str()),
                "{permission}"
            );
        }
    }
}

#[test]
fn crds_of_clouds_can_not_be_deleted() {
    let permission = |group: &str, resource: &str| Permission {
        group: group.into(),
        resource: resource.into(),
        verb: "delete".into(),
        name: None,
    };
    let granted = Rights::with(&["rbac.clusterWide=true"]).namespaces;
    assert!(!allowed(&granted, &permission("apiextensions.k8s.io", "customresourcedefinitions")));
    assert!(!allowed(&granted, &permission("osdpl.dev", "openstackdeployments")));
    assert!(!allowed(&granted, &permission("", "namespaces")));
}

/// The operator's rights for cluster-scoped objects by default: each resource with its API group, and the verbs.
const CLUSTER_SCOPED: [(&str, &str); 11] = [
    ("clusterissuers (cert-manager.io)", "create delete get list patch update watch"),
    ("clusterrolebindings (rbac.authorization.k8s.io)", "create delete get list patch update watch"),
    ("clusterroles (rbac.authorization.k8s.io)", "create delete get list patch update watch"),
    ("customresourcedefinitions (apiextensions.k8s.io)", "create get list patch update watch"),
    ("namespaces (core)", "get list watch"),
    ("nodemaintenances (osdpl.dev)", "get list patch update watch"),
    ("nodemaintenances/finalizers (osdpl.dev)", "patch update"),
    ("nodemaintenances/status (osdpl.dev)", "patch update"),
    ("nodes (core)", "get list patch watch"),
    ("servicecidrs (networking.k8s.io)", "list"),
    ("storageclasses (storage.k8s.io)", "get list watch"),
];

/// The operator's rights for namespaced objects in every namespace by default, in the form of [`CLUSTER_SCOPED`]. Some
/// rights apply only to objects with a certain name, which follows the API group.
const IN_EVERY_NAMESPACE: [(&str, &str); 7] = [
    ("events (core)", "create patch"),
    ("events (events.k8s.io)", "create patch"),
    ("leases (coordination.k8s.io) osdpl", "list"),
    ("openstackdeployments (osdpl.dev)", "get list patch update watch"),
    ("openstackdeployments/finalizers (osdpl.dev)", "patch update"),
    ("openstackdeployments/status (osdpl.dev)", "patch update"),
    ("services (core) kubernetes", "get"),
];

/// By default, the operator has only the rights in [`CLUSTER_SCOPED`] and [`IN_EVERY_NAMESPACE`], and rights in the
/// namespaces of clouds.
#[test]
fn rights_are_limited_to_the_namespaces() {
    let expected = CLUSTER_SCOPED
        .iter()
        .chain(&IN_EVERY_NAMESPACE)
        .flat_map(|(object, verbs)| verbs.split(' ').map(move |verb| format!("{verb} {object}")));
    let held = shipped().cluster.iter().flat_map(permissions).map(|one| one.to_string()).collect::<BTreeSet<_>>();
    assert_eq!(held, expected.collect());
    let roles = render::own(&[]).into_iter().filter(|object| object["rules"].is_array());
    let rook = roles.filter(|role| role["rules"].to_string().contains("ceph.rook.io"));
    assert_eq!(rook.count(), 0, "without rbac.rook, the operator must have no rights for Rook");
    let bindings = |settings: &[&str], name: &str| -> Vec<String> {
        let objects = render::own(settings).into_iter();
        let bindings = objects.filter(|object| object["roleRef"]["name"] == name);
        bindings.map(|object| format!("{} {}", object["kind"], object["metadata"]["namespace"])).collect()
    };
    let namespaced = "osdpl-namespaced";
    assert_eq!(bindings(&[], namespaced), [r#""RoleBinding" "openstack""#]);
    assert_eq!(bindings(&["namespaces={a,b}"], namespaced), [r#""RoleBinding" "a""#, r#""RoleBinding" "b""#]);
    assert_eq!(bindings(&["rbac.clusterWide=true"], namespaced), [r#""ClusterRoleBinding" null"#]);
    assert_eq!(bindings(&[], "osdpl-rook"), [""; 0]);
    assert_eq!(bindings(&["rbac.rook={rook-ceph}"], "osdpl-rook"), [r#""RoleBinding" "rook-ceph""#]);
}

#[test]
fn rights_for_nodes_and_evictions_can_be_switched_off() {
    let permission = |resource: &str, verb: &str| Permission {
        group: String::new(),
        resource: resource.into(),
        verb: verb.into(),
        name: None,
    };
    let (without, with) = (Rights::with(&["rbac.nodes=false", "rbac.evictions=false"]), shipped());
    for permission in [permission("nodes", "patch"), permission("pods/eviction", "create")] {
        assert!(allowed(&with.namespaces, &permission) && !allowed(&without.namespaces, &permission), "{permission}");
    }
    assert!(allowed(&without.cluster, &permission("nodes", "list")));
    let creates = permission("namespaces", "create");
    assert!(!allowed(&with.cluster, &creates) && allowed(&Rights::with(&["rbac.clusterWide=true"]).cluster, &creates));
}

/// The rules of each role, of each template block (`if`, `with`, `range`) and of each service begin with a comment that
/// gives their reason.
#[test]
fn each_block_of_rights_has_a_reason() {
    let services = additional_rules().into_keys().map(|service| format!("deploy/osdpl/rbac/{service}.yaml"));
    let mut unexplained = Vec::new();
    for file in services.chain(["deploy/osdpl/templates/clusterrole.yaml".to_owned()]) {
        let mut has_reason = false;
        for (index, line) in read(&file).lines().enumerate() {
            let line = line.trim_start();
            let starts_block =
                ["---", "{{- if ", "{{- with ", "{{- range "].iter().any(|start| line.starts_with(start));
            has_reason = line.starts_with('#') || (has_reason && !starts_block);
            if line.starts_with("- apiGroups:") && !has_reason {
                unexplained.push(format!("{file}:{}", index + 1));
            }
        }
    }
    assert!(unexplained.is_empty(), "write a comment before these rules: {unexplained:#?}");
}
