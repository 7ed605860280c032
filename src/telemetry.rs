//! Logs and metrics. Shell room.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tracing_subscriber::EnvFilter;

/// What is logged where `RUST_LOG` is unset. The client writes a line of its own for every request that fails, at the same time as we do.
const QUIET: &str = "info,kube=warn,kube_client=off,hyper=warn";

/// Starts logging: JSON lines, or plain ones for a terminal. `RUST_LOG` chooses what; our own `info` where unset.
pub fn logs(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(QUIET));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json { logs.json().flatten_event(true).init() } else { logs.init() }
}

/// The operator's counters. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    passes: Counter,
    failures: Counter,
    seconds: Histogram,
    ready_releases: Gauge,
    wanted_releases: Gauge,
    ready: AtomicBool,
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
        registry.register("releases_ready", "Releases in sync with everything available", ready_releases.clone());
        registry.register("releases_wanted", "Releases that are wanted, or still there", wanted_releases.clone());
        let ready = AtomicBool::new(false);
        Self(Arc::new(Inner { registry, passes, failures, seconds, ready_releases, wanted_releases, ready }))
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

    /// Sets the releases that are ready, of those wanted.
    pub fn releases(&self, ready: usize, wanted: usize) {
        self.0.ready_releases.set(i64::try_from(ready).unwrap_or(i64::MAX));
        self.0.wanted_releases.set(i64::try_from(wanted).unwrap_or(i64::MAX));
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
    let mut text = String::from("# HELP osdpl_helm_runs Runs of helm.\n# TYPE osdpl_helm_runs counter\n");
    for (verb, counts) in &tally.verbs {
        let outcomes = [
            ("started", counts.started),
            ("succeeded", counts.succeeded),
            ("failed", counts.failed),
            ("stopped", counts.stopped),
        ];
        for (outcome, count) in outcomes {
            let _ = writeln!(text, "osdpl_helm_runs_total{{verb=\"{verb}\",outcome=\"{outcome}\"}} {count}");
        }
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
