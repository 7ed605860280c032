//! A soak test: a cloud lives for an hour in which pods die, nodes come and go, keys rotate, and people edit objects
//! and the spec. The operator must write only because of these changes. Its memory and its number of open files must
//! not grow.

mod changes;
mod figures;
mod journal;

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ceph::SECRET;
use crate::cloud::services;
use crate::fake_apis::FakeApis;
use crate::world::{now, run_test};
use changes::Soak;
use figures::Figures;

/// The environment variable with the duration of the test in minutes.
const MINUTES: &str = "MINUTES";

/// The minimum pause after the changes of a round. The operator must write nothing in this pause.
const PAUSE: Duration = Duration::from_secs(15);

/// The number of rounds before the test measures memory and open files. By then, the test has made each kind of change
/// twice. The releases that it changes have three revisions, the maximum that helm keeps.
const WARM_UP: usize = 2 * changes::KINDS;

/// The label by which the spec selects compute nodes.
pub const RACK: (&str, &str) = ("rack", "soak");

/// Returns the spec of a cloud that can run virtual machines, and that stores images and volumes on Ceph.
fn spec() -> Value {
    let mut spec = services(&[
        "cinder",
        "glance",
        "keystone",
        "libvirt",
        "mariadb",
        "memcached",
        "neutron",
        "nova",
        "openvswitch",
        "placement",
        "rabbitmq",
    ]);
    spec["features"] =
        json!({"storage": {"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": SECRET}}}});
    spec["nodes"] = json!({"roles": {"compute": {"selector": {"matchLabels": {RACK.0: RACK.1}}}}});
    spec
}

fn minutes() -> u64 {
    let given = std::env::var(MINUTES).ok().filter(|given| !given.is_empty());
    given.map_or(60, |given| given.parse().expect("MINUTES must be a number"))
}

#[test]
#[ignore = "takes an hour: make soak"]
fn writes_only_with_a_cause_and_does_not_grow() {
    run_test("soak", async |world| {
        world.describe_ceph(json!({"nova.pool": "vms"})).await;
        let server = FakeApis::start(&["identity", "image", "volumev3", "placement", "compute", "network"]).await;
        for node in Api::<Node>::all(world.client.clone()).list(&ListParams::default()).await.unwrap() {
            server.nova.add_compute(&node.name_any());
        }
        let operator = world.setup_with_fake_apis(&server).start().await;
        world.apply(&spec()).await;
        world.until_ready_with_progress().await;
        let mut soak = Soak::new(world, &server, spec());
        soak.settle().await;
        let began = now();
        for round in 0..WARM_UP {
            soak.round(round).await;
        }

        let figures = Figures::of(operator.pid());
        let (measured, end) = (now(), Instant::now() + Duration::from_mins(minutes()));
        let died = |soak: &Soak| soak.journal.pods_died_since(measured);
        for round in WARM_UP.. {
            let next = Instant::now() + Duration::from_mins(1);
            soak.round(round).await;
            tokio::time::sleep_until(next.max(Instant::now() + PAUSE)).await;
            // On a slow machine, a round takes longer than a minute, so fewer pods die in the given time. The test
            // continues until at least one pod for each minute has died.
            let is_complete = died(&soak) as u64 >= minutes();
            if is_complete && Instant::now() >= end && (round + 1) % changes::KINDS == 0 {
                break;
            }
        }
        println!("{} pods died in {} s", died(&soak), now().duration_since(measured).as_secs());
        println!("{}", passes(&operator));
        soak.journal.check_writes(world, began);
        figures.check_flat();
        soak.finish().await;
    });
}

/// Returns the numbers of reconcile passes and of failed passes, from the operator's metrics.
fn passes(operator: &crate::operator::Operator) -> String {
    let metric = |name| operator.metric(name, "");
    format!("{} passes, {} failed", metric("osdpl_reconciles_total"), metric("osdpl_reconcile_failures_total"))
}
