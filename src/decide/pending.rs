//! Charts that are on their way after a start: until they have come, what the status told of them stands for them, and nothing is started
//! without one. So a cloud is watched while charts are pulled for minutes.
//!
//! Where that can't be said of every chart (mirrors ask for the images that the charts name), the status that stands is truer than one without
//! charts, and is left alone. So it is where a spec came that is newer than the status and seems to change nothing: it may name other charts.

use std::collections::BTreeMap;

use osdpl_core::api::{OpenStackDeployment, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo};
use osdpl_core::plan::{Action, Plan, Step, Wait};

/// What releases wait for whose charts are on their way, by name.
pub type Pending = BTreeMap<String, Blocked>;

/// Takes charts that are on their way for those that the status tells.
pub fn remembered(
    deployment: &OpenStackDeployment,
    catalog: &Catalog,
    charts: &mut BTreeMap<String, Result<ChartInfo, Blocked>>,
) -> Pending {
    let mut pending = Pending::new();
    let Some(status) = deployment.status.as_ref() else { return pending };
    if status.observed_generation.is_none() || deployment.spec.images.rewrites() {
        return pending;
    }
    for (name, fact) in charts {
        let Err(blocked) = fact.as_ref().map(drop) else { continue };
        let Some((child, (service, release))) = status.children.get(name).zip(catalog.release(name)) else { continue };
        let own = deployment.spec.services.get(service).and_then(|service| service.releases.get(name));
        let asked = own.and_then(|own| own.version.as_ref());
        let is_same = child.chart == release.chart
            && (is_current(deployment) || asked.is_none() || asked == child.version.as_ref());
        let told = child.chart_digest.clone().filter(|_| is_same);
        let Some(digest) = told.filter(|_| blocked.reason == reason::CHART_PENDING) else { continue };
        pending.insert(name.clone(), blocked.clone());
        let version = child.version.clone().unwrap_or_default();
        *fact = Ok(ChartInfo { version, digest, ..ChartInfo::default() });
    }
    pending
}

/// Makes what would be started wait for its chart.
pub fn hold(plan: &mut Plan, pending: &Pending) {
    for (name, blocked) in pending {
        let Some(decision) = plan.decisions.get_mut(name) else { continue };
        if matches!(decision.step, Step::Do(Action::Upgrade { .. }, _)) {
            let Blocked { reason, message } = blocked.clone();
            decision.step = Step::Wait(Wait::Blocked { reason, message });
            decision.sweep = None;
        }
    }
}

/// Whether what a pass has found is left unsaid because charts are on their way: of no chart anything is known, or of a newer spec no more than
/// that it seems to change nothing.
pub fn is_withheld(
    deployment: &OpenStackDeployment,
    (fetching, pending, refused): (bool, bool, bool),
    plan: &Plan,
) -> bool {
    if is_current(deployment) {
        return fetching;
    }
    pending && !fetching && !refused && plan.is_idle()
}

/// Whether the status speaks of this very spec.
fn is_current(deployment: &OpenStackDeployment) -> bool {
    deployment.status.as_ref().and_then(|status| status.observed_generation) == deployment.metadata.generation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(change: serde_json::Value) -> OpenStackDeployment {
        let child = json!({"status": "deployed", "ready": true, "chart": "store", "version": "1.2.3", "chartDigest": "sha256:told"});
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

    /// What stands for the charts of two releases, of which one is on its way and the other can't be had.
    fn known(change: serde_json::Value) -> (Vec<String>, Option<String>) {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let blocked = |reason: &str| Err(Blocked { reason: reason.into(), message: "x".into() });
        let mut charts = BTreeMap::from([
            ("store".to_owned(), blocked(reason::CHART_PENDING)),
            ("front".to_owned(), blocked(reason::CHART)),
        ]);
        let pending = remembered(&deployment(change), &catalog, &mut charts);
        assert!(charts["front"].is_err());
        (pending.into_keys().collect(), charts["store"].as_ref().ok().map(|fact| fact.digest.clone()))
    }

    #[test]
    fn a_chart_on_its_way_is_taken_for_the_one_that_the_status_tells_where_nothing_speaks_against_it() {
        let version = |version: &str| json!({"store": {"releases": {"store": {"version": version}}}});
        let newer = |version| json!({"metadata": {"generation": 3}, "spec": {"services": version}});
        for change in [json!({}), json!({"metadata": {"generation": 3}}), newer(version("1.2.3"))] {
            assert_eq!(known(change), (vec!["store".to_owned()], Some("sha256:told".to_owned())));
        }
        for change in [
            newer(version("1.2.4")),
            json!({"status": {"observedGeneration": null}}),
            json!({"spec": {"images": {"mirrors": {"docker.io": "mirror.example"}}}}),
            json!({"status": {"children": {"store": {"chartDigest": null}}}}),
            json!({"status": {"children": {"store": {"chart": "another"}}}}),
        ] {
            assert_eq!(known(change.clone()), (Vec::new(), None), "{change}");
        }
    }

    #[test]
    fn what_would_be_started_waits_for_its_chart_and_what_stands_is_shown_as_it_is() {
        use osdpl_core::observed::ReleaseKey;
        use osdpl_core::plan::{Decision, Reason};
        let decide = |step| Decision { key: ReleaseKey::new("openstack", "store"), step, sweep: None, mending: None };
        let upgrade = Step::Do(Action::Upgrade { delete_jobs: Vec::new() }, Reason::Spec);
        let blocked = Blocked { reason: reason::CHART_PENDING.into(), message: "chart x is being fetched".into() };
        let pending = Pending::from([("front".to_owned(), blocked.clone()), ("store".to_owned(), blocked)]);
        let decisions = [("front".to_owned(), decide(upgrade)), ("store".to_owned(), decide(Step::Ready))].into();
        let mut plan = Plan { decisions, ..Plan::default() };
        hold(&mut plan, &pending);
        assert!(
            matches!(&plan.decisions["front"].step, Step::Wait(Wait::Blocked { reason, .. }) if reason == reason::CHART_PENDING)
        );
        assert_eq!(plan.decisions["store"].step, Step::Ready);
    }

    #[test]
    fn nothing_is_said_while_charts_are_read_but_what_they_are_needed_for() {
        use osdpl_core::observed::ReleaseKey;
        use osdpl_core::plan::Decision;
        let plan = |step| {
            let decision = Decision { key: ReleaseKey::new("openstack", "store"), step, sweep: None, mending: None };
            Plan { decisions: [("store".to_owned(), decision)].into(), ..Plan::default() }
        };
        let (rests, waits) = (plan(Step::Ready), plan(Step::Wait(Wait::Paused)));
        let wish = |fetching, pending: bool, refused| (fetching, pending, refused);
        let (same, newer) = (deployment(json!({})), deployment(json!({"metadata": {"generation": 3}})));
        let at_rest = |deployment, wish| is_withheld(deployment, wish, &rests);
        assert!(is_withheld(&same, wish(true, false, false), &waits), "nothing is known of a chart");
        assert!(!at_rest(&same, wish(false, true, false)), "it is watched by what the status tells");
        assert!(at_rest(&newer, wish(false, true, false)), "that it changes nothing is not sure");
        assert!(!is_withheld(&newer, wish(false, true, false), &waits), "what waits is told");
        assert!(!at_rest(&newer, wish(false, true, true)), "so is that it is refused");
        assert!(!at_rest(&newer, wish(true, true, false)), "and what a new chart is fetched for");
        assert!(!at_rest(&newer, wish(false, false, false)), "everything is known");
    }
}
