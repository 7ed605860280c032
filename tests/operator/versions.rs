//! The operator is updated from an older version and back, on a running cloud. For a while, one replica of each version
//! runs. No helm process starts without a change of the spec, and nothing is lost.
//!
//! `make test-upgrade FROM=REF` builds the older version, and sets `PREVIOUS` to the folder with its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use osdpl_core::api::DEPLOYMENT_LABEL;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::deletion::retained_objects;
use crate::interrupted::{KEYS, fill};
use crate::operator::Operator;
use crate::pool::{CHART, install_chart_from};
use crate::world::{World, run_test};

/// The releases of the cloud. They include Keystone, because hooks of its chart create Secrets that no release record
/// contains.
const RELEASES: [&str; 4] = ["keystone", "mariadb", "memcached", "rabbitmq"];

/// A version of osdpl.
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

/// What an update of the operator must not change.
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
}

impl World {
    /// Waits until the cloud is Ready, and returns what an update of the operator must not change.
    async fn kept(&self) -> Kept {
        let status = self.until_ready().await.status();
        let secrets = self.api::<Secret>().list(&ListParams::default()).await.unwrap();
        let is_kept = |secret: &Secret| {
            secret.labels().contains_key(DEPLOYMENT_LABEL) || KEYS.contains(&secret.name_any().as_str())
        };
        let secrets = secrets.items.into_iter().filter(is_kept);
        Kept {
            helm_runs: self.helm_runs().len(),
            revisions: status.children.into_iter().map(|(name, child)| (name, child.revision)).collect(),
            owned: status.owned_releases,
            deployed: status.openstack_release.deployed,
            charts: status.charts,
            catalog: status.catalog,
            retained: retained_objects(self).await,
            pods: self.pods().await,
            secrets: secrets.map(|secret| (secret.name_any(), (secret.uid(), secret.data))).collect(),
        }
    }

    /// Waits until `leader` holds the Lease and has completed a pass. Checks that everything in [`Kept`] is as in
    /// `before`.
    async fn check_kept(&self, step: &str, leader: (&Operator, &Version), before: &Kept) {
        self.until_holder(leader.1.pod).await;
        leader.0.finds_ready(RELEASES.len() as u64).await;
        assert_eq!(self.kept().await, *before, "{step}");
    }

    /// Changes a value of memcached, and checks that the leader upgrades this release and no other.
    async fn change(&self, spec: &mut Value, memory: i32, before: &mut Kept) {
        *spec = with_values(spec.take(), "memcached", json!({"conf": {"memcached": {"memory": memory}}}));
        self.apply(spec).await;
        let revision = before.revisions["memcached"].map(|revision| revision + 1);
        let is_upgraded = |cloud: &osdpl_core::api::OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == revision).then_some(())
        };
        self.until("memcached is upgraded", is_upgraded).await;
        before.revisions.insert("memcached".to_owned(), revision);
        before.helm_runs += 1;
        let is_changed = |pod: &String| pod.starts_with("memcached-");
        before.pods.retain(|(pod, _)| !is_changed(pod));
        before.pods.extend(self.pods().await.into_iter().filter(|(pod, _)| is_changed(pod)));
        assert_eq!(self.kept().await, *before, "the change of the spec must upgrade only memcached");
    }
}

/// Returns a cloud with a feature that refers to a Secret, and creates this Secret.
async fn cloud(world: &World) -> Value {
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "far"}, "stringData": {"pw": "secret-of-the-store"}}))
            .unwrap();
    world.api().create(&PostParams::default(), &secret).await.unwrap();
    let store = json!({"authUrl": "https://keystone.far.example.org/v3", "username": "backup", "passwordSecret": {"name": "far", "key": "pw"}});
    let mut spec = services(&RELEASES);
    spec["features"] = json!({"database": {"backup": {"remote": store}}});
    spec
}

#[test]
#[ignore = "needs a built older version: make test-upgrade FROM=REF"]
fn updates_to_this_version_and_back_change_no_release() {
    run_test("versions", async |world| {
        let (previous, this) = (Version::previous(), Version::this());
        previous.install(world);
        let old = previous.start(world).await;
        let mut spec = cloud(world).await;
        world.apply(&spec).await;
        world.until_ready().await;
        for secret in KEYS {
            fill(world, secret).await;
        }
        let mut kept = world.kept().await;
        assert_eq!((kept.helm_runs, kept.secrets.len() > KEYS.len()), (RELEASES.len(), true));
        assert!(kept.pods.len() >= RELEASES.len(), "{:?}", kept.pods);
        assert!(kept.retained.contains_key("mysql-data-mariadb-server-0"), "{:?}", kept.retained);

        this.install(world);
        world.change(&mut spec, 300, &mut kept).await;
        let new = this.start(world).await;
        world.check_kept("both operators, the older one active", (&old, &previous), &kept).await;
        assert!(old.stop().await.success());
        world.check_kept("the newer operator", (&new, &this), &kept).await;
        world.change(&mut spec, 400, &mut kept).await;

        // Go back to the older version. Install its chart with the permissions and CRDs before its operator starts, as
        // a rollback by helm does.
        previous.install(world);
        let old = previous.start(world).await;
        world.check_kept("both operators, the newer one active", (&new, &this), &kept).await;
        world.change(&mut spec, 500, &mut kept).await;
        new.kill();
        world.check_kept("the older operator again", (&old, &previous), &kept).await;
        world.change(&mut spec, 600, &mut kept).await;

        world.delete().await;
        world.until_gone().await;
        this.install(world);
    });
}
