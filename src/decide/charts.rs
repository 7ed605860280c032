//! Decides which charts the operator fetches for releases, and which placeholders osdpl uses for missing charts.
//!
//! A restarted operator may need minutes to pull all charts. Until then, placeholders replace missing charts. A
//! placeholder contains the version and digest of the chart from the status. With placeholders, osdpl can observe the
//! cloud, but it upgrades a release only with the fetched chart.
//!
//! In two cases the operator keeps the stored status while no helm process runs, because a new status would contain
//! less information:
//!
//! * The status is for the current generation of the spec, and a missing chart has no placeholder. For example, osdpl
//!   uses no placeholders if the spec takes images from a mirror: then it needs the names of the images, which only the
//!   fetched chart contains.
//! * The status is for an older generation of the spec, and the plan with placeholders changes nothing. Only a plan
//!   with the fetched charts shows whether the new spec changes something.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use osdpl_values::CollectSorted;

use super::draft::Draft;
use super::requests::{ChartRequest, DigestSource, ExpectedDigest};
use super::snapshot::{ChartState, Charts};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo, Desired, Selection};
use osdpl_core::plan::{Action, Plan, Step, Wait};

/// The delay before the operator tries again to fetch a chart after a failure.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

/// The maximum number of chart digests in the status. A cloud has at most about 60 charts, so the status also has room
/// for the digests of charts that the cloud used earlier.
const MAX_RECORDS: usize = 256;

/// The releases that have a placeholder in place of their chart, each with the reason why its upgrade waits.
pub(crate) type Placeholders = BTreeMap<String, Blocked>;

/// Returns the request for the chart of a release; `None` if the catalogue does not have the release.
///
/// `recorded` contains the chart digests in the status, by `chart@version`.
pub fn chart_request(
    charts: &Charts,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    name: &str,
    recorded: &BTreeMap<String, String>,
) -> Option<ChartRequest> {
    let (service, release) = catalog.release(name)?;
    let own = spec.services.get(service).and_then(|service| service.releases.get(name));
    let requested = own.and_then(|own| own.version.clone());
    let pin = charts.pin(catalog, &release.chart);
    let added = pin.filter(|_| requested.is_none());
    let mut request = ChartRequest {
        name: release.chart.clone(),
        version: requested.clone().or_else(|| pin.map(|pin| pin.version.clone())),
        repository: spec.charts.repository.clone().or_else(|| pin.and_then(|pin| pin.repository.clone())),
        digest: None,
    };
    let version = requested.or_else(|| catalog.lock.get(&release.chart).map(|pin| pin.version.clone()));
    let first_pull = version.filter(|_| !charts.is_in_folder(&request));
    let first_pull = first_pull.and_then(|version| recorded.get(&record_key(&request.name, &version)));
    let expected = |source| move |digest: &String| ExpectedDigest { digest: digest.clone(), source };
    request.digest = own
        .and_then(|own| own.digest.as_ref())
        .map(expected(DigestSource::Spec))
        .or_else(|| added.and_then(|pin| pin.digest.as_ref()).map(expected(DigestSource::Addition)))
        .or_else(|| first_pull.map(expected(DigestSource::Status)));
    Some(request)
}

/// Returns the key of a chart in `status.charts`.
fn record_key(chart: &str, version: &str) -> String {
    format!("{chart}@{version}")
}

/// Returns the chart digests to store in the status.
///
/// The result contains the digests of the requested charts from repositories. It also contains digests of earlier chart
/// versions, as long as it has at most [`MAX_RECORDS`] digests. If the spec returns to an earlier version, osdpl
/// compares the fetched chart with that version's digest. So osdpl notices if the repository has changed the chart.
pub(crate) fn record_digests(
    deployment: &OpenStackDeployment,
    charts: &Charts,
    requests: &BTreeMap<String, ChartRequest>,
) -> BTreeMap<String, String> {
    let pulled = requests.iter().filter(|(_, request)| !charts.is_in_folder(request));
    let current = pulled.filter_map(|(name, request)| match charts.state(name, request)? {
        ChartState::Ready(chart) => Some((record_key(&request.name, &chart.version), chart.digest.clone())),
        ChartState::Pending | ChartState::Failed(..) => None,
    });
    let mut all: BTreeMap<String, String> = current.collect_map();
    for (key, digest) in deployment.status.iter().flat_map(|status| &status.charts) {
        if all.len() < MAX_RECORDS {
            all.entry(key.clone()).or_insert_with(|| digest.clone());
        }
    }
    all
}

/// The charts that the operator has for the selected releases, and the charts to request.
#[derive(Default)]
pub struct KnownCharts {
    /// The chart of each release, or why it is not available.
    pub facts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    /// The request for the chart of each release.
    pub requests: BTreeMap<String, ChartRequest>,
    /// The earliest time at which the operator retries to fetch a chart; `None` if no fetch has failed.
    pub retry: Option<Timestamp>,
}

/// Returns the charts that the operator has for the selected releases, and the charts to request.
///
/// `recorded` contains the chart digests in the status, by `chart@version`.
pub fn known_charts(
    charts: &Charts,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    recorded: &BTreeMap<String, String>,
) -> KnownCharts {
    let mut all = KnownCharts::default();
    for name in selection.releases.keys() {
        let Some(request) = chart_request(charts, spec, catalog, name, recorded) else { continue };
        let fact = match charts.state(name, &request) {
            Some(ChartState::Ready(chart)) => Ok(chart.clone()),
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
    let none = BTreeMap::new();
    let recorded = draft.snapshot.deployment.status.as_ref().map_or(&none, |status| &status.charts);
    let known = known_charts(&draft.snapshot.charts, spec, draft.catalog(), selection, recorded);
    draft.requeue(known.retry);
    draft.requests.charts = known.requests;
    known.facts
}

/// Returns when the operator tries again to fetch a chart after a failure at the time `at`.
pub fn retry_chart_at(at: Timestamp) -> Timestamp {
    at.checked_add(RETRY_INTERVAL).unwrap_or(Timestamp::MAX)
}

/// Puts a placeholder in place of each chart that the operator is still fetching, if the status contains the version
/// and digest of that chart.
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
        let expected = own.and_then(|own| own.digest.as_ref());
        let is_same = child.chart == release.chart
            && (is_current(deployment) || requested.is_none() || requested == child.version.as_ref())
            && (expected.is_none() || expected == child.chart_digest.as_ref());
        let is_pending = blocked.reason == reason::CHART_PENDING;
        let Some(digest) = child.chart_digest.clone().filter(|_| is_same && is_pending) else { continue };
        placeholders.insert(name.clone(), blocked.clone());
        let version = requested.or(child.version.as_ref()).cloned().unwrap_or_default();
        *fact = Ok(ChartInfo { version, digest, ..ChartInfo::default() });
    }
    placeholders
}

/// Makes the upgrade of each release in `placeholders` wait until the operator has fetched the chart.
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
/// The operator keeps a status of the current generation while it fetches a chart that has no placeholder. It keeps a
/// status of an older generation while some charts are placeholders and the plan changes nothing.
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

    /// Returns the releases whose charts are placeholders, and the digest in the placeholder of `store`.
    ///
    /// The test cloud has two releases. The operator is still fetching the chart of `store`, and could not fetch the
    /// chart of `front`. `change` is merged into the `OpenStackDeployment`.
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

    /// Returns the request for the chart of `store`. `own` contains the fields of the release `store` in the spec.
    fn request(charts: &Charts, own: &serde_json::Value) -> ChartRequest {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let services = json!({"store": {"releases": {"store": own}}});
        let spec = deployment(json!({"spec": {"services": services}})).spec;
        let recorded = [("store@1.0.0", "sha256:a"), ("store@2.0.0", "sha256:b")];
        let recorded = recorded.map(|(chart, digest)| (chart.to_owned(), digest.to_owned())).into();
        chart_request(charts, &spec, &catalog, "store", &recorded).unwrap()
    }

    #[test]
    fn requests_the_digest_of_the_spec_or_of_the_first_pull() {
        let locked = Charts { locked: ["store".to_owned()].into(), ..Charts::default() };
        let folder = Charts { folder: true, ..locked.clone() };
        let digest = |charts: &Charts, own: serde_json::Value| {
            request(charts, &own).digest.map(|found| (found.source, found.digest))
        };
        let pinned = json!({"version": "2.0.0", "digest": "sha256:c"});
        let first_pull = |digest: &str| Some((DigestSource::Status, digest.to_owned()));
        assert_eq!(digest(&locked, json!({})), first_pull("sha256:a"));
        assert_eq!(digest(&locked, json!({"version": "2.0.0"})), first_pull("sha256:b"));
        assert_eq!(digest(&locked, json!({"version": "3.0.0"})), None);
        assert_eq!(
            digest(&folder, json!({"version": "2.0.0"})),
            None,
            "an edited chart in a folder waits for approval, so osdpl expects no digest"
        );
        for charts in [&locked, &folder] {
            assert_eq!(digest(charts, pinned.clone()), Some((DigestSource::Spec, "sha256:c".to_owned())));
        }
    }

    #[test]
    fn records_the_digests_of_pulled_charts() {
        let own = json!({"version": "2.0.0"});
        let wanted = request(&Charts::default(), &own);
        let before = ChartRequest { digest: None, ..wanted.clone() };
        let info = |digest: &str| ChartInfo { version: "2.0.0".into(), digest: digest.into(), ..ChartInfo::default() };
        let charts = |digest| {
            let state = ChartState::Ready(info(digest));
            Charts { known: [("store".to_owned(), (before.clone(), state))].into(), ..Charts::default() }
        };
        let stored = deployment(json!({"status": {"charts": {"store@2.0.0": "sha256:b", "old@1.0.0": "sha256:o"}}}));
        let recorded = |charts: &Charts, request: &ChartRequest| {
            let requests = [("store".to_owned(), request.clone())].into();
            record_digests(&stored, charts, &requests)
        };
        let same = recorded(&charts("sha256:b"), &wanted);
        assert_eq!(same, stored.status.clone().unwrap().charts, "the digests of earlier charts stay in the status");
        assert_eq!(
            recorded(&charts("sha256:x"), &wanted),
            same,
            "a chart with another digest does not answer the request"
        );
        assert_eq!(recorded(&charts("sha256:x"), &before)["store@2.0.0"], "sha256:x");
        let folder = Charts { folder: true, ..charts("sha256:x") };
        assert_eq!(recorded(&folder, &before), same, "the status contains no digests of charts in folders");
        let many = (0..300).map(|number| (format!("chart-{number}@1.0.0"), "sha256:m".into())).collect();
        let mut full = stored.clone();
        full.status.as_mut().unwrap().charts = many;
        let all = record_digests(&full, &charts("sha256:x"), &[("store".to_owned(), before.clone())].into());
        assert_eq!((all.len(), all["store@2.0.0"].as_str()), (MAX_RECORDS, "sha256:x"));
    }

    #[test]
    fn only_upgrades_wait_for_charts() {
        let upgrade = Step::Do(Action::Upgrade { delete_jobs: Vec::new(), skip_hooks: false }, Reason::Spec);
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
            "the operator keeps a status of the current generation while a missing chart has no placeholder"
        );
        assert!(
            !keeps_status(&same, &known, &replaced, false, &idle),
            "the operator replaces a status of the current generation if every missing chart has a placeholder"
        );
        assert!(
            keeps_status(&newer, &known, &replaced, false, &idle),
            "the operator keeps a status of an older generation while only the missing chart can show a change"
        );
        assert!(!keeps_status(&newer, &known, &replaced, false, &waiting), "the operator reports a waiting release");
        assert!(!keeps_status(&newer, &known, &replaced, true, &idle), "the operator reports a refused spec");
        assert!(
            !keeps_status(&newer, &fetching, &replaced, false, &idle),
            "the operator reports that it fetches a chart that has no placeholder"
        );
        assert!(
            !keeps_status(&newer, &known, &empty, false, &idle),
            "the operator replaces a status of an older generation if all charts are available"
        );
    }
}
