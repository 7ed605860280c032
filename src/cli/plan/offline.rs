//! Plans a new cloud from its spec, without a cluster.

use kube::ResourceExt;

use super::report::{Kind, PlanReport, ReleasePlan, describe_step};
use crate::offline::now;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::Observed;
use osdpl_core::plan::{self, Step, Wait};
use osdpl_decide::policy;

/// The note in a plan that osdpl makes without a cluster.
const ONLY_RELEASES: &str =
    "this plan lists only releases; with a cluster, it also lists the objects and node labels that osdpl would write";

/// Returns the plan for a new cloud: the operator installs each release after the releases that it needs. As in a pass,
/// the step of each release comes from the state table ([`osdpl_core::plan`]).
pub(crate) fn new_cloud(deployment: &OpenStackDeployment, desired: &Desired, catalog: &Catalog) -> PlanReport {
    let steps = plan::plan(desired, &Observed::default(), catalog, &policy(deployment), now()).decisions;
    let depths = desired.depths();
    let mut names: Vec<_> = desired.releases.keys().map(String::as_str).collect();
    names.sort_by_key(|name| depths[name]);
    let plan = |name: &str| {
        let release = &desired.releases[name];
        let (kind, message) = match &steps[name].step {
            Step::Do(..) => (Kind::Do, install(release)),
            Step::Wait(Wait::Needs(_)) => (Kind::Wait, install(release)),
            Step::Ready => (Kind::Ready, "osdpl does not manage this release".to_owned()),
            step => {
                let (kind, _, message) = describe_step(step);
                (kind, message)
            }
        };
        ReleasePlan {
            name: name.to_owned(),
            release: release.key.to_string(),
            kind,
            message,
            needs: release.needs.keys().map(ToString::to_string).collect(),
            ..ReleasePlan::default()
        }
    };
    let installs = |step: &Step| matches!(step, Step::Do(..) | Step::Wait(Wait::Needs(_) | Wait::Blocked { .. }));
    PlanReport {
        name: deployment.name_any(),
        namespace: deployment.namespace().unwrap_or_default(),
        is_offline: true,
        refused: desired.releases.values().any(|release| release.blocked.is_some()),
        installs: names.iter().filter(|name| installs(&steps[**name].step)).count(),
        releases: names.into_iter().map(plan).collect(),
        notes: vec![ONLY_RELEASES.to_owned()],
        ..PlanReport::default()
    }
}

/// Describes the installation of a release, and when it starts.
fn install(release: &DesiredRelease) -> String {
    let needs: Vec<String> = release.needs.keys().map(ToString::to_string).collect();
    let when = match needs.as_slice() {
        [] => "at once".to_owned(),
        needs => format!("as soon as {} are available", needs.join(", ")),
    };
    format!("helm upgrade --install in {}, {when}", release.key.namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::testing::fixture;
    use serde_json::json;

    #[test]
    fn releases_that_the_operator_would_not_install_wait() {
        let world = fixture();
        let plan = |spec: serde_json::Value| {
            let object = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
                "metadata": {"name": "cloud", "namespace": "openstack"}, "spec": spec});
            let report = new_cloud(&serde_json::from_value(object).unwrap(), &world.desired, &world.catalog);
            let summary = report.summary();
            (report.releases.into_iter().map(|release| release.message).collect::<Vec<_>>(), summary)
        };
        let (installs, summary) = plan(json!({"openstackRelease": "2026.1"}));
        assert!(installs.iter().any(|message| message.ends_with("at once")), "{installs:?}");
        assert!(installs.iter().any(|message| message.contains("as soon as")), "{installs:?}");
        assert_eq!(summary, "2 releases would be installed.");
        let all_wait = "0 releases would be installed; 2 would wait for the reasons above.";
        let (paused, summary) = plan(json!({"openstackRelease": "2026.1", "paused": true}));
        assert!(paused.iter().all(|message| message.starts_with("paused")), "{paused:?}");
        assert_eq!(summary, all_wait);
        let (unapproved, summary) = plan(json!({"openstackRelease": "2026.1", "approval": "Always"}));
        assert!(unapproved.iter().all(|message| message.contains("approv")), "{unapproved:?}");
        assert_eq!(summary, all_wait);
    }
}
