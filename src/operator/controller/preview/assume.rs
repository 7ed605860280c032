//! Reads from the resource's status what `osdpl plan` can't observe itself, for example the digests of charts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::{ChartSource, now};
use osdpl_core::api::{ComponentHealth, OpenStackDeployment, OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo, Selection};
use osdpl_core::endpoint::COMPONENT as ENDPOINT_COMPONENT;
use osdpl_core::observed::{EndpointProbe, Liveness, Observed, ReleaseKey, RunningHelm};
use osdpl_core::release::{Status, Verb};
use osdpl_decide::{Assumed, Crds, Snapshot, Target, target};
use osdpl_values::CollectSorted;

/// The data from which the preview assumes what `osdpl plan` can't observe: the operator's charts, its helm processes,
/// and the results of its API probes.
pub(super) struct Assumptions<'a> {
    /// The `OpenStackDeployment` that the cluster contains; `None` if it does not exist yet.
    pub(super) live: Option<&'a OpenStackDeployment>,
    /// The catalogue with which the preview makes the plan.
    pub(super) catalog: &'a Catalog,
    /// The source of charts that the user named. With `None`, the preview uses the chart digests in the status.
    pub(super) charts: Option<&'a ChartSource>,
}

/// The charts of releases, as the status describes them.
#[derive(Default)]
struct ReportedCharts {
    charts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// The releases for which the status lacks some data about the chart, so that the preview can only guess their
    /// input digests.
    guessed: BTreeSet<String>,
    unknown: Vec<String>,
}

impl Assumptions<'_> {
    /// Returns the major version of the operator's helm, and the charts that the preview assumes. Adds to `unknown` the
    /// facts that it can't determine.
    pub(super) async fn resolve(&self, snapshot: &Snapshot, unknown: &mut Vec<String>) -> (u64, Assumed) {
        let Target { spec, selection, observed } = target(snapshot);
        if selection.is_refused() || snapshot.deployment.metadata.deletion_timestamp.is_some() {
            return (4, Assumed::default());
        }
        let (major, mut guessed) = self.helm_major(&selection, &observed, unknown);
        let charts = if let Some(source) = self.charts {
            source.settled(&spec, self.catalog, &selection).await
        } else {
            let reported = self.reported_charts(&spec, &selection, &observed);
            guessed.extend(reported.guessed);
            unknown.extend(reported.unknown);
            reported.charts
        };
        (major, Assumed { charts, has_charts: self.charts.is_some(), guessed })
    }

    /// Adds to a snapshot the helm processes that the operator probably runs, and the results of the operator's API
    /// probes.
    pub(super) fn add_reported_state(&self, snapshot: &mut Snapshot) {
        let Target { selection, .. } = target(snapshot);
        add_running_helm(&mut snapshot.observed, self.live, &selection);
        snapshot.observed.endpoints = Arc::new(self.reported_endpoints(&selection.releases));
    }

    /// Returns the CRDs of each chart in the source that the user named. If the user named no source, the result is
    /// empty: the preview then knows the charts only from the status, which does not contain CRDs.
    pub(super) fn crds(&self) -> BTreeMap<String, Crds> {
        self.charts.map(|source| source.snapshot().crds).unwrap_or_default()
    }

    /// Returns the major version of the operator's helm, and the releases whose input digests the preview can't
    /// compute.
    ///
    /// Input digests depend on helm's version. So if the status does not contain this version, the function assumes
    /// helm 4, and returns all installed releases. Otherwise, it returns no releases.
    fn helm_major(
        &self,
        selection: &Selection,
        observed: &Observed,
        unknown: &mut Vec<String>,
    ) -> (u64, BTreeSet<String>) {
        let version = self.live.and_then(|live| live.status.as_ref()?.helm.as_ref());
        let major = version.and_then(|version| version.split('.').next()?.parse().ok());
        let existing = |key| observed.releases.contains_key(key);
        let guessed: BTreeSet<String> = match major {
            Some(_) => BTreeSet::new(),
            None => selection.releases.iter().filter(|(_, key)| existing(key)).map(|(n, _)| n.clone()).collect_set(),
        };
        if !guessed.is_empty() {
            unknown.push("the version of the operator's helm, because the status does not contain it yet".into());
        }
        (major.unwrap_or(4), guessed)
    }

    /// Returns the charts of the selected releases, as the status describes them.
    fn reported_charts(
        &self,
        spec: &OpenStackDeploymentSpec,
        selection: &Selection,
        observed: &Observed,
    ) -> ReportedCharts {
        let ReportedCharts { mut charts, mut guessed, mut unknown } = ReportedCharts::default();
        let mut missing = Vec::new();
        let rewrites = spec.images.rewrites();
        for (name, key) in &selection.releases {
            if let Some((version, digest)) = self.version_and_digest(spec, name) {
                charts.insert(name.clone(), Ok(ChartInfo { version, digest, ..ChartInfo::default() }));
            } else if let Some(message) = self.blocked(spec, name) {
                let blocked = Blocked { reason: reason::CHART.into(), message };
                charts.insert(name.clone(), Err(blocked));
            } else {
                guessed.insert(name.clone());
                missing.extend(observed.releases.contains_key(key).then_some(name.as_str()));
            }
            if rewrites {
                guessed.insert(name.clone());
            }
        }
        if !missing.is_empty() {
            let names = missing.join(", ");
            unknown.push(format!(
                "whether the charts of {names} changed (to compare the charts, set --charts to the operator's source \
                 of charts)"
            ));
        }
        if rewrites {
            unknown.push(
                "which images of the charts osdpl takes from the mirror in spec.images (to read the charts, set --charts to the operator's \
                 source of charts)"
                    .into(),
            );
        }
        ReportedCharts { charts, guessed, unknown }
    }

    /// Returns the message in the status that says why the operator has no chart for a release.
    ///
    /// Returns `None` if the operator has a chart (the status contains the chart's digest), or if the spec has changed
    /// since the operator wrote the message.
    fn blocked(&self, spec: &OpenStackDeploymentSpec, name: &str) -> Option<String> {
        let live = self.live.filter(|live| live.spec == *spec)?;
        let status = live.status.as_ref().filter(|status| status.observed_generation == live.metadata.generation)?;
        let child = status.children.get(name)?;
        let is_blocked = child.chart_digest.is_none() && !child.ready && !child.message.is_empty();
        is_blocked.then(|| child.message.clone())
    }

    /// Returns the version and the digest of a release's chart from the status; `None` if the spec has changed and now
    /// selects another chart.
    fn version_and_digest(&self, spec: &OpenStackDeploymentSpec, name: &str) -> Option<(String, String)> {
        let live = self.live?;
        let (service, release) = self.catalog.release(name)?;
        let own = |spec: &OpenStackDeploymentSpec| {
            let own = spec.services.get(service)?.releases.get(name)?;
            Some((own.version.clone(), own.digest.clone()))
        };
        let requested = own(spec).unwrap_or_default();
        let is_same =
            own(&live.spec).unwrap_or_default() == requested && live.spec.charts.repository == spec.charts.repository;
        let child = live.status.as_ref()?.children.get(name)?;
        let digest = child.chart_digest.clone().filter(|_| is_same && child.chart == release.chart)?;
        Some((requested.0.or_else(|| child.version.clone()).unwrap_or_default(), digest))
    }

    /// Returns the results of API probes from the status. `osdpl plan` can't probe the APIs, because it runs outside of
    /// the cluster's network.
    fn reported_endpoints(&self, releases: &BTreeMap<String, ReleaseKey>) -> BTreeMap<ReleaseKey, EndpointProbe> {
        let health = self.live.and_then(|live| live.status.as_ref()).map(|status| &status.health);
        let probes = releases.iter().filter_map(|(name, key)| {
            let endpoint = self.catalog.release(name)?.1.endpoint.as_ref()?;
            let application = endpoint.component.application.clone();
            let reported = health?.get(&application)?.get(ENDPOINT_COMPONENT)?;
            let trouble = (reported.status != ComponentHealth::Ready).then(|| reported.reason.clone());
            Some((key.clone(), EndpointProbe { application, service: endpoint.service.clone(), trouble }))
        });
        probes.collect_map()
    }
}

/// Adds the helm processes that the operator probably runs.
///
/// The preview assumes that helm runs for a release in two cases:
///
/// * The newest record is pending or `uninstalling`, and an operator process that holds a Lease made it.
/// * The release has no record, and the status reports the release as starting.
fn add_running_helm(observed: &mut Observed, live: Option<&OpenStackDeployment>, selection: &Selection) {
    let process = |verb, inputs: Option<&String>, since| RunningHelm {
        verb,
        inputs: inputs.cloned().unwrap_or_default(),
        since,
        stopping: false,
        skips_hooks: false,
    };
    for (key, release) in &observed.releases {
        let attempt = release.attempt.as_ref().filter(|attempt| attempt.revision == release.revision);
        if attempt.is_some_and(|attempt| attempt.owner == Liveness::Alive) {
            let verb = match release.status {
                Status::Uninstalling => Verb::Uninstall,
                status if status.is_pending() => Verb::Upgrade,
                _ => continue,
            };
            let since = release.created_at.unwrap_or_default();
            observed.running.insert(key.clone(), process(verb, release.inputs.as_ref(), since));
        }
    }
    let children = live.and_then(|live| live.status.as_ref()).map(|status| &status.children);
    for (name, reported) in children.into_iter().flatten() {
        let key: Option<&ReleaseKey> = selection.releases.get(name);
        if let Some(key) = key.filter(|key| reported.status == "starting" && !observed.releases.contains_key(*key)) {
            observed.running.insert(key.clone(), process(Verb::Upgrade, None, now()));
        }
    }
}
