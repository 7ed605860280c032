//! Outages around the operator: the API server, DNS, the network or the clock fails. The cloud converges afterwards.
//!
//! Each test runs the operator in a pod ([`Pod`]) that restarts as under a kubelet, and checks that the numbers of helm
//! runs and of writes stay small. [`run_test`](crate::world::run_test) checks that no two helm processes worked on one
//! release at once, and that no operator panicked or leaked a secret. The long tests run with `make faults`.

mod api_server;
mod clock;
mod compaction;
mod dns;
mod libc;
mod network;
mod storms;

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::operator::{Operator, PROBE_PERIOD, Setup};
use crate::world::{World, with_timeout};

/// The pause before the operator's container starts again. A kubelet waits longer after several failures.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// A simulated pod of the operator, with a simulated kubelet. The kubelet starts the operator's process again whenever
/// the process has ended.
pub struct Pod<'a, F> {
    /// The function that returns the setup of each new container.
    setup: F,
    world: &'a World,
    restarts: Cell<usize>,
    /// The number of liveness probes that have succeeded.
    probes: Cell<usize>,
}

impl<'a, F: Fn() -> Setup<'a>> Pod<'a, F> {
    pub fn new(world: &'a World, setup: F) -> Self {
        Self { setup, world, restarts: Cell::new(0), probes: Cell::new(0) }
    }

    /// Runs the operator until the scenario has ended, and returns the result of the scenario. Starts the operator
    /// again whenever it ends, and checks that its liveness probe never fails.
    pub async fn during<T>(&self, scenario: impl Future<Output = T>) -> T {
        let mut kubelet = pin!(self.keep_running());
        let result = tokio::select! {
            never = &mut kubelet => match never {},
            result = scenario => result,
        };
        // The scenario may end before a probe can detect that the operator does not respond any more. So wait for one
        // more successful probe.
        let last = async {
            let probes = self.probes.get();
            while self.probes.get() == probes {
                tokio::time::sleep(PROBE_PERIOD).await;
            }
        };
        tokio::select! {
            never = kubelet => match never {},
            () = with_timeout("the liveness probe succeeds after the scenario", last) => result,
        }
    }

    async fn keep_running(&self) -> Infallible {
        loop {
            let mut operator: Operator = (self.setup)().pod("operator").spawn();
            while !operator.has_ended() {
                let is_live = operator.check_liveness().await;
                self.probes.update(|probes| probes + usize::from(is_live));
                tokio::time::sleep(PROBE_PERIOD).await;
            }
            self.restarts.set(self.restarts.get() + 1);
            tokio::time::sleep(RESTART_PAUSE).await;
        }
    }

    /// Waits until the operator's process has ended `restarts` times.
    pub async fn until_restarts(&self, restarts: usize) {
        let ended = async {
            while self.restarts.get() < restarts {
                tokio::time::sleep(PROBE_PERIOD).await;
            }
        };
        with_timeout(&format!("the operator has ended {restarts} times"), ended).await;
    }

    /// Checks the number of helm runs, and the number of writes of the status after `since`. Each operator process and
    /// each change of the spec may cause one helm run for each release. Each operator process and each helm run may
    /// cause [`MAX_STATUS_WRITES`] writes of the status. `releases` is the number of releases, `changes` the number of
    /// changes of the spec.
    fn check_bounds(&self, since: Timestamp, releases: usize, changes: usize) {
        let (runs, operators) = (self.world.helm_runs(), self.restarts.get() + 1);
        let writes = self.world.status_writes_since(since);
        println!("{} helm runs, {writes} writes of the status, {operators} operators", runs.len());
        assert!(runs.len() <= releases * (operators + changes), "{runs:#?}");
        assert!(writes <= MAX_STATUS_WRITES * (operators + runs.len()), "{writes} writes of the status");
    }
}

/// The maximum number of writes of the status for each operator process, and for each helm run. Without an outage, the
/// operator writes about six times for each helm run. An outage makes helm runs fail, and causes more writes, because
/// the operator reports what it can't read.
const MAX_STATUS_WRITES: usize = 15;

impl World {
    /// Returns how often the operators have written the status of the test's OpenStackDeployment after `since`.
    pub fn status_writes_since(&self, since: Timestamp) -> usize {
        let is_status = |entry: &&cluster::AuditEntry| {
            entry.resource == "openstackdeployments"
                && entry.subresource == "status"
                && entry.namespace == self.namespace
        };
        self.writes_since(since).iter().filter(is_status).count()
    }
}
