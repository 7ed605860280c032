//! Runs a cloud from its install to its deletion. In each phase, the test kills the operator and helm at most once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use osdpl_core::api::{DeletionPolicy, OpenStackDeployment};
use osdpl_core::release::RELEASE_LABEL;
use serde_json::{Value, json};

use crate::cloud::StatusAccess;
use crate::deletion::retained_objects;
use crate::operator::Operator;
use crate::proxy::Proxy;
use crate::world::{World, with_timeout};

use super::keys::Keys;
use super::kill::{KillPoint, Point, Writes, general_text, kill_all};
use super::objects::Object;
use super::{Cloud, Log};

/// A phase of a cloud's life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Install,
    Upgrade,
    Deletion,
}

impl Phase {
    pub const ALL: [Self; 3] = [Self::Install, Self::Upgrade, Self::Deletion];
}

/// For each phase, the write at which the test kills the operator and helm. With `None`, the test kills nothing in the
/// phase.
pub type Points = [Option<Point>; 3];

/// The difference between the objects in a namespace and those that the test expects: the missing objects, the leftover
/// objects, and all retained objects. The last are `None` if they are as expected.
type Difference = (Vec<Object>, Vec<Object>, Option<BTreeMap<String, Option<String>>>);

/// The life of one cloud in its own namespace, from the install to the deletion.
pub struct Cycle<'a> {
    world: &'a World,
    cloud: &'a Cloud,
    log: &'a Log,
    proxy: Proxy,
    keys: Keys,
    /// The writes to the API server in the present phase.
    writes: Writes,
    /// The releases that must exist after the present phase.
    releases: BTreeSet<String>,
    /// The objects that the deletion must retain. Empty before the deletion begins, and with the policy `Purge`.
    retained: BTreeMap<String, Option<String>>,
}

/// Runs the phases up to the last one that has a kill point. Skips an upgrade without a kill point.
pub async fn run(world: &World, cloud: &Cloud, points: Points, log: &Log) {
    cloud.prepare(world).await;
    let (proxy, keys) = (Proxy::start(world).await, Keys::watch(world));
    let (writes, releases, retained) = (Writes::default(), BTreeSet::new(), BTreeMap::new());
    let mut cycle = Cycle { world, cloud, log, proxy, keys, writes, releases, retained };
    let mut operator = world.operator().through(&cycle.proxy).arguments(&cloud.arguments).start().await;
    let last = points.iter().rposition(Option::is_some).unwrap();
    for (phase, point) in Phase::ALL.into_iter().zip(points).take(last + 1) {
        if phase != Phase::Upgrade || point.is_some() {
            operator = cycle.phase(phase, point, operator).await;
        }
    }
    assert!(operator.stop().await.success());
    if last == Phase::Deletion as usize {
        let removal = format!("osdpl PATCH {}", world.path());
        assert_eq!(cycle.writes.after(0).last(), Some(&removal), "the removal of the finalizer must be the last write");
    }
}

impl Cycle<'_> {
    /// Runs one phase, and checks its result. If the phase has a kill point, kills the operator and helm there, and
    /// starts a new operator. Returns the operator that runs at the end.
    async fn phase(&mut self, phase: Phase, point: Option<Point>, mut operator: Operator) -> Operator {
        let (world, point) = (self.world, point.unwrap_or(Point::NEVER));
        self.log.enter(phase, &point);
        self.retained = match phase {
            Phase::Deletion if self.cloud.policy != DeletionPolicy::Purge => retained_objects(self.world).await,
            _ => BTreeMap::new(),
        };
        if phase == Phase::Deletion {
            self.keys.allow_deletion_of_copies();
        }
        self.writes = Writes::default();
        let mut kill = self.set_kill_point(point);
        self.begin(phase).await;
        let hit = tokio::select! {
            hit = kill.hit() => Some(hit),
            () = Box::pin(self.until_idle(phase)) => {
                self.set_kill_point(Point::NEVER);
                // The phase may end before the API server responds to the last write of the phase. If this last write
                // is the kill point, wait for the response: the test must kill the processes even then.
                if kill.is_reached() { Some(kill.hit().await) } else { None }
            }
        };
        let started = Instant::now();
        if let Some(write) = &hit {
            self.log.hit(write);
            kill_all(operator).await;
            self.set_kill_point(Point::NEVER);
            operator = world.operator().through(&self.proxy).arguments(&self.cloud.arguments).start().await;
            Box::pin(self.until_idle(phase)).await;
        }
        let (recovery, writes) = (started.elapsed(), self.writes.general_texts(&world.namespace));
        self.check(phase).await;
        self.log.leave(phase, writes, hit.map(|write| (general_text(&write, &world.namespace), recovery)));
        operator
    }

    fn set_kill_point(&self, point: Point) -> KillPoint {
        KillPoint::set(&self.proxy, point, &self.writes, &self.world.namespace)
    }

    async fn begin(&self, phase: Phase) {
        match phase {
            Phase::Install => drop(self.world.apply(&self.cloud.spec).await),
            Phase::Upgrade => drop(self.world.apply(&self.cloud.upgraded).await),
            Phase::Deletion => self.world.delete().await,
        }
    }

    /// Returns the spec that the test applies in the install or in the upgrade.
    fn spec(&self, phase: Phase) -> &Value {
        if phase == Phase::Install { &self.cloud.spec } else { &self.cloud.upgraded }
    }

    /// Waits until the operator has nothing left to do in the phase. After a deletion, this means that the resource is
    /// gone. After an install or an upgrade, it means that the cloud is Ready, and that two passes write only the
    /// status: the operator may have to write other objects of a Ready cloud, for example to remove the leftovers of a
    /// killed revision.
    async fn until_idle(&self, phase: Phase) {
        if phase == Phase::Deletion {
            return self.world.until_gone().await;
        }
        self.world.until_ready_with_progress().await;
        let idle = async { while self.writes_of_passes(phase).await != self.world.status_writes(2) {} };
        with_timeout("two passes write only the status", Box::pin(idle)).await;
    }

    /// Lets the operator run two passes, and returns their writes. To trigger the passes, changes `spec.deletionPolicy`
    /// and then changes it back, which has no effect on releases.
    async fn writes_of_passes(&self, phase: Phase) -> Vec<String> {
        let before = self.writes.count();
        let other = if self.cloud.policy == DeletionPolicy::Purge { "Retain" } else { "Purge" };
        for policy in [json!(other), json!(self.cloud.policy)] {
            let mut spec = self.spec(phase).clone();
            spec["deletionPolicy"] = policy;
            self.world.apply(&spec).await;
            self.world.until_ready().await;
        }
        self.writes.after(before)
    }

    async fn check(&mut self, phase: Phase) {
        if phase == Phase::Deletion {
            self.check_uninstalls();
        } else {
            assert_eq!(
                self.writes_of_passes(phase).await,
                self.world.status_writes(2),
                "passes of a Ready cloud must write only the status"
            );
            self.releases = self.check_releases(&self.world.until_ready().await);
        }
        self.check_records(phase).await;
        // Kubernetes deletes objects in the background, so wait until no object is left over.
        let expected = async {
            while self.difference(phase).await != Difference::default() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), expected).await.is_err() {
            assert_eq!(
                self.difference(phase).await,
                Difference::default(),
                "no object may be missing, left over or changed"
            );
        }
        if phase != Phase::Deletion || self.cloud.policy != DeletionPolicy::Purge {
            let copies = if phase == Phase::Deletion { &[] } else { self.cloud.copies };
            self.keys.check(&[self.cloud.keys, copies].concat()).await;
        }
    }

    /// Returns how the objects in the namespace differ from the objects that must exist after the phase. A deletion
    /// must retain the claims and the Secrets with passwords or keys, or, with the policy `Purge`, delete them all.
    async fn difference(&self, phase: Phase) -> Difference {
        let (missing, left) = self.world.difference(&self.retained).await;
        let data = if phase == Phase::Deletion { retained_objects(self.world).await } else { self.retained.clone() };
        (missing, left, if data == self.retained { None } else { Some(data) })
    }

    /// Checks that the operator has uninstalled releases during the deletion, or none if the deletion policy is
    /// `Detach`. If it had to uninstall them, removes all releases from the expected ones.
    fn check_uninstalls(&mut self) {
        if self.cloud.policy != DeletionPolicy::Detach {
            self.releases.clear();
        }
        let is_uninstall = |run: &crate::helm::Run| run.verb() == "uninstall";
        assert_eq!(self.world.helm_runs().iter().any(is_uninstall), self.releases.is_empty());
    }

    /// Checks that every release is deployed and ready, and has no drift. Returns the names of the releases.
    fn check_releases(&self, cloud: &OpenStackDeployment) -> BTreeSet<String> {
        let children = cloud.status().children;
        assert_eq!(children.len(), self.cloud.releases, "{:?}", children.keys());
        for (release, child) in &children {
            assert!(child.ready && child.status == "deployed" && child.drift.is_empty(), "{release}: {child:?}");
        }
        let runs = self.world.helm_runs();
        assert!(runs.iter().all(|run| run.verb() == "upgrade"), "this phase must not uninstall a release: {runs:?}");
        children.into_keys().collect()
    }

    /// Checks that helm has records of exactly the expected releases, that the newest record of each release is
    /// deployed, and that no record is pending. After a deletion, no record may have osdpl's label.
    async fn check_records(&self, phase: Phase) {
        let mut newest = BTreeMap::new();
        for record in self.world.records().await {
            let (name, status) = (record.labels()["name"].clone(), record.labels()["status"].clone());
            assert!(["deployed", "failed", "superseded"].contains(&status.as_str()), "{}", record.name_any());
            let is_ours = record.labels().contains_key(RELEASE_LABEL);
            assert!(
                !is_ours || phase != Phase::Deletion,
                "after the deletion, {} must not have osdpl's label",
                record.name_any()
            );
            newest.insert(name, status);
        }
        assert!(newest.values().all(|status| status == "deployed"), "{newest:?}");
        assert_eq!(newest.into_keys().collect::<BTreeSet<_>>(), self.releases);
    }
}

impl World {
    /// Returns the path of the test's `OpenStackDeployment` in the Kubernetes API.
    fn path(&self) -> String {
        format!("/apis/osdpl.dev/v1alpha1/namespaces/{}/openstackdeployments/nimbus", self.namespace)
    }

    /// Returns the texts of `count` requests that write the status of the `OpenStackDeployment`.
    fn status_writes(&self, count: usize) -> Vec<String> {
        vec![format!("osdpl PATCH {}/status", self.path()); count]
    }
}
