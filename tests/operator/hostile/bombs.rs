//! Additions to the catalogue whose expressions would run for hours or create gigabytes. Each of them costs little, and
//! the status names its location and the remedy. Other resources are not affected.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use osdpl_core::api::{OpenStackDeployment, reason};
use serde_json::{Value, json};

use super::memory::Baseline;
use crate::cloud::{StatusAccess, services};
use crate::operator::Operator;
use crate::world::{World, run_test};

/// The name of the ConfigMap, of its preset, and of the file in messages.
const BOMB: &str = "bomb";

/// Returns an addition with a preset that has one value and one condition.
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

/// Writes the ConfigMap.
async fn write(world: &World, data: &Value) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": BOMB}, "data": data});
    let params = PatchParams::apply("test").force();
    world.api::<ConfigMap>().patch(BOMB, &params, &Patch::Apply(map)).await.unwrap();
}

/// Returns a list of numbers as an expression.
fn list(length: usize) -> String {
    format!("[{}]", vec!["1"; length].join(","))
}

/// Returns expressions that take the more time or memory, the larger their exponent is.
fn bombs() -> [String; 4] {
    let numbers = list(60);
    let nested = (0..8).fold("true".to_owned(), |body, depth| format!("{numbers}.all(x{depth}, {body})"));
    let swallowed = format!("({nested}) || true");
    let doubled = format!("'aaaaaaaaaa'{} == 'a'", ".replace('a', 'aaaaaaaaaa')".repeat(9));
    let lists = (0..8).fold("[1]".to_owned(), |inner, _| format!("[{inner}].map(l, {numbers}.map(i, l))[0]"));
    [nested, swallowed, doubled, format!("{lists} == []")]
}

/// Waits until the status refuses the spec with this text, and returns the message.
async fn until_refused(world: &World, text: &str) -> String {
    let find = |cloud: &OpenStackDeployment| {
        let message = cloud.condition("Ready")?.message;
        (!cloud.is_ready() && message.contains(text)).then_some(message)
    };
    world.until(&format!("the status contains {text:?}"), find).await
}

/// Checks that the operator still reacts to another resource, and deletes this resource.
async fn check_other_resource(world: &World) {
    let other = "cumulus";
    world.apply_as(other, &services(&["mariadb"])).await;
    let is_ignored = |cloud: &OpenStackDeployment| (cloud.reason() == reason::OLDER_RESOURCE).then_some(());
    world.until_of(other, "the operator writes the status of another resource", is_ignored).await;
    world.delete_named(other).await;
}

/// Starts an operator with a cloud whose spec names the addition.
async fn start(world: &World, harmless: &Value) -> (Operator, Value) {
    write(world, harmless).await;
    let operator = world.operator().start().await;
    let mut spec = services(&[]);
    (spec["presets"], spec["catalog"]) = (json!([BOMB]), json!([{"name": BOMB}]));
    spec["approval"] = json!("Automatic");
    world.apply(&spec).await;
    world.until_ready().await;
    (operator, spec)
}

#[test]
fn expressions_of_additions_use_bounded_time_and_memory() {
    run_test("bombs", async |world| {
        let harmless = addition(&json!(300), "true");
        let (operator, _) = start(world, &harmless).await;
        let baseline = Baseline::of(&operator);
        let remedy =
            "an expression may take at most 400000 steps and create at most 8 MiB of values; use shorter lists";
        for bomb in bombs() {
            for addition in [addition(&json!(format!("${{{bomb}}}")), "true"), addition(&json!(300), &bomb)] {
                write(world, &addition).await;
                let message = until_refused(world, remedy).await;
                let place = format!("{}/{BOMB}", world.namespace);
                assert!(message.contains(&place) && message.contains("presets.bomb.yaml"), "{message}");
                check_other_resource(world).await;
                baseline.check(&bomb[..40]);
                write(world, &harmless).await;
                world.until_ready().await;
            }
        }
        assert_eq!(world.helm_runs().len(), 1, "a bomb changes nothing");
        assert_eq!(operator.metric("osdpl_reconcile_failures_total", ""), 0);
    });
}
