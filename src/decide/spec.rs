//! What a spec selects, and what it and the annotations allow.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use osdpl_core::api::{ADOPT, APPROVE, OpenStackDeployment, OpenStackDeploymentSpec, REPAIR, SKIP_HOOKS, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{self, Desired, RejectedMoves, Selection, select};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{Decision, Plan, Policy, State, Step, Wait, classify, settle_step};
use osdpl_lint::rule;

/// Selects services and releases for a spec of this resource, with what is wrong with it.
pub fn selection(deployment: &OpenStackDeployment, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Selection {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    let mut selection = select(&name, &namespace, spec, catalog);
    let deployed = deployment.status.as_ref().and_then(|status| status.openstack_release.deployed.as_ref());
    let moved = deployed.map(|deployed| rule::check_release_move(deployed, spec, catalog)).unwrap_or_default();
    selection.findings.extend(moved.into_iter().map(desired::Finding::from));
    let applied = deployment.annotations().get("kubectl.kubernetes.io/last-applied-configuration");
    selection.findings.extend(applied.map(|text| desired::find_lost_nulls(text, &deployment.spec)).unwrap_or_default());
    selection
}

/// The spec, corrected by the releases that exist, and its selection; `first` is the selection without that.
pub fn anchored<'a>(
    deployment: &'a OpenStackDeployment,
    anchored: Option<&'a RejectedMoves>,
    first: Selection,
    catalog: &Catalog,
) -> (&'a OpenStackDeploymentSpec, Selection) {
    match anchored {
        Some(anchored) => (&anchored.spec, selection(deployment, &anchored.spec, catalog)),
        None => (&deployment.spec, first),
    }
}

/// The catalogue's names of releases, wanted or not.
pub fn known(selection: &Selection) -> BTreeMap<ReleaseKey, String> {
    let all = selection.scope.variable("releases").and_then(|releases| releases.as_object()).into_iter().flatten();
    all.map(|(name, release)| {
        let text = |field: &str| release[field].as_str().unwrap_or_default().to_owned();
        (ReleaseKey::new(text("namespace"), text("name")), name.clone())
    })
    .collect()
}

/// Whether a chart is still being fetched.
pub fn is_fetching(desired: &Desired) -> bool {
    let mut blocked = desired.releases.values().filter_map(|release| release.blocked.as_ref());
    blocked.any(|blocked| blocked.reason == reason::CHART_PENDING)
}

/// The names in an annotation, which are separated by commas.
pub fn names(deployment: &OpenStackDeployment, annotation: &str) -> BTreeSet<String> {
    let names = deployment.annotations().get(annotation).into_iter().flat_map(|text| text.split(','));
    names.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What the spec and the annotations allow.
pub fn policy(deployment: &OpenStackDeployment) -> Policy {
    Policy {
        approval: deployment.spec.approval.unwrap_or_default(),
        approved: deployment.annotations().get(APPROVE).cloned(),
        adopt: names(deployment, ADOPT),
        repair: names(deployment, REPAIR),
        skip_hooks: names(deployment, SKIP_HOOKS),
        paused: deployment.spec.paused,
        paused_releases: paused(&deployment.spec),
        deleting: deployment.metadata.deletion_timestamp.is_some(),
    }
}

fn paused(spec: &OpenStackDeploymentSpec) -> BTreeSet<String> {
    let releases = spec.services.values().flat_map(|service| &service.releases);
    releases.filter(|(_, release)| release.paused).map(|(name, _)| name.clone()).collect()
}

/// The decisions for a spec that is refused: everything stays as it is.
pub fn frozen(desired: &Desired, observed: &Observed) -> Plan {
    let decisions = desired.releases.iter().map(|(name, release)| {
        let step = match classify(Some(release), &release.key, observed, Timestamp::UNIX_EPOCH) {
            State::InSync(seen) => settle_step(release, seen, observed),
            _ => Step::Wait(Wait::Refused),
        };
        (name.clone(), Decision { key: release.key.clone(), step, sweep: None, mending: None })
    });
    Plan { decisions: decisions.collect(), ..Plan::default() }
}
