//! Tests an admission policy that forbids the operator to remove an annotation. The cloud must become Ready, and the
//! status must contain a warning.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{OpenStackDeployment, REPAIR, condition};
use serde_json::json;

use crate::cloud::{NAME, StatusAccess, services};
use crate::world::{World, run_test, with_timeout};

/// The name of the admission policy and of its binding.
const POLICY: &str = "keep-annotations";

/// Creates a policy that forbids everyone to remove the annotation `osdpl.dev/repair`, and waits until it is in effect.
async fn forbid(world: &World) {
    let has =
        |object: &str| format!("has({object}.metadata.annotations) && '{REPAIR}' in {object}.metadata.annotations");
    let (before, after) = (has("oldObject"), has("object"));
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": POLICY},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
                "resourceRules": [{
                    "apiGroups": ["osdpl.dev"], "apiVersions": ["v1alpha1"], "operations": ["UPDATE"], "resources": ["openstackdeployments"],
                }],
            },
            "validations": [{"expression": format!("!({before}) || {after}"), "message": "annotations are managed in Git"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    });
    let params = PatchParams::apply("test").force();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client.clone());
    policies.patch(POLICY, &params, &Patch::Apply(policy)).await.unwrap();
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
    bindings.patch(POLICY, &params, &Patch::Apply(binding)).await.unwrap();
    // The API server applies a new policy after a delay, and does not report when it does so. So repeat a dry run that
    // removes the annotation until the API server refuses it.
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    let without = Patch::Merge(json!({"metadata": {"annotations": {REPAIR: null}}}));
    let refused = async {
        while world.api::<OpenStackDeployment>().patch(NAME, &dry_run, &without).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    with_timeout("the policy is in effect", refused).await;
}

async fn allow(world: &World) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
    bindings.delete(POLICY, &DeleteParams::default()).await.unwrap();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client.clone());
    policies.delete(POLICY, &DeleteParams::default()).await.unwrap();
}

/// Returns the message of the condition Ready.
fn ready_message(cloud: &OpenStackDeployment) -> String {
    cloud.condition(condition::READY).map(|ready| ready.message).unwrap_or_default()
}

#[test]
fn refused_annotation_removal_is_only_a_warning() {
    run_test("policy", async |world| {
        world.apply(&services(&["memcached"])).await;
        world.annotate(REPAIR, json!("all")).await;
        forbid(world).await;
        let _operator = world.operator().start().await;
        let warning = "; warning: annotation osdpl.dev/repair: osdpl has done what the annotation requests, but could \
                       not remove the annotation: ";
        let has_warning = |cloud: &OpenStackDeployment| {
            let message = ready_message(cloud);
            (cloud.is_ready() && message.contains(warning)).then_some(message)
        };
        let message = world.until("the cloud is Ready, with a warning", has_warning).await;
        assert!(message.contains("annotations are managed in Git"), "{message}");

        allow(world).await;
        let is_consumed = |cloud: &OpenStackDeployment| {
            let message = ready_message(cloud);
            (!cloud.annotations().contains_key(REPAIR) && !message.contains("annotation")).then_some(cloud.is_ready())
        };
        assert!(world.until("the operator removes the annotation when the policy allows it", is_consumed).await);
    });
}
