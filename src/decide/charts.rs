//! Charts of releases: which are requested, and what is known of them.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::requests::ChartRequest;
use super::snapshot::{ChartState, Charts};
use osdpl_core::api::{OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo, Selection};

/// How long a chart that could not be had rests.
pub const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// The chart that a release is made of, and the digest that it must have where that was added to the catalogue; `None` for a release that the
/// catalogue does not know.
pub fn wanted<'a>(
    charts: &Charts,
    spec: &OpenStackDeploymentSpec,
    catalog: &'a Catalog,
    name: &str,
) -> Option<(ChartRequest, Option<&'a String>)> {
    let (service, release) = catalog.release(name)?;
    let version = spec.services.get(service).and_then(|s| s.releases.get(name)).and_then(|r| r.version.clone());
    let pin = charts.pin(catalog, &release.chart);
    let digest = pin.filter(|_| version.is_none()).and_then(|pin| pin.digest.as_ref());
    let wanted = ChartRequest {
        name: release.chart.clone(),
        version: version.or_else(|| pin.map(|pin| pin.version.clone())),
        repository: spec.charts.repository.clone().or_else(|| pin.and_then(|pin| pin.repository.clone())),
    };
    Some((wanted, digest))
}

/// What is known of the charts of all selected releases.
#[derive(Default)]
pub struct Known {
    /// By release: the chart, or why it can't be had.
    pub facts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// By release: what is requested.
    pub requests: BTreeMap<String, ChartRequest>,
    /// When one that failed is tried again.
    pub retry: Option<Timestamp>,
}

/// Collects what is known of the charts of all selected releases.
pub fn known(charts: &Charts, spec: &OpenStackDeploymentSpec, catalog: &Catalog, selection: &Selection) -> Known {
    let mut all = Known::default();
    for name in selection.releases.keys() {
        let Some((wanted, digest)) = wanted(charts, spec, catalog, name) else { continue };
        let state = charts.known.get(name).filter(|(before, _)| *before == wanted).map(|(_, state)| state);
        let fact = match state {
            Some(ChartState::Ready(fact)) => match digest.filter(|digest| **digest != fact.digest) {
                None => Ok(fact.clone()),
                Some(digest) => Err(Blocked {
                    reason: reason::CHART.into(),
                    message: format!(
                        "chart {} {} has the digest {}, and the lock that was added to the catalogue has {digest}; correct the one that is wrong",
                        wanted.name, fact.version, fact.digest
                    ),
                }),
            },
            Some(ChartState::Failed(blocked, until)) => {
                all.retry = all.retry.into_iter().chain([*until]).min();
                Err(blocked.clone())
            }
            Some(ChartState::Pending) | None => Err(Blocked {
                reason: reason::CHART_PENDING.into(),
                message: format!("chart {} is being fetched", wanted.name),
            }),
        };
        all.facts.insert(name.clone(), fact);
        all.requests.insert(name.clone(), wanted);
    }
    all
}

/// Requests the charts of all selected releases; returns what is known of each.
pub fn facts(
    draft: &mut Draft<'_>,
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    selection: &Selection,
) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
    if let Some(charts) = draft.snapshot.assumed.as_ref().map(|assumed| &assumed.charts) {
        return charts.clone();
    }
    let known = known(&draft.snapshot.charts, spec, catalog, selection);
    draft.wake(known.retry);
    draft.requests.charts = known.requests;
    known.facts
}

/// When a chart that failed at a time is tried again.
pub fn retry(at: Timestamp) -> Timestamp {
    at.checked_add(AGAIN).unwrap_or(Timestamp::MAX)
}
