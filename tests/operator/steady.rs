//! A cloud that stands: what a change costs, and that nothing costs nothing.

use std::time::Duration;

use serde_json::json;

use crate::cloud::{Told, services, with_values};
use crate::operator::Operator;
use crate::world::{World, now, story};

/// Two releases without hooks: the smallest cloud with something to compare.
const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// A poke whose answer is one status write (a new generation is observed): once that is there, whatever the operator would do has begun.
async fn poke(world: &World, spec: &mut serde_json::Value) {
    spec["deletionPolicy"] = if spec["deletionPolicy"] == "Retain" { json!("Purge") } else { json!("Retain") };
    world.apply(spec).await;
    world.until_ready().await;
}

/// Nothing changes for a while: no helm, no write.
async fn is_quiet(world: &World, operator: &Operator, how_long: Duration) {
    let (began, helms) = (now(), world.helm_runs().len());
    tokio::time::sleep(how_long).await;
    assert_eq!(world.helm_runs().len(), helms);
    assert_eq!(world.writes_since(began), []);
    assert!(operator.metric("osdpl_reconciles_total", "") > 0);
}

#[test]
fn one_key_changed_is_one_helm_process_and_none_changed_is_none() {
    story("one-key", async |world| {
        let mut spec = services(&SMALL);
        let operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        let mut installed: Vec<_> = world.helm_runs().iter().map(|run| run.release().to_owned()).collect();
        installed.sort();
        assert_eq!(installed, SMALL);

        spec = with_values(spec, "memcached", json!({"conf": {"memcached": {"max_connections": 4096}}}));
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let changed: Vec<_> = world.helm_runs().split_off(2).iter().map(|run| run.release().to_owned()).collect();
        assert_eq!(changed, ["memcached"]);
        assert_eq!((cloud.child("memcached").revision, cloud.child("mariadb").revision), (Some(2), Some(1)));
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["max_connections"], 4096);

        let began = now();
        poke(world, &mut spec).await;
        is_quiet(world, &operator, Duration::ZERO).await;
        let writes = world.writes_since(began);
        assert!(matches!(&writes[..], [one] if one.subresource == "status"), "{writes:?}");
    });
}
