//! Runs a cloud from its install to its deletion, with at most one kill in each phase.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use osdpl_core::api::OpenStackDeployment;
use serde_json::{Value, json};

use crate::cloud::StatusAccess;
use crate::deletion::retained_objects;
use crate::operator::Operator;
use crate::proxy::{Answer, Proxy};
use crate::world::{World, with_timeout};

use super::keys::Keys;
use super::kill::{KillPoint, is_counted, kill_all};
use super::{Cloud, Log, NEVER};

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

/// The number of the write at which the test kills the operator and helm, for each phase. `None` kills nothing.
pub type Points = [Option<usize>; 3];

/// One cloud in its own namespace.
pub struct Cycle<'a> {
    world: &'a World,
    cloud: &'a Cloud,
    log: &'a Log,
    proxy: Proxy,
    keys: Keys,
    /// The objects that the deletion must retain. Empty before the deletion begins.
    retained: BTreeMap<String, Option<String>>,
}

/// Runs the phases up to the last one that has a kill point.
pub async fn run(world: &World, cloud: &Cloud, points: Points, log: &Log) {
    cloud.prepare(world).await;
    let (proxy, keys) = (Proxy::start(world).await, Keys::watch(world));
    let mut cycle = Cycle { world, cloud, log, proxy, keys, retained: BTreeMap::new() };
    let mut operator = world.operator().through(&cycle.proxy).arguments(&cloud.arguments).start().await;
    let last = points.iter().rposition(Option::is_some).unwrap();
    for (phase, point) in Phase::ALL.into_iter().zip(points).take(last + 1) {
        operator = cycle.phase(phase, point, operator).await;
    }
    assert!(operator.stop().await.success());
}

impl Cycle<'_> {
    /// Runs one phase, kills the operator and helm at `point`, starts a new operator, and checks the result.
    async fn phase(&mut self, phase: Phase, point: Option<usize>, mut operator: Operator) -> Operator {
        self.log.enter(phase, point);
        self.retained = if phase == Phase::Deletion { retained_objects(self.world).await } else { BTreeMap::new() };
        let mut kill = KillPoint::set(&self.proxy, point.unwrap_or(NEVER));
        self.begin(phase).await;
        let hit = tokio::select! {
            hit = kill.hit() => Some(hit),
            () = Box::pin(self.until_done(phase)) => {
                self.proxy.set_rule(|_| Answer::Forward);
                // The operator may write something after the status that the test has waited for.
                if kill.is_reached() { Some(kill.hit().await) } else { None }
            }
        };
        let started = Instant::now();
        if let Some(write) = &hit {
            self.log.hit(write);
            kill_all(operator).await;
            self.proxy.set_rule(|_| Answer::Forward);
            operator = self.world.operator().through(&self.proxy).arguments(&self.cloud.arguments).start().await;
            Box::pin(self.until_done(phase)).await;
        }
        let recovery = started.elapsed();
        self.check(phase).await;
        self.log.leave(kill.writes(), hit.map(|_| recovery));
        operator
    }

    async fn begin(&self, phase: Phase) {
        match phase {
            Phase::Install => drop(self.world.apply(&self.cloud.spec).await),
            Phase::Upgrade => drop(self.world.apply(&self.cloud.upgraded).await),
            Phase::Deletion => self.world.delete().await,
        }
    }

    async fn until_done(&self, phase: Phase) {
        match phase {
            Phase::Install | Phase::Upgrade => drop(self.world.until_ready_with_progress().await),
            Phase::Deletion => self.world.until_gone().await,
        }
    }

    async fn check(&self, phase: Phase) {
        let cloud = match phase {
            Phase::Install => Some(self.until_settled(&self.cloud.spec).await),
            Phase::Upgrade => Some(self.until_settled(&self.cloud.upgraded).await),
            Phase::Deletion => None,
        };
        let releases = cloud.as_ref().map_or(BTreeSet::new(), |cloud| self.check_releases(cloud));
        self.check_records(&releases).await;
        // Kubernetes deletes objects in the background.
        let difference = async {
            while self.world.difference(&self.retained).await != (vec![], vec![]) {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), difference).await.is_err() {
            assert_eq!(self.world.difference(&self.retained).await, (vec![], vec![]), "missing and left objects");
        }
        if phase == Phase::Deletion {
            assert_eq!(retained_objects(self.world).await, self.retained, "the deletion retains data and passwords");
        }
        self.keys.check(self.cloud.keys).await;
    }

    /// Lets the operator run passes until a pass writes only the status. Then checks that a further pass also does. The
    /// operator may still remove the leftovers of a killed revision when the cloud is Ready.
    async fn until_settled(&self, spec: &Value) -> OpenStackDeployment {
        let settled = async { while self.writes_of_passes(spec).await != self.world.status_writes(2) {} };
        with_timeout("two passes write only the status", Box::pin(settled)).await;
        assert_eq!(self.writes_of_passes(spec).await, self.world.status_writes(2), "a pass of a Ready cloud");
        self.world.until_ready().await
    }

    /// Lets the operator run two passes, and returns their writes. The changes of the spec that trigger them have no
    /// effect on releases.
    async fn writes_of_passes(&self, spec: &Value) -> Vec<String> {
        let writes = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&writes);
        self.proxy.set_rule(move |request| {
            if is_counted(request) {
                seen.lock().unwrap().push(request.to_string());
            }
            Answer::Forward
        });
        for policy in ["Purge", "Retain"] {
            let mut spec = spec.clone();
            spec["deletionPolicy"] = json!(policy);
            self.world.apply(&spec).await;
            self.world.until_ready().await;
        }
        std::mem::take(&mut *writes.lock().unwrap())
    }

    /// Checks that every release is deployed, and returns the names of the releases.
    fn check_releases(&self, cloud: &OpenStackDeployment) -> BTreeSet<String> {
        let children = cloud.status().children;
        assert_eq!(children.len(), self.cloud.releases, "{:?}", children.keys());
        for (release, child) in &children {
            assert!(child.ready && child.status == "deployed" && child.drift.is_empty(), "{release}: {child:?}");
        }
        let runs = self.world.helm_runs();
        assert!(runs.iter().all(|run| run.verb() == "upgrade"), "the recovery must not uninstall a release: {runs:?}");
        children.into_keys().collect()
    }

    /// Checks that helm has records of exactly these releases, that the newest record of each is deployed, and that no
    /// record is pending.
    async fn check_records(&self, releases: &BTreeSet<String>) {
        let mut newest = BTreeMap::new();
        for record in self.world.records().await {
            let (name, status) = (record.labels()["name"].clone(), record.labels()["status"].clone());
            assert!(["deployed", "failed", "superseded"].contains(&status.as_str()), "{}", record.name_any());
            newest.insert(name, status);
        }
        assert!(newest.values().all(|status| status == "deployed"), "{newest:?}");
        assert_eq!(newest.into_keys().collect::<BTreeSet<_>>(), *releases);
    }
}

impl World {
    /// Returns this number of status writes, as the texts of the requests.
    fn status_writes(&self, count: usize) -> Vec<String> {
        let path = format!("/apis/osdpl.dev/v1alpha1/namespaces/{}/openstackdeployments/nimbus/status", self.namespace);
        vec![format!("osdpl PATCH {path}"); count]
    }
}
