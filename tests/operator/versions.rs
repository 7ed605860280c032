//! The operator is updated from an older version and back, on a running cloud. For a while, one replica of each version
//! runs at the same time. No helm process may start without a change of the spec, and nothing may be lost.
//!
//! `make test-upgrade FROM=REF` builds the older version, and sets `PREVIOUS` to the folder with its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{DEPLOYMENT_LABEL, OpenStackDeployment, reason};
use serde_json::{Value, json};

use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::deletion::retained_objects;
use crate::interrupted::{KEYS, fill};
use crate::nodes::{COMPUTE, Nodes, SWITCH};
use crate::operator::Operator;
use crate::pool::{CHART, install_chart_from};
use crate::several_clouds::kept_objects;
use crate::world::{World, run_test, with_timeout};

/// The releases of the cloud. They include Keystone, because hooks of its chart create Secrets that no release record
/// contains.
const RELEASES: [&str; 4] = ["glance", "keystone", "mariadb", "rabbitmq"];

/// The release that the test upgrades.
const CHANGED: &str = "rabbitmq";

/// A version of osdpl: its program and its chart.
struct Version {
    /// The name of the pod in which the operator of this version runs.
    pod: &'static str,
    program: PathBuf,
    /// The operator's chart, which contains the CRDs.
    chart: PathBuf,
}

impl Version {
    fn previous() -> Self {
        let folder = std::env::var("PREVIOUS").expect("PREVIOUS is not set; run `make test-upgrade FROM=REF`");
        let folder = Path::new(&folder);
        Self { pod: "previous", program: folder.join("target/debug/osdpl"), chart: folder.join("deploy/osdpl") }
    }

    fn this() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { pod: "this", program: env!("CARGO_BIN_EXE_osdpl").into(), chart: root.join(CHART) }
    }

    /// Installs the operator's chart with its CRDs.
    fn install(&self, world: &World) {
        install_chart_from(&self.chart, world.cluster(), &[]);
    }

    async fn start(&self, world: &World) -> Operator {
        world.operator().program(&self.program).pod(self.pod).start().await
    }
}

/// The content of a Secret.
type Data = Option<BTreeMap<String, ByteString>>;

/// The state of a cloud that an update of the operator must not change.
#[derive(Debug, PartialEq)]
struct Kept {
    /// The number of helm processes so far.
    helm_runs: usize,
    /// The revision of each release according to the status.
    revisions: BTreeMap<String, Option<i64>>,
    /// The releases that the operator may uninstall.
    owned: Vec<String>,
    /// The deployed OpenStack release.
    deployed: Option<String>,
    /// The digests of pulled charts.
    charts: BTreeMap<String, String>,
    /// The digests of the approved additions to the catalogue.
    catalog: BTreeMap<String, String>,
    /// The uid of each claim, and of each Secret that a deletion of the cloud retains.
    retained: BTreeMap<String, Option<String>>,
    /// The name and uid of each pod, except for pods of Jobs.
    pods: BTreeSet<(String, String)>,
    /// The uid and the content of each Secret with credentials or keys.
    secrets: BTreeMap<String, (Option<String>, Data)>,
    /// The uid and the content of each object for Ceph and for the external memcached.
    objects: Vec<(Option<String>, Value)>,
    /// The labels of the only node of the role compute ([`NODE`]).
    labels: BTreeMap<String, String>,
}

/// Whether the cloud is Ready or waits for an approval. It may wait: if the catalogues of the two versions differ, the
/// operator upgrades no release without an approval.
fn is_settled(cloud: &OpenStackDeployment) -> bool {
    cloud.is_ready() || cloud.reason() == reason::APPROVAL
}

impl World {
    /// Waits until the operator has nothing left to do, and returns what an update of the operator must not change.
    async fn kept(&self) -> Kept {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get(&format!("{}-{NODE}", self.namespace)).await.unwrap();
        let status = self.until("the cloud is settled", |cloud| is_settled(cloud).then(|| cloud.status())).await;
        let secrets = self.api::<Secret>().list(&ListParams::default()).await.unwrap();
        let is_kept = |secret: &Secret| {
            secret.labels().contains_key(DEPLOYMENT_LABEL) || KEYS.contains(&secret.name_any().as_str())
        };
        let secrets = secrets.items.into_iter().filter(is_kept);
        Kept {
            helm_runs: self.helm_runs().len(),
            revisions: status.children.into_iter().map(|(name, child)| (name, child.revision)).collect(),
            owned: status.owned_releases.unwrap_or_default(),
            deployed: status.openstack_release.deployed,
            charts: status.charts,
            catalog: status.catalog,
            retained: retained_objects(self).await,
            pods: self.pods().await,
            secrets: secrets.map(|secret| (secret.name_any(), (secret.uid(), secret.data))).collect(),
            objects: kept_objects(self).await,
            labels: node.labels().clone(),
        }
    }

    /// Waits until `leader` holds the Lease and has completed a pass. Checks that everything in [`Kept`] is as in
    /// `before`.
    async fn check_kept(&self, step: &str, leader: (&Operator, &Version), before: &Kept) {
        self.until_holder(leader.1.pod).await;
        let states = ["osdpl_releases_ready ", "osdpl_releases_awaiting_approval"];
        let found = async {
            while states.map(|state| leader.0.metric(state, "")).iter().sum::<u64>() != RELEASES.len() as u64 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        with_timeout("each release is ready, or waits for an approval", found).await;
        assert_eq!(self.kept().await, *before, "{step}");
    }

    /// Approves the changes that the catalogue of the active operator makes, if the cloud waits for an approval. Checks
    /// that releases and pods change only with this approval, and that nothing else in [`Kept`] changes.
    async fn approve_catalogue(&self, before: &mut Kept) {
        let cloud = self.until("the cloud is settled", |cloud| is_settled(cloud).then(|| cloud.clone())).await;
        if let Some(hash) = cloud.status().approval {
            // With the name, osdpl recognizes the hash even if the other version's hashes have another length.
            self.osdpl(&["approve", NAME, &hash]);
        }
        self.until_ready().await;
        let after = self.kept().await;
        if cloud.is_ready() {
            assert_eq!(after, *before, "without an approval");
        }
        before.helm_runs = after.helm_runs;
        before.revisions.clone_from(&after.revisions);
        before.pods.clone_from(&after.pods);
        assert_eq!(after, *before, "after the approval");
    }

    /// Changes a value of [`CHANGED`], and checks that the active operator upgrades this release and no other.
    async fn change(&self, spec: &mut Value, heartbeat: i32, before: &mut Kept) {
        *spec = with_values(spec.take(), CHANGED, json!({"conf": {"rabbitmq": {"heartbeat": heartbeat}}}));
        self.apply(spec).await;
        let revision = before.revisions[CHANGED].map(|revision| revision + 1);
        let is_upgraded = |cloud: &OpenStackDeployment| {
            let child = cloud.child(CHANGED);
            (is_settled(cloud) && child.ready && child.revision == revision).then_some(())
        };
        self.until(&format!("{CHANGED} is upgraded"), is_upgraded).await;
        before.revisions.insert(CHANGED.to_owned(), revision);
        before.helm_runs += 1;
        let is_changed = |pod: &String| pod.starts_with(CHANGED);
        before.pods.retain(|(pod, _)| !is_changed(pod));
        before.pods.extend(self.pods().await.into_iter().filter(|(pod, _)| is_changed(pod)));
        assert_eq!(self.kept().await, *before, "the change of the spec must upgrade only {CHANGED}");
    }
}

/// The name of the only node of the role compute, without its prefix, which is the test's namespace.
const NODE: &str = "role";

/// Returns a cloud with a feature that refers to a Secret, an external Ceph, an external memcached and a role with the
/// node `node`. Creates the Secrets to which the cloud refers.
async fn cloud(world: &World, node: &str) -> Value {
    world.describe_ceph(json!({})).await;
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "far"}, "stringData": {"pw": "secret-of-the-store"}}))
            .unwrap();
    world.api().create(&PostParams::default(), &secret).await.unwrap();
    let store = json!({"authUrl": "https://keystone.far.example.org/v3", "username": "backup", "passwordSecret": {"name": "far", "key": "pw"}});
    let mut spec = services(&RELEASES);
    spec["features"] = crate::ceph::spec()["features"].clone();
    spec["features"]["database"] = json!({"backup": {"remote": store}});
    spec["services"]["memcached"] = json!({"enabled": true, "external": {"host": "192.0.2.7"}});
    spec["nodes"] = json!({"roles": {"compute": {"names": [node]}}});
    spec
}

#[test]
#[ignore = "needs a built older version: make test-upgrade FROM=REF"]
fn updates_to_this_version_and_back_change_no_release() {
    run_test("versions", async |world| {
        let (previous, this) = (Version::previous(), Version::this());
        previous.install(world);
        let old = previous.start(world).await;
        let mut nodes = Nodes::of(world);
        let node = nodes.add(NODE, json!({})).await;
        let mut spec = cloud(world, &node).await;
        world.apply(&spec).await;
        world.until_ready().await;
        for secret in KEYS {
            fill(world, secret).await;
        }
        nodes.until_labels(&node, &[COMPUTE, SWITCH]).await;
        let mut kept = world.kept().await;
        assert_eq!((kept.helm_runs, kept.secrets.len() > KEYS.len()), (RELEASES.len(), true));
        assert!(kept.pods.len() >= RELEASES.len(), "{:?}", kept.pods);
        assert!(kept.retained.contains_key("mysql-data-mariadb-server-0"), "{:?}", kept.retained);

        this.install(world);
        world.change(&mut spec, 30, &mut kept).await;
        let new = this.start(world).await;
        world.check_kept("both operators, the older one active", (&old, &previous), &kept).await;
        assert!(old.stop().await.success());
        world.check_kept("the newer operator", (&new, &this), &kept).await;
        world.approve_catalogue(&mut kept).await;
        world.change(&mut spec, 40, &mut kept).await;

        // Go back to the older version. Install its chart, which contains the operator's rights and the CRDs, before
        // its operator starts, as a rollback by helm does.
        previous.install(world);
        let old = previous.start(world).await;
        world.check_kept("both operators, the newer one active", (&new, &this), &kept).await;
        world.change(&mut spec, 50, &mut kept).await;
        new.kill();
        world.check_kept("the older operator again", (&old, &previous), &kept).await;
        world.approve_catalogue(&mut kept).await;
        world.change(&mut spec, 70, &mut kept).await;

        world.delete().await;
        world.until_gone().await;
        nodes.until_labels(&node, &[]).await;
        this.install(world);
        nodes.remove_all().await;
    });
}
