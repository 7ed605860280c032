//! Charts that are on their way after a start: until they have come, what the status told of them stands for them, and nothing is started
//! without one. So a cloud is watched while charts are pulled for minutes.
//!
//! Where that can't be said of every chart (the spec is newer than the status, or mirrors ask for the images that the charts name), the
//! status that stands is truer than one without charts, and is left alone.

use std::collections::BTreeMap;

use crate::api::{OpenStackDeployment, reason};
use crate::catalog::Catalog;
use crate::desired::{Blocked, ChartFact};
use crate::plan::{Action, Plan, Step, Wait};

/// What releases wait for whose charts are on their way, by name.
pub type Pending = BTreeMap<String, Blocked>;

/// Takes charts that are on their way for those that the status tells.
pub fn remembered(
    deployment: &OpenStackDeployment,
    catalog: &Catalog,
    charts: &mut BTreeMap<String, Result<ChartFact, Blocked>>,
) -> Pending {
    let mut pending = Pending::new();
    let Some(status) = deployment.status.as_ref() else { return pending };
    let is_current =
        status.observed_generation.is_some() && status.observed_generation == deployment.metadata.generation;
    if !is_current || deployment.spec.images.rewrites() {
        return pending;
    }
    for (name, fact) in charts {
        let Err(blocked) = fact.as_ref().map(drop) else { continue };
        let Some((child, (_, release))) = status.children.get(name).zip(catalog.release(name)) else { continue };
        let told = child.chart_digest.clone().filter(|_| child.chart == release.chart);
        let Some(digest) = told.filter(|_| blocked.reason == reason::CHART_PENDING) else { continue };
        pending.insert(name.clone(), blocked.clone());
        let version = child.version.clone().unwrap_or_default();
        *fact = Ok(ChartFact { version, digest, ..ChartFact::default() });
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
        crate::values::merge(&mut object, &map(change));
        serde_json::from_value(object.into()).unwrap()
    }

    /// What stands for the charts of two releases, of which one is on its way and the other can't be had.
    fn known(change: serde_json::Value) -> (Vec<String>, Option<String>) {
        let catalog = Catalog::load(&crate::catalog::tests::files(&[])).unwrap();
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
    fn a_chart_on_its_way_is_taken_for_the_one_that_the_status_tells_where_that_is_about_this_spec() {
        assert_eq!(known(json!({})), (vec!["store".to_owned()], Some("sha256:told".to_owned())));
        for change in [
            json!({"metadata": {"generation": 3}}),
            json!({"spec": {"images": {"mirrors": {"docker.io": "mirror.example"}}}}),
            json!({"status": {"children": {"store": {"chartDigest": null}}}}),
            json!({"status": {"children": {"store": {"chart": "another"}}}}),
        ] {
            assert_eq!(known(change.clone()), (Vec::new(), None), "{change}");
        }
    }

    #[test]
    fn what_would_be_started_waits_for_its_chart_and_what_stands_is_shown_as_it_is() {
        use crate::observed::Key;
        use crate::plan::{Decision, Why};
        let decide = |step| Decision { key: Key::new("openstack", "store"), step, sweep: None, mending: None };
        let upgrade = Step::Do(Action::Upgrade { delete_jobs: Vec::new() }, Why::Spec);
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
}
