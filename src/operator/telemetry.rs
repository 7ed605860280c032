//! Logs and metrics. Shell room.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tracing_subscriber::EnvFilter;

/// What is logged where `RUST_LOG` is unset. The client writes a line of its own for every request that fails, at the same time as we do.
const QUIET: &str = "info,kube=warn,kube_client=off,hyper=warn";

/// Starts logging: JSON lines, or plain ones for people, in colour where they look at a terminal and have not said `NO_COLOR`. `RUST_LOG` chooses what; our
/// own `info` where unset.
pub fn logs(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(QUIET));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    if json { logs.json().flatten_event(true).init() } else { logs.init() }
}

/// The operator's counters. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    passes: Counter,
    failures: Counter,
    maintenance_failures: Counter,
    seconds: Histogram,
    ready_releases: Gauge,
    wanted_releases: Gauge,
    clouds: Clouds,
    ready: AtomicBool,
}

type ByName = Family<Vec<(&'static str, String)>, Gauge>;

/// One sample for every resource.
#[derive(Default)]
struct Clouds {
    ready: ByName,
    awaiting: ByName,
    running: ByName,
    failing: ByName,
    drifted: ByName,
}

impl Clouds {
    fn register(&self, registry: &mut Registry) {
        registry.register("ready", "Whether the cloud is Ready: 1 or 0", self.ready.clone());
        registry.register(
            "releases_awaiting_approval",
            "Releases whose change waits for a person",
            self.awaiting.clone(),
        );
        registry.register("helm_running", "Runs of helm now", self.running.clone());
        registry.register("releases_failing", "Releases whose last operation failed", self.failing.clone());
        registry.register(
            "releases_drifted",
            "Releases of which objects were edited or deleted beside helm",
            self.drifted.clone(),
        );
    }
}

/// How one cloud is, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloudState {
    /// Whether it is Ready.
    pub ready: bool,
    /// Releases whose change waits for a person.
    pub awaiting: usize,
    /// Runs of helm now.
    pub running: usize,
    /// Releases whose last operation failed.
    pub failing: usize,
    /// Releases of which objects were edited or deleted beside helm.
    pub drifted: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("osdpl");
        let (passes, failures) = (Counter::default(), Counter::default());
        let seconds = Histogram::new(exponential_buckets(0.001, 2.0, 14));
        let (ready_releases, wanted_releases) = (Gauge::default(), Gauge::default());
        registry.register("reconciles", "Passes begun", passes.clone());
        registry.register("reconcile_failures", "Passes that ended with an error", failures.clone());
        registry.register_with_unit("reconcile_duration", "How long passes took", Unit::Seconds, seconds.clone());
        let maintenance_failures = Counter::default();
        registry.register(
            "maintenance_failures",
            "Steps of nodes' maintenances that failed",
            maintenance_failures.clone(),
        );
        registry.register("releases_ready", "Releases in sync with everything available", ready_releases.clone());
        registry.register("releases_wanted", "Releases that are wanted, or still there", wanted_releases.clone());
        let clouds = Clouds::default();
        clouds.register(&mut registry);
        let ready = AtomicBool::new(false);
        Self(Arc::new(Inner {
            registry,
            passes,
            failures,
            maintenance_failures,
            seconds,
            ready_releases,
            wanted_releases,
            clouds,
            ready,
        }))
    }
}

impl Metrics {
    /// Counts a pass, and how long it takes until the answer is dropped.
    pub fn pass(&self) -> Pass {
        self.0.passes.inc();
        Pass { metrics: self.clone(), since: now() }
    }

    /// Counts a pass that ended with an error.
    pub fn failed(&self) {
        self.0.failures.inc();
    }

    /// Counts a step of a node's maintenance that failed.
    pub fn maintenance_failed(&self) {
        self.0.maintenance_failures.inc();
    }

    /// Sets the releases that are ready, of those wanted.
    pub fn releases(&self, ready: usize, wanted: usize) {
        self.0.ready_releases.set(i64::try_from(ready).unwrap_or(i64::MAX));
        self.0.wanted_releases.set(i64::try_from(wanted).unwrap_or(i64::MAX));
    }

    /// Sets what alerts are made of, for the resource of this name.
    pub fn cloud(&self, name: &str, state: CloudState) {
        let CloudState { ready, awaiting, running, failing, drifted } = state;
        let label = vec![("name", name.to_owned())];
        let clouds = &self.0.clouds;
        for (family, value) in [
            (&clouds.ready, usize::from(ready)),
            (&clouds.awaiting, awaiting),
            (&clouds.running, running),
            (&clouds.failing, failing),
            (&clouds.drifted, drifted),
        ] {
            family.get_or_create(&label).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    /// Says of the resource of this name that it is not Ready, whatever else was said of it last.
    pub fn not_ready(&self, name: &str) {
        self.0.clouds.ready.get_or_create(&vec![("name", name.to_owned())]).set(0);
    }

    /// Forgets a resource that is gone.
    pub fn gone(&self, name: &str) {
        let label = vec![("name", name.to_owned())];
        let Clouds { ready, awaiting, running, failing, drifted } = &self.0.clouds;
        for family in [ready, awaiting, running, failing, drifted] {
            family.remove(&label);
        }
    }

    /// Says that everything was seen once.
    pub fn ready(&self) {
        self.0.ready.store(true, Ordering::Relaxed);
    }

    /// Whether everything was seen once.
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Relaxed)
    }

    /// All metrics in the `OpenMetrics` text format; helm's children from `tally`.
    pub fn text(&self, tally: &crate::helm::Tally) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.0.registry);
        text.replace("# EOF\n", &format!("{}# EOF\n", helm(tally)))
    }
}

/// Helm's children: the Runner counts them, once.
fn helm(tally: &crate::helm::Tally) -> String {
    let mut text = String::from("# HELP osdpl_helm_runs Runs of helm that ended.\n# TYPE osdpl_helm_runs counter\n");
    for (verb, counts) in &tally.verbs {
        let outcomes = [("succeeded", counts.succeeded), ("failed", counts.failed), ("stopped", counts.stopped)];
        for (outcome, count) in outcomes {
            let _ = writeln!(text, "osdpl_helm_runs_total{{verb=\"{verb}\",outcome=\"{outcome}\"}} {count}");
        }
    }
    text.push_str("# HELP osdpl_helm_starts Runs of helm begun.\n# TYPE osdpl_helm_starts counter\n");
    for (verb, counts) in &tally.verbs {
        let _ = writeln!(text, "osdpl_helm_starts_total{{verb=\"{verb}\"}} {}", counts.started);
    }
    text.push_str(
        "# HELP osdpl_helm_seconds Seconds that ended runs of helm took.\n# TYPE osdpl_helm_seconds counter\n",
    );
    for (verb, counts) in &tally.verbs {
        let _ = writeln!(text, "osdpl_helm_seconds_total{{verb=\"{verb}\"}} {}", counts.seconds);
    }
    text
}

/// A pass that is being measured.
pub struct Pass {
    metrics: Metrics,
    since: Instant,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.metrics.0.seconds.observe(self.since.elapsed().as_secs_f64());
    }
}

#[allow(clippy::disallowed_methods, reason = "the clock of measurements")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helm::{Tally, VerbTally};

    #[test]
    fn every_run_is_counted_once_by_its_outcome_and_every_cloud_has_its_gauges_while_it_is_there() {
        let metrics = Metrics::default();
        metrics.cloud("cloud", CloudState { ready: true, awaiting: 1, running: 2, failing: 3, drifted: 4 });
        let counts = VerbTally { started: 3, succeeded: 1, failed: 1, ..VerbTally::default() };
        let tally = Tally { verbs: [("upgrade", counts)].into() };
        let text = metrics.text(&tally);
        for line in [
            "osdpl_helm_starts_total{verb=\"upgrade\"} 3",
            "osdpl_ready{name=\"cloud\"} 1",
            "osdpl_releases_awaiting_approval{name=\"cloud\"} 1",
            "osdpl_helm_running{name=\"cloud\"} 2",
            "osdpl_releases_failing{name=\"cloud\"} 3",
            "osdpl_releases_drifted{name=\"cloud\"} 4",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
        }
        let runs = text.lines().filter(|line| line.starts_with("osdpl_helm_runs_total{"));
        assert_eq!(runs.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>(), 2);
        metrics.not_ready("cloud");
        let text = metrics.text(&tally);
        assert!(
            text.contains("osdpl_ready{name=\"cloud\"} 0") && text.contains("osdpl_helm_running{name=\"cloud\"} 2")
        );
        metrics.gone("cloud");
        assert!(!metrics.text(&tally).contains("name=\"cloud\""));
    }
}
