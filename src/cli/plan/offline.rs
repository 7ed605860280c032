//! Plans a new cloud from its spec, without a cluster.

use kube::ResourceExt;

use super::report::{Kind, PlanReport, ReleasePlan};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::Desired;

/// The note in a plan that osdpl makes without a cluster.
const ONLY_RELEASES: &str =
    "this plan lists only releases; with a cluster, it also lists the objects and node labels that osdpl would write";

/// Returns the plan for a new cloud: the operator installs each release after the releases that it needs.
pub(crate) fn new_cloud(deployment: &OpenStackDeployment, desired: &Desired) -> PlanReport {
    let depths = desired.depths();
    let mut names: Vec<_> = desired.releases.keys().map(String::as_str).collect();
    names.sort_by_key(|name| depths[name]);
    let plan = |name: &str| {
        let release = &desired.releases[name];
        let needs: Vec<String> = release.needs.keys().map(ToString::to_string).collect();
        let kind = if needs.is_empty() && release.blocked.is_none() { Kind::Do } else { Kind::Wait };
        let when = match needs.as_slice() {
            [] => "at once".to_owned(),
            needs => format!("as soon as {} are available", needs.join(", ")),
        };
        let message = match &release.blocked {
            Some(blocked) => format!("{}: {}", blocked.reason, blocked.message),
            None => format!("helm upgrade --install in {}, {when}", release.key.namespace),
        };
        ReleasePlan {
            name: name.to_owned(),
            release: release.key.to_string(),
            kind,
            message,
            needs,
            ..ReleasePlan::default()
        }
    };
    PlanReport {
        name: deployment.name_any(),
        namespace: deployment.namespace().unwrap_or_default(),
        is_offline: true,
        refused: desired.releases.values().any(|release| release.blocked.is_some()),
        releases: names.into_iter().map(plan).collect(),
        notes: vec![ONLY_RELEASES.to_owned()],
        ..PlanReport::default()
    }
}
