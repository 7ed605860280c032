//! The DNS server does not respond while the operator probes APIs, looks up an external host and upgrades a release.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Secret};
use kube::api::PostParams;
use serde_json::json;

use super::Pod;
use super::libc::Libc;
use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{now, run_test, with_timeout};

/// The maximum number of DNS lookups that the operator makes at the same time; see `osdpl_client::resolve`.
const LOOKUPS: i64 = 4;

#[test]
#[ignore = "takes a minute: make faults"]
fn upgrades_while_the_dns_server_is_silent() {
    run_test("dns", async |world| {
        let libc = Libc::new(world, "operator");
        let secret = json!({"metadata": {"name": "external"}, "stringData": {"database": "external-database"}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        world.api().create(&PostParams::default(), &secret).await.unwrap();
        let mut spec = services(&["glance", "keystone", "mariadb", "memcached", "rabbitmq"]);
        let credentials = json!({"root": {"name": "external", "key": "database"}});
        spec["services"]["mariadb"] =
            json!({"enabled": true, "external": {"host": "db.example.org"}, "credentials": credentials});
        let arguments = ["--probe-period", "1", "--probe-timeout", "1"];
        let pod = Pod::new(world, || world.operator().arguments(&arguments).libc(&libc));
        let scenario = async {
            world.apply(&spec).await;
            world.until_ready().await;
            libc.set_dns_silent(true);
            // Wait until the lookups for probes and for the external host occupy all threads that make lookups.
            let silent = async {
                while libc.waiting_lookups() < LOOKUPS {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            with_timeout("all lookups wait for the DNS server", silent).await;
            let (began, runs) = (now(), world.helm_runs().len());
            let changed = json!({"conf": {"memcached": {"max_connections": 2048}}});
            world.apply(&with_values(spec.clone(), "memcached", changed)).await;
            let cloud = world.until_ready().await;
            assert_eq!(cloud.child("memcached").revision, Some(2));
            assert_eq!(libc.waiting_lookups(), LOOKUPS, "DNS must be silent until the upgrade is complete");
            assert_eq!(world.helm_runs().len(), runs + 1);

            libc.set_dns_silent(false);
            world.apply(&spec).await;
            assert_eq!(world.until_ready().await.child("memcached").revision, Some(3));
            pod.check_bounds(began, 4, 2);
        };
        Box::pin(pod.during(scenario)).await;
        let endpoints = world.api::<Endpoints>().get("mariadb").await.unwrap();
        assert_eq!(endpoints.subsets.unwrap()[0].addresses.as_ref().unwrap()[0].ip, "192.0.2.7");
        assert_eq!(pod.restarts.get(), 0, "an outage of DNS must not end the operator");
    });
}
