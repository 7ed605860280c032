//! Tests certificates that the user provides in Secrets. If a certificate is invalid, the operator reports a warning,
//! but the cloud stays Ready. The warning disappears as soon as the user corrects the Secret.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use osdpl_core::api::{OpenStackDeployment, condition};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use serde_json::json;

use crate::cloud::StatusAccess;
use crate::world::{World, run_test};

/// Returns a new self-signed CA.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl World {
    /// Writes a certificate for these DNS names into a Secret. The certificate is valid until the end of the year
    /// `last`.
    async fn write_certificate(&self, (namespace, name): (&str, &str), names: &[String], last: i32) {
        let (issuer, key) = (authority(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(last + 1, 1, 1));
        let signed = params.signed_by(&key, &issuer).unwrap();
        let texts = json!({"tls.crt": signed.pem(), "tls.key": key.serialize_pem(), "ca.crt": issuer.pem()});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": texts});
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(secret)).await.unwrap();
    }

    /// Waits until the cloud is Ready with the warning `text`. If `text` is empty, waits until the cloud is Ready
    /// without a warning about TLS.
    async fn until_warning(&self, text: &str) {
        let is_warned = |cloud: &OpenStackDeployment| {
            let message = cloud.condition(condition::READY)?.message;
            let has_warning = message.contains("warning: spec.features.tls");
            let is_expected = if text.is_empty() { !has_warning } else { message.contains(text) };
            (is_expected && cloud.is_ready()).then_some(())
        };
        self.until(&format!("the cloud is Ready and warns of {text:?}"), is_warned).await;
    }
}

#[test]
fn invalid_provided_certificate_is_only_a_warning() {
    run_test("certificates", async |world| {
        let mut spec = world.keystone().await;
        spec["features"] = json!({"tls": {"internal": {"enabled": true, "given": true}}});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let field = format!("spec.features.tls.internal.given: Secret {}/keystone-api-tls", world.namespace);
        world.until_warning(&format!("{field} does not exist; create it")).await;
        let runs = world.helm_runs().len();

        let secret = (world.namespace.as_str(), "keystone-api-tls");
        let names = ["", ".svc.cluster.local"].map(|end| format!("keystone-api.{}{end}", world.namespace));
        let names = [&["keystone-api".to_owned()][..], &names].concat();
        world.write_certificate(secret, &names, 2024).await;
        world.until_warning(&format!("{field}: tls.crt expired at 2025-01-01T00:00:00Z")).await;
        world.write_certificate(secret, &names[..1], 2040).await;
        let missing = names[1..].join(", ");
        world.until_warning(&format!("{field}: tls.crt is not valid for {missing}: ")).await;
        let plan = world.osdpl(&["plan"]);
        assert!(plan.contains(&format!("keystone-api-tls: tls.crt is not valid for {missing}: ")), "{plan}");
        world.write_certificate(secret, &names, 2040).await;
        world.until_warning("").await;
        assert_eq!(world.helm_runs().len(), runs, "a changed certificate must not start helm");
    });
}

#[test]
fn finds_public_certificate_in_the_gateway_namespace() {
    run_test("public", async |world| {
        let gateways = format!("{}-gateways", world.namespace);
        world.permit(&gateways).await;
        let mut spec = world.keystone().await;
        spec["publicDomain"] = "cloud.example.org".into();
        spec["features"] = json!({
            "publicEndpoints": {"enabled": true, "gateway": {"name": "public", "namespace": gateways}},
            "tls": {"public": {"secretName": "public-tls", "issuer": {"name": "acme"}}},
        });
        // Remove the HTTPRoutes and Certificates from Keystone's values, because the test's cluster lacks their CRDs.
        spec["services"]["keystone"]["releases"] = json!({"keystone": {"unset": ["extraObjects"]}});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        // The operator must not warn that the Secret is missing, because in a real cluster cert-manager creates it.
        world.until_warning("").await;
        let other_names = ["glance.cloud.example.org".to_owned()];
        world.write_certificate((&world.namespace, "public-tls"), &other_names, 2040).await;
        world.write_certificate((&gateways, "public-tls"), &other_names, 2024).await;
        let field = format!("spec.features.tls.public.secretName: Secret {gateways}/public-tls");
        world.until_warning(&format!("{field}: tls.crt is not valid for keystone.cloud.example.org")).await;
        world.until_warning(&format!("{field}: tls.crt expired at 2025-01-01T00:00:00Z")).await;
        world.write_certificate((&gateways, "public-tls"), &["*.cloud.example.org".to_owned()], 2040).await;
        world.until_warning("").await;
    });
}
