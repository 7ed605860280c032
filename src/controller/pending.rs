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
    if !is_current || !deployment.spec.images.mirrors.is_empty() {
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
