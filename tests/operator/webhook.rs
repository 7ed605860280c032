//! The validating webhook: the API server calls the operator before it accepts an OpenStackDeployment.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use cluster::output_with_input;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::cloud::NAME;
use crate::world::{World, run_test, with_timeout};

/// The name of the webhook's configuration.
pub const HOOK: &str = "osdpl-test";

/// The address at which an operator serves the webhook, and the paths of the webhook's certificate and key.
pub struct Webhook {
    pub address: SocketAddr,
    pub certificate: String,
    key: String,
}

impl Webhook {
    /// Chooses a free port for the webhook, and the paths of the certificate and its key in the test's folder.
    pub fn new(world: &World) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| world.folder.path().join(name));
        let [certificate, key] = [certificate, key].map(|path| path.to_str().unwrap().to_owned());
        Self { address, certificate, key }
    }

    /// Writes a new self-signed certificate for 127.0.0.1, and its key, into the files. Returns the certificate.
    pub fn write_certificate(&self) -> String {
        let pair = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&pair).unwrap();
        std::fs::write(&self.key, pair.serialize_pem()).unwrap();
        std::fs::write(&self.certificate, signed.pem()).unwrap();
        signed.pem()
    }

    /// Returns the operator's arguments that enable the webhook.
    pub fn arguments(&self) -> [String; 6] {
        [
            "--webhook-listen",
            &self.address.to_string(),
            "--webhook-certificate",
            &self.certificate,
            "--webhook-key",
            &self.key,
        ]
        .map(str::to_owned)
    }

    /// Registers the webhook at the API server. When the API server calls the webhook, it trusts only the certificate
    /// `authority`.
    pub async fn register(&self, world: &World, authority: &str) {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
        let url = format!("https://{}/validate", self.address);
        let hook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": HOOK},
            "webhooks": [{
                "name": "validate.osdpl.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore", "timeoutSeconds": 5,
                "rules": [{"apiGroups": ["osdpl.dev"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["openstackdeployments"]}],
                "clientConfig": {"url": url, "caBundle": ByteString(authority.as_bytes().to_vec())},
            }],
        });
        api.patch(HOOK, &PatchParams::apply("test").force(), &Patch::Apply(hook)).await.unwrap();
    }
}

/// Runs `kubectl apply --dry-run=server` for a resource with this spec. Returns whether the API server accepted it, and
/// kubectl's error output.
fn dry_run(world: &World, spec: &Value) -> (bool, String) {
    let object = json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
        "metadata": {"name": NAME, "namespace": world.namespace}, "spec": spec,
    });
    let mut command = Command::new(world.cluster().kubectl().unwrap());
    command.arg("--kubeconfig").arg(world.cluster().kubeconfig());
    command.args(["apply", "--server-side", "--dry-run=server", "-f", "-"]);
    let output = output_with_input(&mut command, &object.to_string()).unwrap();
    world.record_output(&["kubectl", "apply", "--dry-run=server"], &output);
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// Waits until the API server refuses the spec, and returns kubectl's error output. The API server applies a changed
/// webhook configuration after a delay, and does not report when it does so.
async fn until_refused(world: &World, spec: &Value) -> String {
    let refused = async {
        loop {
            let (is_accepted, output) = dry_run(world, spec);
            if !is_accepted {
                return output;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    with_timeout("the webhook refuses the spec", refused).await
}

#[test]
fn standby_serves_the_webhook() {
    run_test("webhook-standby", async |world| {
        let webhook = Webhook::new(world);
        let authority = webhook.write_certificate();
        let _active = world.operator().pod("active").start().await;
        world.until_holder("active").await;
        let standby = world.operator().pod("standby").arguments(&webhook.arguments()).start().await;
        webhook.register(world, &authority).await;
        let output = until_refused(world, &json!({"openstackRelease": "2026.1", "presets": ["hA"]})).await;
        assert!(output.contains("spec.presets[0]: there is no preset \"hA\""), "{output}");
        assert!(standby.readiness().starts_with("ok: standby"), "{}", standby.readiness());
        let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
        api.delete(HOOK, &DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn webhook_refuses_errors_and_shows_warnings() {
    run_test("webhook", async |world| {
        let webhook = Webhook::new(world);
        let authority = webhook.write_certificate();
        let operator = world.operator().arguments(&webhook.arguments()).start().await;
        webhook.register(world, &authority).await;

        let invalid = json!({"openstackRelease": "2026.1", "presets": ["compute", "hA"], "features": {"netwrok": {}}});
        let output = until_refused(world, &invalid).await;
        assert!(output.contains("spec.presets[1]: there is no preset \"hA\" (did you mean \"ha\"?)"), "{output}");
        assert!(
            output.contains("spec.features.netwrok: there is no feature \"netwrok\" (did you mean \"network\"?)"),
            "{output}"
        );

        let questionable = json!({"openstackRelease": "2026.1", "presets": ["compute"], "publicDomain": "cloud", "storageClass": "nowhere"});
        let (is_accepted, output) = dry_run(world, &questionable);
        assert!(is_accepted && output.contains("Warning: spec.publicDomain: cloud is a single label"), "{output}");
        assert!(output.contains("Warning: spec.storageClass: there is no StorageClass \"nowhere\""), "{output}");

        // Renew the certificate. The API server trusts only the new certificate, so the operator must use the new
        // certificate without a restart.
        let authority = webhook.write_certificate();
        webhook.register(world, &authority).await;
        assert!(until_refused(world, &invalid).await.contains("there is no preset"));

        // With the failure policy `Ignore`, the API server accepts resources while the operator is down.
        operator.kill();
        let (is_accepted, output) = dry_run(world, &invalid);
        assert!(is_accepted, "{output}");
        let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
        api.delete(HOOK, &DeleteParams::default()).await.unwrap();
    });
}
