//! The operator installs a complete cloud in the order of its dependencies, and starts each release as early as
//! possible.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cluster::Rule;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use osdpl_core::api::OpenStackDeployment;
use serde_json::{Value, json};

use crate::cloud::StatusAccess;
use crate::history::{Kstatus, kstatus};
use crate::world::{World, run_test};

/// Pairs of a release and a workload that the release's pods need. The operator may start helm for the release only
/// when the workload is available.
const ORDER: [(&str, &str); 17] = [
    ("keystone", "mariadb-server"),
    ("keystone", "memcached-memcached"),
    ("placement", "keystone-api"),
    ("glance", "keystone-api"),
    ("glance", "rabbitmq-rabbitmq"),
    ("cinder", "keystone-api"),
    ("cinder", "rabbitmq-rabbitmq"),
    ("heat", "keystone-api"),
    ("heat", "rabbitmq-rabbitmq"),
    ("neutron", "keystone-api"),
    ("neutron", "rabbitmq-rabbitmq"),
    ("nova", "keystone-api"),
    ("nova", "rabbitmq-rabbitmq"),
    ("nova", "mariadb-server"),
    ("horizon", "keystone-api"),
    ("horizon", "mariadb-server"),
    ("horizon", "memcached-memcached"),
];

/// The releases that wait only for RabbitMQ in this test. The operator starts helm for all of them when RabbitMQ is
/// available.
const TOGETHER: [&str; 5] = ["cinder", "glance", "heat", "neutron", "nova"];

/// The times at which helm started and completed each release, and at which each workload got its first available pod.
/// Resource versions serve as times, because all objects of the cluster share one counter.
#[derive(Clone, Debug, Default)]
struct Ledger {
    submitted: BTreeMap<String, u64>,
    deployed: BTreeMap<String, u64>,
    available: BTreeMap<String, u64>,
}

impl Ledger {
    fn record(&mut self, record: &PartialObjectMeta<Secret>) {
        let (Some(release), Some(status)) = (record.labels().get("name"), record.labels().get("status")) else {
            return;
        };
        self.submitted.entry(release.clone()).or_insert_with(|| revision(record));
        if status == "deployed" {
            self.deployed.entry(release.clone()).or_insert_with(|| revision(record));
        }
    }

    fn workload(&mut self, workload: &impl ResourceExt, available: bool) {
        if available {
            self.available.entry(workload.name_any()).or_insert_with(|| revision(workload));
        }
    }
}

fn revision(object: &impl ResourceExt) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

/// Starts tasks that watch helm's records and all workloads. Returns the ledger in which the tasks record the times.
fn start_recording(world: &World) -> Arc<Mutex<Ledger>> {
    let ledger = Arc::<Mutex<Ledger>>::default();
    let records = watcher(world.api::<PartialObjectMeta<Secret>>(), watcher::Config::default().labels("owner=helm"));
    let deployments = watcher(world.api::<Deployment>(), watcher::Config::default());
    let sets = watcher(world.api::<StatefulSet>(), watcher::Config::default());
    let daemons = watcher(world.api::<DaemonSet>(), watcher::Config::default());
    macro_rules! follow {
        ($stream:expr, |$ledger:ident, $object:ident| $note:expr) => {{
            let shared = Arc::clone(&ledger);
            let mut events = Box::pin($stream.default_backoff().applied_objects());
            tokio::spawn(async move {
                while let Some(event) = events.next().await {
                    if let Ok($object) = event {
                        let mut $ledger = shared.lock().unwrap();
                        $note;
                    }
                }
            });
        }};
    }
    follow!(records, |ledger, record| ledger.record(&record));
    follow!(deployments, |ledger, found| {
        let ready = found.status.as_ref().and_then(|status| status.available_replicas);
        ledger.workload(&found, ready > Some(0));
    });
    follow!(sets, |ledger, found| {
        let ready = found.status.as_ref().and_then(|status| status.available_replicas);
        ledger.workload(&found, ready > Some(0));
    });
    follow!(daemons, |ledger, found| {
        let ready = found.status.as_ref().and_then(|status| status.number_available);
        ledger.workload(&found, ready > Some(0));
    });
    ledger
}

/// Keeps the pods whose names begin with `pods` from becoming ready. Pods of Jobs do not complete.
async fn hang_pods(world: &World, pods: &str) {
    world.cluster().behaviour(pods, &Rule::new(&world.namespace, pods, "hang")).await.unwrap();
}

/// Checks the status that kstatus computes for each version of the OpenStackDeployment since its creation: `Current`
/// for the last version, and `InProgress` for all earlier versions.
fn check_statuses(versions: &[OpenStackDeployment]) {
    let (last, before) = versions.split_last().unwrap();
    assert_eq!(kstatus(last), Kstatus::Current);
    // Jobs of charts, controllers and the API server change objects during the install. The operator must not report
    // these changes as drift.
    let drifted =
        |version: &OpenStackDeployment| version.status().children.values().any(|child| !child.drift.is_empty());
    assert!(!versions.iter().any(drifted), "{:#?}", last.status);
    let is =
        |version: &OpenStackDeployment, type_| version.condition(type_).is_some_and(|found| found.status == "True");
    for version in before {
        assert_eq!(kstatus(version), Kstatus::InProgress, "{:#?}", version.status);
        assert!(!(is(version, "Ready") || is(version, "Stalled")), "{:#?}", version.status);
    }
}

/// Returns a spec with the preset `compute`, without the four services that the test enables later.
fn compute_spec() -> Value {
    let later = json!({"enabled": false});
    let services = json!({"barbican": later, "octavia": later, "designate": later, "powerdns": later});
    json!({"openstackRelease": "2026.1", "presets": ["compute"], "services": services})
}

/// Checks that the operator started helm for each release when the needed workloads were available, and did not wait
/// for the completion of other releases.
fn check_order(ledger: &Ledger) {
    assert!(ledger.available["powerdns"] < ledger.submitted["designate"], "{ledger:?}");
    for (release, needed) in ORDER {
        assert!(ledger.available[needed] < ledger.submitted[release], "{release} before {needed}: {ledger:?}");
    }
    let last_start = TOGETHER.iter().map(|release| ledger.submitted[*release]).max().unwrap();
    for release in TOGETHER {
        assert!(
            last_start < ledger.deployed[release],
            "no other release may wait for the completion of {release}: {ledger:?}"
        );
    }
    // The pods of libvirt, neutron and nova wait for each other. So the operator must start helm for all three releases
    // before helm completes one of them.
    let last_start = ["libvirt", "neutron", "nova"].map(|release| ledger.submitted[release]).into_iter().max().unwrap();
    for release in ["neutron", "nova"] {
        assert!(
            last_start < ledger.deployed[release],
            "libvirt, neutron and nova must all start before {release} completes: {ledger:?}"
        );
    }
}

#[test]
fn installs_in_dependency_order_without_barriers() {
    run_test("order", async |world| {
        let (ledger, history) = (start_recording(world), world.history());
        hang_pods(world, "rabbitmq-rabbitmq-0").await;
        hang_pods(world, "keystone-bootstrap").await;
        for release in TOGETHER {
            hang_pods(world, &format!("{release}-ks-user")).await;
        }
        let _operator = world.operator().start().await;
        world.apply(&compute_spec()).await;

        // RabbitMQ's pod hangs, so glance must wait. Helm hangs in the last hook of keystone, but Keystone's workload
        // is available. The operator must install placement, which needs neither RabbitMQ nor the end of this hook.
        let cloud = world
            .until("placement is deployed", |cloud| {
                (cloud.child("placement").status == "deployed").then(|| cloud.clone())
            })
            .await;
        assert_eq!(cloud.child("keystone").status, "pending-install");
        assert_eq!(cloud.child("glance").message, "waits for rabbitmq/server");
        assert!(!cloud.is_ready());
        world.cluster().remove_rule("rabbitmq-rabbitmq-0").await.unwrap();
        // In each release of `TOGETHER`, helm waits for a hanging Job. So helm starts for all of these releases only if
        // the operator does not wait for the end of one helm process before it starts the next.
        let are_submitted = |cloud: &OpenStackDeployment| {
            TOGETHER.iter().all(|release| cloud.child(release).revision.is_some()).then_some(())
        };
        world.until("helm has started for all releases that waited for RabbitMQ", are_submitted).await;
        for release in TOGETHER {
            world.cluster().remove_rule(&format!("{release}-ks-user")).await.unwrap();
        }
        world.cluster().remove_rule("keystone-bootstrap").await.unwrap();
        let cloud = world.until_ready().await;
        assert_eq!(cloud.status().releases, "13/13");

        check_statuses(&history.up_to(&cloud).await);
        let runs = world.helm_runs().len();
        world.apply(&json!({"openstackRelease": "2026.1", "presets": ["compute"]})).await;
        let is_complete =
            |cloud: &OpenStackDeployment| (cloud.is_ready() && cloud.status().releases == "17/17").then_some(());
        world.until("helm has deployed the four services that the first spec disabled", is_complete).await;
        assert_eq!(
            world.upgraded_since(runs),
            ["barbican", "designate", "octavia", "powerdns"],
            "the operator must start helm only for the four new services"
        );

        let ledger = ledger.lock().unwrap().clone();
        check_order(&ledger);
    });
}
