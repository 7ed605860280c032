//! Checks the rights of people on a real API server: the roles and the `ValidatingAdmissionPolicy` of the chart.

use std::sync::LazyLock;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::{SHARED, kubectl, namespaced, run};
use crate::render::own;
use crate::resource;

/// The user of the operator's ServiceAccount.
const OPERATOR: &str = "system:serviceaccount:osdpl-system:osdpl";

static USERS: LazyLock<()> = LazyLock::new(create_users);

/// Runs kubectl as another user; returns its output, or its error.
fn kubectl_as(user: &str, arguments: &[&str]) -> Result<String, String> {
    kubectl(&[arguments, &["--as", user, "--namespace", "approvals"]].concat(), "")
}

/// Creates the roles and the policies of the operator's chart, users with different rights, and a cloud.
fn create_users() {
    let _ = run(namespaced("approvals"));
    let own = own(&["crd.create=false", "rbac.create=true"]).into_iter();
    let policies = own.filter(|object| {
        let name = object["metadata"]["name"].as_str().unwrap();
        ["osdpl-approvals", "osdpl-viewer", "osdpl-approver", "osdpl-admin"].contains(&name)
    });
    let role = |name: &str, verbs: &[&str]| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": ["osdpl.dev"], "resources": ["openstackdeployments"], "verbs": verbs}],
        })
    };
    let bind = |kind: &str, user: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        })
    };
    let binding = |user: &str, role: &str| {
        let mut binding = bind("RoleBinding", user, role);
        binding["metadata"]["namespace"] = "approvals".into();
        binding
    };
    let mut cloud = resource("{openstackRelease: '2026.1'}");
    cloud["metadata"]["namespace"] = "approvals".into();
    let others = [
        role("test-editor", &["get", "patch", "update", "create", "delete"]),
        binding("editor", "test-editor"),
        binding("approver", "osdpl-approver"),
        binding("admin", "osdpl-admin"),
        binding("viewer", "osdpl-viewer"),
        binding(OPERATOR, "test-editor"),
        binding("kubernetes-viewer", "view"),
        binding("kubernetes-admin", "admin"),
        bind("ClusterRoleBinding", "cluster-viewer", "osdpl-viewer"),
        bind("ClusterRoleBinding", "cluster-admin-of-clouds", "osdpl-admin"),
        cloud,
    ];
    let items: Vec<Value> = policies.chain(others).collect();
    assert_eq!(items.len(), 5 + 11);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &list).unwrap();
    until_enforced();
}

/// Waits until the API server enforces the new `ValidatingAdmissionPolicy`. The API server does so only after a delay,
/// and sends no event.
fn until_enforced() {
    let is_enforced = || {
        annotate("editor", "osdpl.dev/approve=probe", true)
            .is_err_and(|error| error.contains("may not set this annotation"))
    };
    for _ in 0..600 {
        if is_enforced() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the API server does not enforce the policy");
}

fn annotate(user: &str, annotation: &str, is_dry: bool) -> Result<String, String> {
    let dry = if is_dry { "--dry-run=server" } else { "--dry-run=none" };
    kubectl_as(user, &["annotate", "--overwrite", "osdpl", "cloud", annotation, dry])
}

#[test]
fn only_approvers_may_approve() {
    LazyLock::force(&USERS);
    for annotation in
        ["approve=1", "adopt=nova", "repair=nova", "skip-hooks=nova", "forget-nodes=n1", "delete-with-instances=c"]
    {
        let annotation = format!("osdpl.dev/{annotation}");
        let refused = annotate("editor", &annotation, false).unwrap_err();
        let name = annotation.split('=').next().unwrap();
        assert!(refused.contains(&format!("{name}: editor may not set this annotation")), "{refused}");
        assert!(refused.contains("osdpl-approver"), "{refused}");
        annotate("approver", &annotation, false).unwrap();
        annotate("admin", &format!("{annotation}2"), false).unwrap();
        annotate("editor", &format!("{annotation}3"), false).unwrap_err();
        annotate(OPERATOR, &format!("{annotation}4"), false).unwrap();
        annotate("editor", &format!("{name}-"), false).expect("everyone may withdraw a request");
    }
    annotate("editor", "example.com/note=1", false).unwrap();
    annotate("viewer", "example.com/note=2", false).unwrap_err();

    kubectl_as("admin", &["delete", "osdpl", "cloud"]).unwrap();
    let mut approved = resource("{openstackRelease: '2026.1'}");
    approved["metadata"]["annotations"] = json!({"osdpl.dev/approve": "1"});
    let create =
        |user: &str| kubectl(&["create", "-f", "-", "--as", user, "--namespace", "approvals"], &approved.to_string());
    assert!(create("editor").unwrap_err().contains("may not set this annotation"));
    create("admin").unwrap();
    kubectl_as("admin", &["delete", "osdpl", "cloud"]).unwrap();
}

#[test]
fn an_approver_may_change_only_annotations() {
    LazyLock::force(&USERS);
    let mut cloud = resource("{openstackRelease: '2026.1'}");
    cloud["metadata"]["name"] = "approved".into();
    kubectl(&["create", "-f", "-", "--as", "admin", "--namespace", "approvals"], &cloud.to_string()).unwrap();
    let edit = |user: &str, patch: &Value| {
        let patch = patch.to_string();
        kubectl_as(user, &["patch", "osdpl", "approved", "--type", "merge", "--dry-run=server", "-p", &patch])
    };
    // An approver must not set an owner that does not exist, because the garbage collector would then delete the
    // resource.
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "1"});
    for (part, patch) in [
        ("spec", json!({"spec": {"paused": true}})),
        ("metadata.labels", json!({"metadata": {"labels": {"team": "a"}}})),
        ("metadata.finalizers", json!({"metadata": {"finalizers": ["example.com/other"]}})),
        ("metadata.ownerReferences", json!({"metadata": {"ownerReferences": [owner]}})),
    ] {
        let refused = edit("approver", &patch).unwrap_err();
        let expected = format!("{part}: approver may approve changes of this resource, but not edit it");
        assert!(refused.contains(&expected), "{refused}");
        edit("editor", &patch).unwrap();
        edit("admin", &patch).unwrap();
    }
    edit("approver", &json!({"metadata": {"annotations": {"osdpl.dev/approve": "1"}}})).unwrap();
    kubectl_as("admin", &["delete", "osdpl", "approved"]).unwrap();
}

/// Sets or removes (`null`) the fields `spec.approval` and `spec.nodes.rollout.approval` of the resource `strict`.
fn set_approval(user: &str, approval: &Value, rollout: &Value) -> Result<String, String> {
    let patch = json!({"spec": {"approval": approval, "nodes": {"rollout": {"approval": rollout}}}}).to_string();
    kubectl_as(user, &["patch", "osdpl", "strict", "--type", "merge", "-p", &patch])
}

#[test]
fn only_approvers_may_let_changes_happen_without_approval() {
    LazyLock::force(&USERS);
    let create = |user: &str, spec: &str| {
        let mut cloud = resource(spec);
        cloud["metadata"]["name"] = "strict".into();
        kubectl(&["create", "-f", "-", "--as", user, "--namespace", "approvals"], &cloud.to_string())
    };
    let refusal = |field: &str| format!("{field}: editor may not let changes happen without approval");
    let refused = create("editor", "{openstackRelease: '2026.1', approval: Automatic}").unwrap_err();
    assert!(refused.contains(&refusal("spec.approval")) && refused.contains("osdpl-admin"), "{refused}");
    create("editor", "{openstackRelease: '2026.1'}").unwrap();

    let (unset, manual, automatic, always) = (json!(null), json!("Manual"), json!("Automatic"), json!("Always"));
    let refused = set_approval("editor", &automatic, &automatic).unwrap_err();
    assert!(refused.contains(&refusal("spec.approval, spec.nodes.rollout.approval")), "{refused}");
    let refused = set_approval("editor", &unset, &automatic).unwrap_err();
    assert!(refused.contains(&refusal("spec.nodes.rollout.approval")), "{refused}");
    set_approval("editor", &always, &manual).expect("an editor may ask for more approvals");
    for weaker in [&unset, &manual, &automatic] {
        let refused = set_approval("editor", weaker, &manual).unwrap_err();
        assert!(refused.contains(&refusal("spec.approval")), "{weaker}: {refused}");
    }
    set_approval("admin", &automatic, &automatic).unwrap();
    let pause = json!({"spec": {"paused": true}}).to_string();
    kubectl_as("editor", &["patch", "osdpl", "strict", "--type", "merge", "-p", &pause])
        .expect("an editor may edit a resource that already changes without approval");
    set_approval("editor", &manual, &unset).expect("an editor may ask for more approvals");
    kubectl_as("admin", &["delete", "osdpl", "strict"]).unwrap();
}

/// The verbs that the tests check. All except `approve`, which osdpl's roles define, are verbs of Kubernetes.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "patch", "update", "delete", "approve"];

/// Returns the verbs that a user may use for `resource`, in the namespace `approvals` or (`None`) in the whole cluster.
async fn verbs_of(user: &str, resource: &str, namespace: Option<&str>) -> Vec<&'static str> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let reviews: Api<SubjectAccessReview> = Api::all(SHARED.cluster.client());
    let mut allowed = Vec::new();
    for verb in VERBS {
        let attributes = json!({
            "group": "osdpl.dev", "resource": resource, "subresource": subresource, "verb": verb,
            "namespace": namespace,
        });
        let review = json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": attributes}});
        let review = serde_json::from_value(review).unwrap();
        if reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed {
            allowed.push(verb);
        }
    }
    allowed
}

/// Waits until Kubernetes' role `view` contains the rights of `osdpl-viewer`. The controller manager copies them after
/// a delay.
async fn until_aggregated() {
    let roles: Api<ClusterRole> = Api::all(SHARED.cluster.client());
    let includes = |role: Option<&ClusterRole>| {
        let mut aggregated = role.iter().flat_map(|role| &role.rules).flatten();
        aggregated.any(|rule| rule.api_groups.iter().flatten().any(|group| group == "osdpl.dev"))
    };
    for name in ["view", "admin"] {
        let aggregated = await_condition(roles.clone(), name, includes);
        tokio::time::timeout(std::time::Duration::from_mins(1), aggregated)
            .await
            .unwrap_or_else(|_| panic!("the role {name} lacks the rights of osdpl-viewer"))
            .unwrap();
    }
}

#[test]
fn roles_give_people_only_the_described_rights() {
    const READ: &[&str] = &["get", "list", "watch"];
    LazyLock::force(&USERS);
    run(async {
        until_aggregated().await;
        let (clouds, nodes) = ("openstackdeployments", "nodemaintenances");
        for (user, resource, namespace, expected) in [
            ("viewer", clouds, Some("approvals"), READ),
            ("kubernetes-viewer", clouds, Some("approvals"), READ),
            // Kubernetes' role `admin` must not include the right to create a cloud.
            ("kubernetes-admin", clouds, Some("approvals"), READ),
            ("approver", clouds, Some("approvals"), &["get", "list", "watch", "patch", "approve"]),
            ("admin", clouds, Some("approvals"), &VERBS),
            // A RoleBinding gives rights neither in other namespaces nor on cluster-scoped resources.
            ("admin", clouds, Some("default"), &[]),
            ("admin", nodes, None, &[]),
            ("cluster-viewer", clouds, Some("default"), READ),
            ("cluster-viewer", nodes, None, READ),
            ("cluster-admin-of-clouds", nodes, None, &["get", "list", "watch", "create", "patch", "update", "delete"]),
        ] {
            assert_eq!(verbs_of(user, resource, namespace).await, expected, "{user}: {resource} in {namespace:?}");
        }
        // Only the operator may write the status: it contains the releases that the operator owns.
        for user in ["viewer", "approver", "editor", "admin", "kubernetes-admin", "cluster-admin-of-clouds"] {
            for part in ["status", "finalizers"] {
                let part = format!("{clouds}/{part}");
                assert_eq!(verbs_of(user, &part, Some("approvals")).await, [""; 0], "{user}: {part}");
            }
        }
    });
}
