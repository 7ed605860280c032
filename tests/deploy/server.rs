//! Checks the shipped files on a real API server: the requests that it refuses, the fields that it keeps, and the
//! rights of the operator's service account.

use std::collections::BTreeSet;
use std::future::Future;
use std::process::Command;
use std::sync::LazyLock;

use cluster::{Cluster, Options, output_with_input};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, CustomResourceExt};
use osdpl_core::api::OpenStackDeployment;
use serde_json::{Value, json};

use crate::invalid_resources::{INVALID_RESOURCES, InvalidResource, VALID_CHANGES};
use crate::rbac::OBJECTS;
use crate::render::{HELMS, helm, own};
use crate::{path, read, resource};

#[path = "server/people.rs"]
mod people;
#[path = "server/records.rs"]
mod records;

/// The control plane that all tests of this file use. It stops when the test process exits.
struct Shared {
    runtime: tokio::runtime::Runtime,
    cluster: Cluster,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = runtime.block_on(async {
        let cluster = Cluster::start(Options::default().with_rare_garbage_collection()).await.unwrap();
        let definition = osdpl_values::yaml::parse("CRD", &read("crds/openstackdeployments.osdpl.dev.yaml")).unwrap();
        let definitions = Api::all(cluster.client());
        definitions.create(&PostParams::default(), &definition).await.unwrap();
        await_condition(definitions, OpenStackDeployment::crd_name(), conditions::is_crd_established()).await.unwrap();
        cluster
    });
    Shared { runtime, cluster }
});

fn run<T>(work: impl Future<Output = T>) -> T {
    SHARED.runtime.block_on(work)
}

async fn namespaced(name: &str) -> Api<DynamicObject> {
    let namespaces: Api<Namespace> = Api::all(SHARED.cluster.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    Api::namespaced_with(SHARED.cluster.client(), name, &OpenStackDeployment::api_resource())
}

/// Creates or replaces the resource `cloud`; returns the API server's errors as `field: message`.
async fn put(api: &Api<DynamicObject>, object: &Value) -> Result<(), Vec<String>> {
    let mut object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let answer = match api.get_opt("cloud").await.unwrap() {
        None => api.create(&PostParams::default(), &object).await,
        Some(now) => {
            object.metadata.resource_version = now.metadata.resource_version;
            api.replace("cloud", &PostParams::default(), &object).await
        }
    };
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            Err(causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect())
        }
        Err(other) => panic!("{other}"),
    }
}

async fn remove(api: &Api<DynamicObject>) {
    if api.get_opt("cloud").await.unwrap().is_some() {
        api.delete("cloud", &DeleteParams::default()).await.unwrap();
    }
}

async fn errors_of(api: &Api<DynamicObject>, case: &InvalidResource) -> Vec<String> {
    let errors = put(api, &resource(case.spec)).await.err().unwrap_or_default();
    remove(api).await;
    errors
}

/// Runs kubectl; returns its output, or its error.
fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new(SHARED.cluster.kubectl().unwrap());
    command.arg("--kubeconfig").arg(SHARED.cluster.kubeconfig()).args(arguments);
    let output = output_with_input(&mut command, input).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn refuses_invalid_resources_with_helpful_messages() {
    run(async {
        let api = namespaced("bad").await;
        let mut wrong = Vec::new();
        for case in INVALID_RESOURCES {
            let errors = errors_of(&api, case).await;
            let expected =
                |errors: &String| errors.starts_with(&format!("{}: ", case.field)) && errors.contains(case.message);
            if !errors.iter().any(expected) {
                wrong.push(format!(
                    "{}\n    expected {}: {}\n    errors {errors:?}",
                    case.spec, case.field, case.message
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for (before, after) in VALID_CHANGES {
            put(&api, &resource(before)).await.unwrap();
            put(&api, &resource(after)).await.unwrap();
            remove(&api).await;
        }
        let mut long = resource("{openstackRelease: '2026.1'}");
        long["metadata"]["name"] = "c".repeat(64).into();
        let errors = put(&api, &long).await.unwrap_err();
        assert!(errors[0].contains("metadata.name may have at most 63 characters"), "{errors:?}");
    });
}

#[test]
fn keeps_nulls_except_with_client_side_apply() {
    let _ = run(namespaced("nulls"));
    let values =
        json!({"debug": null, "conf": {"nova": {"DEFAULT": {"ram_allocation_ratio": null}}}, "list": [null, 1]});
    let mut object = resource("{openstackRelease: '2026.1'}");
    object["metadata"]["namespace"] = "nulls".into();
    object["spec"]["common"] = json!({"values": values});
    object["spec"]["services"] = json!({"nova": {"releases": {"nova": {"values": values}}}});
    object["spec"]["features"] = json!({"of_my_own": {"colour": null}});
    let text = object.to_string();
    let mut stripped = values.clone();
    stripped["conf"]["nova"]["DEFAULT"] = json!({});
    stripped.as_object_mut().unwrap().remove("debug");
    for (how, expected) in [(&["create"][..], &values), (&["apply", "--server-side"], &values), (&["apply"], &stripped)]
    {
        kubectl(&[how, &["-f", "-"]].concat(), &text).unwrap();
        let stored = kubectl(&["get", "osdpl", "cloud", "--namespace", "nulls", "-o", "json"], "").unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        assert_eq!(stored["spec"]["common"]["values"], *expected, "{how:?}");
        assert_eq!(stored["spec"]["services"]["nova"]["releases"]["nova"]["values"], *expected, "{how:?}");
        assert!(
            stored["spec"]["features"].as_object().unwrap().contains_key("of_my_own"),
            "{how:?}: the API server must keep unknown features"
        );
        kubectl(&["delete", "osdpl", "cloud", "--namespace", "nulls"], "").unwrap();
    }
}

#[test]
fn stores_integer_without_a_decimal_point() {
    run(async {
        let api = namespaced("points").await;
        let mut object = resource("{openstackRelease: '2026.1', nodes: {rollout: {pauseSeconds: 1}}}");
        object["spec"]["nodes"]["rollout"]["pauseSeconds"] = json!(60.0);
        assert!(object.to_string().contains("60.0"), "{object}");
        put(&api, &object).await.unwrap();
        let kept = api.get("cloud").await.unwrap().data;
        assert_eq!(kept["spec"]["nodes"]["rollout"]["pauseSeconds"], json!(60));
        object["spec"]["nodes"]["rollout"]["pauseSeconds"] = json!(60.5);
        assert!(put(&api, &object).await.is_err(), "the API server must refuse 60.5 as an integer");
        remove(&api).await;
    });
}

#[test]
fn kubectl_refuses_a_misspelt_field() {
    let _ = run(namespaced("typing"));
    let mut object = resource("{openstackRelease: '2026.1', features: {network: {backnd: ovn}}, servces: {}}");
    object["metadata"]["namespace"] = "typing".into();
    let errors = kubectl(&["create", "-f", "-"], &object.to_string()).unwrap_err();
    assert!(
        errors.contains("unknown field \"spec.features.network.backnd\", unknown field \"spec.servces\""),
        "{errors}"
    );
    let errors = kubectl(&["apply", "--server-side", "-f", "-"], &object.to_string()).unwrap_err();
    assert!(errors.contains("spec.servces: field not declared in schema"), "{errors}");
}

#[test]
fn columns_are_as_specified() {
    let _ = run(namespaced("columns"));
    let mut object = resource("{openstackRelease: '2026.1'}");
    object["metadata"]["namespace"] = "columns".into();
    kubectl(&["create", "-f", "-"], &object.to_string()).unwrap();
    let status = json!({"status": {"phase": "Installing", "message": "waits for mariadb/server", "components": "3/34",
        "openstackRelease": {"target": "2026.1", "deployed": "2025.2"},
        "conditions": [{"type": "Ready", "status": "False", "reason": "ReleasesInProgress", "message": "", "lastTransitionTime": "2026-11-21T00:00:00Z"}]}});
    kubectl(
        &[
            "patch",
            "osdpl",
            "cloud",
            "--namespace",
            "columns",
            "--subresource",
            "status",
            "--type",
            "merge",
            "-p",
            &status.to_string(),
        ],
        "",
    )
    .unwrap();
    let table = kubectl(&["get", "openstack", "--namespace", "columns"], "").unwrap();
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["NAME", "READY", "PHASE", "RELEASE", "TARGET", "HEALTH", "MESSAGE", "AGE"]);
    assert_eq!(words[1][..8], ["cloud", "False", "Installing", "2025.2", "2026.1", "3/34", "waits", "for"]);
}

/// With the rights of its service account, the operator may create and change each object of the charts. The API server
/// also checks that each Role grants only rights that the account holds.
#[test]
fn operator_account_may_create_all_chart_objects() {
    let _ = run(namespaced("openstack"));
    let _ = run(namespaced("osdpl-system"));
    let rights = own(&["crd.create=false", "namespaces={openstack,default}"]).into_iter().filter(|object| {
        ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
            .contains(&object["kind"].as_str().unwrap())
    });
    let list = |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    kubectl(&["apply", "--server-side", "-f", "-"], &list(rights.collect())).unwrap();
    let apply = |dry: &str, objects: Vec<Value>| {
        let account = "system:serviceaccount:osdpl-system:osdpl";
        kubectl(
            &["apply", "--server-side", "--force-conflicts", dry, "--as", account, "-o", "name", "-f", "-"],
            &list(objects),
        )
    };
    // The variants of an object for different clouds need the same rights. So keep only one object of each kind and
    // name.
    let mut objects = OBJECTS.clone();
    let mut names = BTreeSet::new();
    objects.retain(|object| names.insert((object["kind"].to_string(), object["metadata"]["name"].to_string())));
    let is_role = |object: &Value| object["kind"] == "Role" || object["kind"] == "ClusterRole";
    // When the API server checks a binding, it reads the Role. So create the Roles first, as helm does.
    apply("--dry-run=none", objects.iter().filter(|object| is_role(object)).cloned().collect()).unwrap();
    // Leave out routes, because this API server has no CRD for the kind HTTPRoute.
    let other_objects =
        objects.iter().filter(|object| !is_role(object) && object["kind"] != "HTTPRoute").cloned().collect();
    let done = apply("--dry-run=server", other_objects).unwrap();
    assert!(done.lines().count() > 300, "{done}");
    // Make sure that the API server checks the rights in a Role: it must refuse a Role with rights that the account
    // does not hold.
    let greedy = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "greedy", "namespace": "openstack"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}]});
    let errors = apply("--dry-run=server", vec![greedy]).unwrap_err();
    assert!(errors.contains("is attempting to grant RBAC permissions not currently held"), "{errors}");
}

#[test]
fn uninstalling_the_chart_keeps_every_cloud() {
    let _ = run(namespaced("kept"));
    let kubeconfig = SHARED.cluster.kubeconfig().to_str().unwrap();
    let mut object = resource("{openstackRelease: '2026.1'}");
    object["metadata"]["namespace"] = "kept".into();
    kubectl(&["create", "-f", "-"], &object.to_string()).unwrap();
    let chart = path("deploy/osdpl");
    // Do not install the chart's `ValidatingAdmissionPolicy`, because it would also apply to the resources of other
    // tests.
    for program in HELMS {
        let install = [
            "install",
            "next",
            chart.to_str().unwrap(),
            "--namespace",
            "kept",
            "--take-ownership",
            "--set",
            "namespaces={kept},approvalPolicy.create=false",
            "--kubeconfig",
            kubeconfig,
        ];
        helm(program, &install, "").unwrap();
        helm(program, &["uninstall", "next", "--namespace", "kept", "--kubeconfig", kubeconfig], "").unwrap();
        kubectl(&["get", "osdpl", "cloud", "--namespace", "kept"], "").unwrap();
    }
}

#[test]
fn installation_names_a_namespace_that_does_not_exist() {
    let (chart, kubeconfig) = (path("deploy/osdpl"), SHARED.cluster.kubeconfig());
    let _ = run(namespaced("present"));
    for program in HELMS {
        let install = |namespace: &str| {
            let namespaces = format!("namespaces={{{namespace}}}");
            let [chart, kubeconfig] = [chart.to_str().unwrap(), kubeconfig.to_str().unwrap()];
            // The cluster roles of a release with the name `osdpl` belong to another test.
            let release =
                ["install", "named", chart, "--namespace", "present", "--dry-run=server", "--set", &namespaces];
            helm(program, &[&release[..], &["--set", "crd.create=false", "--kubeconfig", kubeconfig]].concat(), "")
        };
        install("present").unwrap();
        let refused = install("absent").unwrap_err();
        assert!(refused.contains("namespace \"absent\" does not exist"), "{refused}");
        assert!(refused.contains("kubectl create namespace absent"), "{refused}");
    }
}
