//! Starts the operator's log, and collects its metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::prelude::*;

use crate::helm::Counters;

/// The prefix of every metric's name.
const PREFIX: &str = "osdpl";

/// The log levels if `RUST_LOG` is unset or invalid.
const QUIET: &str = "info,kube=warn,hyper=warn";

/// The Kubernetes client library. If it cannot parse a response of the API server, it logs the whole response, which
/// may be a Secret. The operator itself logs failed requests, without their responses.
const CLIENT_LIBRARY: &str = "kube_client";

/// Starts logging to stderr, as JSON lines if `json` is `true`, else as plain lines. On a terminal, plain lines are
/// coloured unless `NO_COLOR` is set.
///
/// `RUST_LOG` sets the level of each module, such as `info,osdpl_operator=debug`. The default level of the operator is
/// `info`. The messages of the Kubernetes client library (`kube_client`) are off unless `RUST_LOG` names this library.
pub fn init_logging(json: bool) {
    let requested = std::env::var("RUST_LOG").unwrap_or_else(|_| QUIET.to_owned());
    let parsed = parse_levels(&requested);
    let invalid = parsed.as_ref().err().map(ToString::to_string);
    let levels = parsed.or_else(|_| parse_levels(QUIET)).unwrap_or_default();
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = if json { lines.json().flatten_event(true).boxed() } else { lines.boxed() };
    tracing_subscriber::registry().with(lines.with_filter(levels)).init();
    if let Some(problem) = invalid {
        tracing::warn!("RUST_LOG is ignored: {problem}; write levels such as info or info,osdpl_operator=debug");
    }
}

/// Parses log levels such as `info,osdpl_operator=debug`. Turns off the messages of [`CLIENT_LIBRARY`], unless `text`
/// names this library.
fn parse_levels(text: &str) -> Result<Targets, ParseError> {
    let levels = text.parse::<Targets>()?;
    let is_named = levels.iter().any(|(target, _)| target == CLIENT_LIBRARY);
    Ok(if is_named { levels } else { levels.with_target(CLIENT_LIBRARY, LevelFilter::OFF) })
}

/// The operator's metrics. Clones share their state.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

/// The values of the metrics, and the result of the probe `/readyz`.
///
/// Kept until Prometheus or the kubelet asks for them. A restart sets the counters and the histogram to 0, as metrics
/// systems expect; `/readyz` fails again until the operator has read the cluster's state.
struct Inner {
    registry: Registry,
    passes: Counter,
    failures: Counter,
    maintenance_failures: Counter,
    seconds: Histogram,
    ready_releases: Gauge,
    wanted_releases: Gauge,
    clouds: Arc<Clouds>,
    last_pass: Arc<LastPass>,
    /// When the running pass started; `None` if no pass runs.
    running_since: Mutex<Option<Instant>>,
    ready: AtomicBool,
}

/// The state of each cloud, by the name of its resource. When Prometheus reads the metrics, the operator computes the
/// metrics of each cloud from its state.
///
/// Kept because only a pass determines the state, but Prometheus can ask at any time. After a restart, a cloud has no
/// metrics until a pass has determined its state, or passes have failed for longer than a grace period.
#[derive(Debug, Default)]
struct Clouds(Mutex<BTreeMap<String, CloudState>>);

impl Clouds {
    fn states(&self) -> MutexGuard<'_, BTreeMap<String, CloudState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A metric with one sample for each cloud: the name of the metric, its description, and the function that computes its
/// value.
type CloudMetric = (&'static str, &'static str, fn(&CloudState) -> usize);

const CLOUD_METRICS: [CloudMetric; 5] = [
    ("ready", "Whether the cloud is Ready: 1 or 0.", |state| usize::from(state.ready)),
    ("releases_awaiting_approval", "Releases and rollouts that wait for approval.", |state| state.awaiting_approval),
    ("helm_running", "Running helm processes.", |state| state.running),
    ("releases_failing", "Releases whose last operation failed.", |state| state.failing),
    ("releases_drifted", "Releases with objects that someone edited or deleted without helm.", |state| state.drifted),
];

impl Collector for Clouds {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let states = self.states();
        for (metric, help, value) in CLOUD_METRICS.iter().filter(|_| !states.is_empty()) {
            let mut samples = encoder.encode_descriptor(metric, help, None, MetricType::Gauge)?;
            for (name, state) in &*states {
                samples.encode_family(&[("name", name.as_str())])?.encode_gauge(&value(state))?;
            }
        }
        Ok(())
    }
}

/// The end of the last complete pass. Before the first complete pass, the time at which this process became the active
/// operator; `None` on a standby.
#[derive(Debug, Default)]
struct LastPass(Mutex<Option<Instant>>);

impl LastPass {
    fn time(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for LastPass {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(at) = *self.time() else { return Ok(()) };
        let help = "Time since the last complete reconcile pass of the cloud, or since this process became active. It also \
                    grows while nothing changes.";
        let mut gauge =
            encoder.encode_descriptor("last_reconcile_age", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        gauge.encode_gauge(&at.elapsed().as_secs_f64())
    }
}

impl Collector for Counters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let runs = self.verbs.iter().flat_map(|(verb, counts)| {
            let outcomes = [("succeeded", counts.succeeded), ("failed", counts.failed), ("stopped", counts.stopped)];
            outcomes.map(|(outcome, count)| (vec![("verb", verb.as_str()), ("outcome", outcome)], count))
        });
        let starts = self.verbs.iter().map(|(verb, counts)| (vec![("verb", verb.as_str())], counts.started));
        let seconds = self.verbs.iter().map(|(verb, counts)| (vec![("verb", verb.as_str())], counts.seconds));
        encode_counters(&mut encoder, "helm_runs", "Helm processes that ended.", runs)?;
        encode_counters(&mut encoder, "helm_starts", "Helm processes started.", starts)?;
        encode_counters(&mut encoder, "helm_seconds", "Run time of helm processes that ended.", seconds)
    }
}

fn encode_counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (Vec<(&'static str, &'static str)>, impl EncodeCounterValue)>,
) -> fmt::Result {
    let mut counters = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in samples {
        counters.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

/// The numbers that the metrics publish about one cloud. Users define alerts on these metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CloudState {
    /// Whether the cloud is Ready.
    pub ready: bool,
    /// The number of releases and rollouts that wait for approval.
    pub awaiting_approval: usize,
    /// The number of the cloud's running helm processes.
    pub running: usize,
    /// The number of releases whose last install, upgrade or uninstall failed.
    pub failing: usize,
    /// The number of releases with objects that someone edited or deleted without helm.
    pub drifted: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let (passes, failures) = (Counter::default(), Counter::default());
        let seconds = Histogram::new(std::iter::successors(Some(0.001), |bound| Some(bound * 2.0)).take(14));
        let (ready_releases, wanted_releases) = (Gauge::default(), Gauge::default());
        registry.register("reconciles", "Reconcile passes started", passes.clone());
        registry.register("reconcile_failures", "Reconcile passes that failed", failures.clone());
        registry.register_with_unit(
            "reconcile_duration",
            "Duration of reconcile passes",
            Unit::Seconds,
            seconds.clone(),
        );
        let maintenance_failures = Counter::default();
        registry.register(
            "maintenance_failures",
            "Actions and passes for NodeMaintenance resources that failed; the operator retries them",
            maintenance_failures.clone(),
        );
        registry.register("releases_ready", "Releases that are in sync and ready", ready_releases.clone());
        registry.register("releases_wanted", "Releases that are desired or still exist", wanted_releases.clone());
        let clouds = Arc::<Clouds>::default();
        registry.register_collector(Box::new(clouds.clone()));
        let last_pass = Arc::<LastPass>::default();
        registry.register_collector(Box::new(last_pass.clone()));
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
            last_pass,
            running_since: Mutex::default(),
            ready,
        }))
    }
}

impl Metrics {
    /// Counts a reconcile pass, and measures its duration until the returned [`Pass`] is dropped.
    pub(crate) fn start_pass(&self) -> Pass {
        self.0.passes.inc();
        let since = now();
        *self.running_since() = Some(since);
        Pass { metrics: self.clone(), since }
    }

    /// Returns how long the running pass has been running; `None` if no pass runs.
    pub(crate) fn running_pass(&self) -> Option<Duration> {
        self.running_since().map(|since| since.elapsed())
    }

    fn running_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.running_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to measure the time until the first complete pass. Call this function when this process becomes the
    /// active operator.
    pub(crate) fn start_passes(&self) {
        self.0.last_pass.time().get_or_insert(now());
    }

    /// Stores the current time as the end of the last complete pass. A pass is complete if it has finished all its
    /// reads, actions and reports.
    pub(crate) fn complete_pass(&self) {
        *self.0.last_pass.time() = Some(now());
    }

    /// Counts a failed pass.
    pub fn count_failure(&self) {
        self.0.failures.inc();
    }

    /// Counts a failed action, or a failed pass, of the controller of `NodeMaintenance` resources.
    pub(crate) fn count_maintenance_failure(&self) {
        self.0.maintenance_failures.inc();
    }

    /// Sets two metrics: the number of releases that are ready, and the number of releases that are desired or still
    /// exist.
    pub(crate) fn set_releases(&self, ready: usize, wanted: usize) {
        self.0.ready_releases.set(i64::try_from(ready).unwrap_or(i64::MAX));
        self.0.wanted_releases.set(i64::try_from(wanted).unwrap_or(i64::MAX));
    }

    /// Sets the metrics of the cloud `name`.
    pub(crate) fn set_cloud(&self, name: &str, state: CloudState) {
        self.0.clouds.states().insert(name.to_owned(), state);
    }

    /// Marks the cloud `name` as not Ready in the metrics, and keeps its other metrics.
    pub(crate) fn set_not_ready(&self, name: &str) {
        self.0.clouds.states().entry(name.to_owned()).or_default().ready = false;
    }

    /// Removes the metrics of a deleted cloud.
    pub(crate) fn remove_cloud(&self, name: &str) {
        self.0.clouds.states().remove(name);
    }

    /// Makes the probe `/readyz` succeed from now on.
    pub fn set_ready(&self) {
        self.0.ready.store(true, Ordering::Relaxed);
    }

    /// Whether the probe `/readyz` currently succeeds.
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Relaxed)
    }

    /// Returns all metrics in the `OpenMetrics` text format.
    ///
    /// `counters` contains the metrics of helm processes. `is_active` says whether this process is the active operator.
    pub(crate) fn encode(&self, counters: Counters, is_active: bool) -> String {
        let mut helm = Registry::with_prefix(PREFIX);
        helm.register_collector(Box::new(counters));
        let leader: Gauge = Gauge::default();
        leader.set(i64::from(is_active));
        helm.register("leader", "Whether this process is the active operator (1) or a standby (0)", leader);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode_registry(&mut text, &self.0.registry);
        let _ = encode_registry(&mut text, &helm);
        let _ = encode_eof(&mut text);
        text
    }
}

/// Measures the duration of a pass, from the creation of this value until it is dropped.
pub(crate) struct Pass {
    metrics: Metrics,
    since: Instant,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.metrics.0.seconds.observe(self.since.elapsed().as_secs_f64());
        *self.metrics.running_since() = None;
    }
}

#[allow(clippy::disallowed_methods, reason = "uses the clock for measurements")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;
    use crate::helm::Verb;

    #[test]
    fn logs_messages_of_the_client_library_only_on_request() {
        for (text, expected) in [
            (QUIET, false),
            ("debug", false),
            ("trace,kube=trace", false),
            ("info,kube_client=warn", true),
            ("info,kube_client::client=warn", true),
        ] {
            let levels = parse_levels(text).unwrap();
            assert_eq!(levels.would_enable("kube_client::client", &Level::WARN), expected, "{text}");
            assert!(levels.would_enable("osdpl_operator", &Level::INFO), "{text}");
        }
        assert!(parse_levels("info,osdpl_operator=loud").is_err());
    }

    #[test]
    fn counts_helm_processes_and_removes_deleted_clouds() {
        let metrics = Metrics::default();
        metrics
            .set_cloud("cloud", CloudState { ready: true, awaiting_approval: 1, running: 2, failing: 3, drifted: 4 });
        let mut counters = Counters::default();
        let upgrades = counters.verbs.entry(Verb::Upgrade).or_default();
        (upgrades.started, upgrades.succeeded, upgrades.failed) = (3, 1, 1);
        let text = metrics.encode(counters.clone(), true);
        for line in [
            "osdpl_helm_starts_total{verb=\"upgrade\"} 3",
            "osdpl_leader 1",
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
        metrics.set_not_ready("cloud");
        let text = metrics.encode(counters.clone(), true);
        assert!(
            text.contains("osdpl_ready{name=\"cloud\"} 0") && text.contains("osdpl_helm_running{name=\"cloud\"} 2")
        );
        let age = "osdpl_last_reconcile_age_seconds ";
        assert!(!text.contains(age), "a standby runs no passes");
        metrics.start_passes();
        assert!(metrics.encode(counters.clone(), true).contains(age), "no pass has completed yet");
        metrics.remove_cloud("cloud");
        assert!(!metrics.encode(counters.clone(), true).contains("name=\"cloud\""));
    }
}
