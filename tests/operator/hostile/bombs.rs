//! Tests additions to the catalogue whose expressions would run for hours or create gigabytes of values, and additions
//! whose YAML aliases stand for gigabytes of text. osdpl stops such an expression early, and refuses such a file. The
//! status and the webhook name the location and the remedy. The operator's liveness probe succeeds all the time, and
//! other resources are not affected.

use std::collections::BTreeMap;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use osdpl_core::api::{OpenStackDeployment, reason};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::memory::Baseline;
use crate::cloud::{NAME, StatusAccess, services};
use crate::operator::Operator;
use crate::proxy::connector;
use crate::webhook::Webhook;
use crate::world::{World, run_test, with_timeout};

/// The name of the ConfigMap that contains the addition, and of the preset in this addition.
const BOMB: &str = "bomb";

/// Returns an addition with a preset that sets one value if the condition `when` is true.
fn addition(value: &Value, when: &str) -> Value {
    let fragment = json!({
        "when": when, "releases": {"memcached": {"values": {"conf": {"memcached": {"memory": value}}}}},
    });
    preset(&json!([fragment]))
}

fn preset(fragments: &Value) -> Value {
    let preset = json!({
        "preset": BOMB, "description": "A test.", "services": ["memcached"], "fragments": fragments,
    });
    json!({format!("presets.{BOMB}.yaml"): preset.to_string()})
}

/// Writes the ConfigMap [`BOMB`] with this data.
async fn write(world: &World, data: &Value) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": BOMB}, "data": data});
    let params = PatchParams::apply("test").force();
    world.api::<ConfigMap>().patch(BOMB, &params, &Patch::Apply(map)).await.unwrap();
}

/// Returns an expression for a list of this length.
fn list(length: usize) -> String {
    format!("[{}]", vec!["1"; length].join(","))
}

/// Returns additions whose aliases repeat a text of 16 KiB: 24 files that stand for 64 MiB each, and two files that are
/// too large only together.
fn aliases() -> [Value; 2] {
    let preset = |name: &str, aliases: usize| {
        let text = format!("&a {}{}", "x".repeat(16 << 10), ", *a".repeat(aliases));
        let release = format!("{{memcached: {{values: {{conf: [{text}]}}}}}}");
        let text = format!(
            "preset: {name}\ndescription: A test.\nservices: [memcached]\nfragments: [{{releases: {release}}}]\n"
        );
        (format!("presets.{name}.yaml"), text)
    };
    let names = (1..24).map(|index| format!("{BOMB}{index}")).chain([BOMB.to_owned()]);
    let separately: BTreeMap<_, _> = names.map(|name| preset(&name, 4000)).collect();
    let together = BTreeMap::from([preset("alarm", 180), preset(BOMB, 180)]);
    [json!(separately), json!(together)]
}

/// Returns expressions whose time or memory grows exponentially with the number of nested or chained calls, or which
/// compare long texts and keys thousands of times.
fn bombs() -> [String; 6] {
    let numbers = list(60);
    let nested = (0..8).fold("true".to_owned(), |body, depth| format!("{numbers}.all(x{depth}, {body})"));
    let swallowed = format!("({nested}) || true");
    let doubled = format!("'aaaaaaaaaa'{} == 'a'", ".replace('a', 'aaaaaaaaaa')".repeat(9));
    let lists = (0..8).fold("[1]".to_owned(), |inner, _| format!("[{inner}].map(l, {numbers}.map(i, l))[0]"));
    let text = format!("['aaaaaaaaaa'{}]", ".replace('a', 'aaaaaaaaaa')".repeat(5));
    let compared = format!("{text}.all(t, {numbers}.all(b, {numbers}.all(c, t <= t)))");
    let keys = format!("{text}.all(t, [{{t: 1}}].all(m, {numbers}.all(b, {numbers}.all(c, t in m))))");
    [nested, swallowed, doubled, format!("{lists} == []"), compared, keys]
}

/// Waits until the cloud is not Ready, and the message of its Ready condition contains this text. Returns the message.
async fn until_refused(world: &World, text: &str) -> String {
    let find = |cloud: &OpenStackDeployment| {
        let message = cloud.condition("Ready")?.message;
        (!cloud.is_ready() && message.contains(text)).then_some(message)
    };
    world.until(&format!("the status contains {text:?}"), find).await
}

/// Checks that the operator still reacts to other resources: creates another OpenStackDeployment, waits until the
/// operator has written its status, and deletes it.
async fn check_other_resource(world: &World) {
    let other = "cumulus";
    world.apply_as(other, &services(&["mariadb"])).await;
    let is_ignored = |cloud: &OpenStackDeployment| (cloud.reason() == reason::OLDER_RESOURCE).then_some(());
    world.until_of(other, "the operator writes the status of another resource", is_ignored).await;
    world.delete_named(other).await;
}

/// The maximum number of reconcile passes between the write of an addition and the refusal in the status. One pass
/// refuses the addition, but the writes of the addition and of the status start further passes.
const PASSES: u64 = 10;

impl Webhook {
    /// Asks the webhook to review the creation of this object, as the API server does. Returns the HTTP status and the
    /// body of the response.
    async fn review(&self, object: &Value) -> (StatusCode, String) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = connector(&self.certificate).connect(name, stream).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let namespace = &object["metadata"]["namespace"];
        let request = json!({
            "uid": "1", "operation": "CREATE", "namespace": namespace, "object": object, "oldObject": null,
        });
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let request = Request::post(osdpl_operator::webhook::PATH).header("host", self.address.to_string());
        let request = request.body(Full::<Bytes>::from(review.to_string())).unwrap();
        let response = async {
            let response = sender.send_request(request).await.unwrap();
            (response.status(), response.into_body().collect().await.unwrap().to_bytes())
        };
        let (status, body) = tokio::select! {
            response = response => response,
            ended = connection => panic!("the webhook has ended the connection: {ended:?}"),
        };
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Sends a resource with this spec to the webhook until the webhook has reviewed it. Returns the response. On a
    /// slow machine, the webhook may first respond that the client should try again.
    async fn reviewed(&self, world: &World, spec: &Value) -> String {
        let object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": NAME, "namespace": world.namespace}, "spec": spec,
        });
        let reviewed = async {
            loop {
                let (status, response) = self.review(&object).await;
                world.record_response("an AdmissionReview", response.as_bytes());
                match status {
                    StatusCode::OK => return response,
                    StatusCode::SERVICE_UNAVAILABLE => println!("the webhook has not reviewed it: {response}"),
                    other => panic!("{other}: {response}"),
                }
            }
        };
        with_timeout("the webhook reviews the resource", reviewed).await
    }
}

/// Starts an operator with a cloud whose spec names the addition. At first, the addition has the content `harmless`.
async fn start(world: &World, webhook: &Webhook, harmless: &Value) -> (Operator, Value) {
    webhook.write_certificate();
    write(world, harmless).await;
    let operator = world.operator().arguments(&webhook.arguments()).start().await;
    let mut spec = services(&[]);
    (spec["presets"], spec["catalog"]) = (json!([BOMB]), json!([{"name": BOMB}]));
    spec["approval"] = json!("Automatic");
    world.apply(&spec).await;
    world.until_ready().await;
    (operator, spec)
}

/// Checks that the operator and its webhook refuse an addition, and name the remedy and the location of the expression
/// or alias.
async fn check_refused(
    world: &World,
    operator: &Operator,
    webhook: &Webhook,
    spec: &Value,
    addition: &Value,
    remedy: &str,
) {
    let place = format!("{}/{BOMB}", world.namespace);
    let passes = || operator.metric("osdpl_reconciles_total", "");
    let before = passes();
    write(world, addition).await;
    let message = until_refused(world, remedy).await;
    let passes = passes() - before;
    println!("the operator needed {passes} passes to refuse the addition");
    assert!(passes <= PASSES, "the operator needed too many passes to refuse the addition: {passes}");
    assert!(message.contains(&place) && message.contains("presets.bomb.yaml"), "{message}");
    let response = webhook.reviewed(world, spec).await;
    assert!([remedy, place.as_str(), "presets.bomb.yaml"].iter().all(|part| response.contains(part)), "{response}");
    check_other_resource(world).await;
}

#[test]
fn additions_use_bounded_time_and_memory() {
    run_test("bombs", async |world| {
        let remedy = "an expression may take at most 400000 steps and create at most 8 MiB of values; use shorter";
        let (harmless, webhook) = (addition(&json!(300), "true"), Webhook::new(world));
        let (operator, spec) = start(world, &webhook, &harmless).await;
        let baseline = Baseline::of(&operator);
        let explosions = async {
            for bomb in bombs() {
                for addition in [addition(&json!(format!("${{{bomb}}}")), "true"), addition(&json!(300), &bomb)] {
                    check_refused(world, &operator, &webhook, &spec, &addition, remedy).await;
                    baseline.check(&bomb[..40]);
                    write(world, &harmless).await;
                    world.until_ready().await;
                }
            }
            for addition in aliases() {
                check_refused(world, &operator, &webhook, &spec, &addition, "use fewer aliases").await;
                baseline.check("aliases");
                write(world, &harmless).await;
                world.until_ready().await;
            }
        };
        Box::pin(operator.live_during(explosions)).await;
        assert_eq!(world.helm_runs().len(), 1, "a refused addition must not start helm");
        assert_eq!(operator.metric("osdpl_reconcile_failures_total", ""), 0);
    });
}
