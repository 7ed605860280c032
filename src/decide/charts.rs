//! Decides which charts of releases the operator fetches, and which placeholders osdpl uses until it has fetched them.
//!
//! A restarted operator may need minutes to pull all charts. Until then, osdpl takes the version and digest of a
//! missing chart from the status, as a placeholder. With placeholders osdpl can watch the cloud, but it upgrades a
//! release only with the fetched chart.
//!
//! In two cases the operator keeps the stored status, because a new status would contain less information:
//!
//! * The status is for the current generation of the spec, and a chart has no placeholder. For example, if the spec
//!   takes images from a mirror, osdpl needs the names of the images, which only the chart contains.
//! * The spec is newer than the status, and the plan with placeholders changes nothing. The plan with the fetched
//!   charts may still change something.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::requests::ChartRequest;
use super::snapshot::{ChartState, Charts};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo, Desired, Selection};
use osdpl_core::plan::{Action, Plan, Step, Wait};

/// How long osdpl waits before it tries again to fetch a chart.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

/// The releases whose charts are placeholders, each with the reason why its upgrade waits.
pub(crate) type Placeholders = BTreeMap<String, Blocked>;

/// Returns the chart to request for a release, and the digest that an addition to the catalogue pins for this chart, if
/// any.
///
/// Returns `None` if the catalogue does not have the release.
pub fn chart_request<'a>(
    charts: &Charts,
    spec: &OpenStackDeploymentSpec,
    catalog: &'a Catalog,
    name: &str,
) -> Option<(ChartRequest, Option<&'a String>)> {
    let (service, release) = catalog.release(name)?;
    let version = spec.services.get(service).and_then(|s| s.releases.get(name)).and_then(|r| r.version.clone());
    let pin = charts.pin(catalog, &release.chart);
    let digest = pin.filter(|_| version.is_none()).and_then(|pin| pin.digest.as_ref());
    let request = ChartRequest {
        name: release.chart.clone(),
        version: version.or_else(|| pin.map(|pin| pin.version.clone())),
        repository: spec.charts.repository.clone().or_else(|| pin.and_then(|pin| pin.repository.clone())),
    };
    Some((request, digest))
}

/// The charts that the operator has for the selected releases, and the charts to request.
#[derive(Default)]
pub struct KnownCharts {
    /// The chart of each release, or why it is not available.
    pub facts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// The chart to request for each release.
    pub requests: BTreeMap<String, ChartRequest>,
    /// The earliest time at which the operator retries to fetch a chart; `None` if the operator could fetch all charts.
    pub retry: Option<Timestamp>,
}

/// Returns the charts that the operator has for the selected releases, and the charts to request.
pub fn known_charts(
    charts: &Charts,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
) -> KnownCharts {
    let mut all = KnownCharts::default();
    for name in selection.releases.keys() {
        let Some((request, digest)) = chart_request(charts, spec, catalog, name) else { continue };
        let state = charts.known.get(name).filter(|(before, _)| *before == request).map(|(_, state)| state);
        let fact = match state {
            Some(ChartState::Ready(chart)) => match digest.filter(|digest| **digest != chart.digest) {
                None => Ok(chart.clone()),
                Some(digest) => Err(Blocked {
                    reason: reason::CHART.into(),
                    message: format!(
                        "chart {} {} has the digest {}, and the lock that was added to the catalogue has \
                         {digest}; correct the one that is wrong",
                        request.name, chart.version, chart.digest
                    ),
                }),
            },
            Some(ChartState::Failed(blocked, until)) => {
                all.retry = all.retry.into_iter().chain([*until]).min();
                Err(blocked.clone())
            }
            Some(ChartState::Pending) | None => Err(Blocked {
                reason: reason::CHART_PENDING.into(),
                message: format!("chart {} is being fetched", request.name),
            }),
        };
        all.facts.insert(name.clone(), fact);
        all.requests.insert(name.clone(), request);
    }
    all
}

/// Requests the charts of all selected releases; returns for each release its chart, or why it is not available.
pub(crate) fn facts(
    draft: &mut Draft<'_>,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
    if let Some(assumed) = &draft.snapshot.assumed {
        return assumed.charts.clone();
    }
    let known = known_charts(&draft.snapshot.charts, spec, draft.catalog(), selection);
    draft.requeue(known.retry);
    draft.requests.charts = known.requests;
    known.facts
}

/// Returns when the operator tries again to fetch a chart after a failure at the time `at`.
pub fn retry_chart_at(at: Timestamp) -> Timestamp {
    at.checked_add(RETRY_INTERVAL).unwrap_or(Timestamp::MAX)
}

/// Replaces each chart that the operator is still fetching by a placeholder with the version and digest in the status.
///
/// Returns the releases whose charts are placeholders.
pub(crate) fn fill_placeholders(
    deployment: &OpenStackDeployment,
    catalog: &Catalog,
    charts: &mut BTreeMap<String, Result<ChartInfo, Blocked>>,
) -> Placeholders {
    let mut placeholders = Placeholders::new();
    let Some(status) = deployment.status.as_ref() else { return placeholders };
    if status.observed_generation.is_none() || deployment.spec.images.rewrites() {
        return placeholders;
    }
    for (name, fact) in charts {
        let Err(blocked) = fact.as_ref().map(drop) else { continue };
        let Some((child, (service, release))) = status.children.get(name).zip(catalog.release(name)) else { continue };
        let own = deployment.spec.services.get(service).and_then(|service| service.releases.get(name));
        let requested = own.and_then(|own| own.version.as_ref());
        let is_same = child.chart == release.chart
            && (is_current(deployment) || requested.is_none() || requested == child.version.as_ref());
        let is_pending = blocked.reason == reason::CHART_PENDING;
        let Some(digest) = child.chart_digest.clone().filter(|_| is_same && is_pending) else { continue };
        placeholders.insert(name.clone(), blocked.clone());
        let version = requested.or(child.version.as_ref()).cloned().unwrap_or_default();
        *fact = Ok(ChartInfo { version, digest, ..ChartInfo::default() });
    }
    placeholders
}

/// Makes the upgrade of a release wait while its chart is only a placeholder.
pub(crate) fn wait_for_charts(plan: &mut Plan, placeholders: &Placeholders) {
    for (name, blocked) in placeholders {
        let Some(decision) = plan.decisions.get_mut(name) else { continue };
        if matches!(decision.step, Step::Do(Action::Upgrade { .. }, _)) {
            let Blocked { reason, message } = blocked.clone();
            decision.step = Step::Wait(Wait::Blocked { reason, message });
            decision.cleanup = None;
        }
    }
}

/// Returns whether the operator keeps the stored status, because a new status would contain less information.
///
/// If the status is of the current generation, the operator keeps it until every chart is fetched or has a placeholder.
/// If the spec is newer, the operator keeps the status while some charts are placeholders and the plan changes nothing.
pub(crate) fn keeps_status(
    deployment: &OpenStackDeployment,
    desired: &Desired,
    placeholders: &Placeholders,
    is_refused: bool,
    plan: &Plan,
) -> bool {
    if is_current(deployment) {
        return desired.is_fetching();
    }
    !placeholders.is_empty() && !desired.is_fetching() && !is_refused && plan.is_idle()
}

/// Returns whether the status was written for the current generation of the spec.
fn is_current(deployment: &OpenStackDeployment) -> bool {
    deployment.status.as_ref().and_then(|status| status.observed_generation) == deployment.metadata.generation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_core::observed::ReleaseKey;
    use osdpl_core::plan::{Decision, Reason};
    use osdpl_core::testing::fixture;

    fn deployment(change: serde_json::Value) -> OpenStackDeployment {
        let child = json!({
            "status": "deployed", "ready": true, "chart": "store", "version": "1.2.3", "chartDigest": "sha256:reported",
        });
        let object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "generation": 2}, "spec": {"openstackRelease": "2026.1"},
            "status": {"observedGeneration": 2, "children": {"store": child}},
        });
        let map = |value: serde_json::Value| value.as_object().cloned().unwrap();
        let mut object = map(object);
        osdpl_values::merge(&mut object, map(change));
        serde_json::from_value(object.into()).unwrap()
    }

    fn decision(step: Step) -> Decision {
        Decision { key: ReleaseKey::new("openstack", "store"), step, cleanup: None, drift_action: None }
    }

    /// Returns the placeholders for two releases, and the digest of the chart of `store`.
    ///
    /// The chart of `store` is being fetched; the fetch of the chart of `front` failed.
    fn placeholders(change: serde_json::Value) -> (Vec<String>, Option<String>) {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let blocked = |reason: &str| Err(Blocked { reason: reason.into(), message: "x".into() });
        let mut charts = BTreeMap::from([
            ("store".to_owned(), blocked(reason::CHART_PENDING)),
            ("front".to_owned(), blocked(reason::CHART)),
        ]);
        let placeholders = fill_placeholders(&deployment(change), &catalog, &mut charts);
        assert!(charts["front"].is_err());
        (placeholders.into_keys().collect(), charts["store"].as_ref().ok().map(|fact| fact.digest.clone()))
    }

    #[test]
    fn the_status_contains_placeholders_for_charts() {
        let version = |version: &str| json!({"store": {"releases": {"store": {"version": version}}}});
        let newer = |version| json!({"metadata": {"generation": 3}, "spec": {"services": version}});
        for change in [json!({}), json!({"metadata": {"generation": 3}}), newer(version("1.2.3"))] {
            assert_eq!(placeholders(change), (vec!["store".to_owned()], Some("sha256:reported".to_owned())));
        }
        for change in [
            newer(version("1.2.4")),
            json!({"status": {"observedGeneration": null}}),
            json!({"spec": {"images": {"mirrors": {"docker.io": "mirror.example"}}}}),
            json!({"status": {"children": {"store": {"chartDigest": null}}}}),
            json!({"status": {"children": {"store": {"chart": "another"}}}}),
        ] {
            assert_eq!(placeholders(change.clone()), (Vec::new(), None), "{change}");
        }
    }

    #[test]
    fn only_upgrades_wait_for_charts() {
        let upgrade = Step::Do(Action::Upgrade { delete_jobs: Vec::new() }, Reason::Spec);
        let blocked = Blocked { reason: reason::CHART_PENDING.into(), message: "chart x is being fetched".into() };
        let placeholders = Placeholders::from([("front".to_owned(), blocked.clone()), ("store".to_owned(), blocked)]);
        let decisions = [("front".to_owned(), decision(upgrade)), ("store".to_owned(), decision(Step::Ready))].into();
        let mut plan = Plan { decisions, ..Plan::default() };
        wait_for_charts(&mut plan, &placeholders);
        assert!(
            matches!(&plan.decisions["front"].step, Step::Wait(Wait::Blocked { reason, .. }) if reason == reason::CHART_PENDING)
        );
        assert_eq!(plan.decisions["store"].step, Step::Ready);
    }

    #[test]
    fn keeps_the_status_while_a_new_one_is_less_complete() {
        let plan = |step| Plan { decisions: [("store".to_owned(), decision(step))].into(), ..Plan::default() };
        let (idle, waiting) = (plan(Step::Ready), plan(Step::Wait(Wait::Paused)));
        let (same, newer) = (deployment(json!({})), deployment(json!({"metadata": {"generation": 3}})));
        let blocked = Blocked { reason: reason::CHART_PENDING.into(), message: "x".into() };
        let (replaced, empty) = (Placeholders::from([("store".to_owned(), blocked.clone())]), Placeholders::new());
        let (known, mut fetching) = (fixture().desired, fixture().desired);
        fetching.releases.values_mut().for_each(|release| release.blocked = Some(blocked.clone()));
        assert!(
            keeps_status(&same, &fetching, &empty, false, &waiting),
            "the operator keeps the status while a chart has no placeholder"
        );
        assert!(
            !keeps_status(&same, &known, &replaced, false, &idle),
            "the operator reports if all charts have placeholders"
        );
        assert!(
            keeps_status(&newer, &known, &replaced, false, &idle),
            "the operator keeps the status if the new spec may change charts"
        );
        assert!(!keeps_status(&newer, &known, &replaced, false, &waiting), "the operator reports a waiting release");
        assert!(!keeps_status(&newer, &known, &replaced, true, &idle), "the operator reports a refused spec");
        assert!(
            !keeps_status(&newer, &fetching, &replaced, false, &idle),
            "the operator reports the fetch of a new chart"
        );
        assert!(
            !keeps_status(&newer, &known, &empty, false, &idle),
            "the operator reports if all charts are available"
        );
    }
}
