//! Describes, for each data plane release that a plan upgrades, which pods could restart in the rollout after the
//! upgrade.

use std::collections::BTreeMap;

use osdpl_values::CollectSorted;

use super::{is_automatic, messages, part};
use crate::api::Rollout;
use crate::catalog::{Catalog, Component};
use crate::desired::Desired;
use crate::observed::Observed;
use crate::plan::{Action, Plan, Step, Wait};

/// Returns, for each data plane release that osdpl upgrades now or later, a message about the pods that could restart.
///
/// The message is a preview: until helm has rendered the chart, osdpl does not know whether a pod template really
/// changes.
pub fn preview_restarts(
    desired: &Desired,
    observed: &Observed,
    catalog: &Catalog,
    plan: &Plan,
    settings: &Rollout,
) -> BTreeMap<String, String> {
    let upgraded = |name: &&String| {
        let step = plan.decisions.get(*name).map(|decision| &decision.step);
        matches!(step, Some(Step::Do(Action::Upgrade { .. }, _) | Step::Wait(Wait::Approval(_) | Wait::Needs(_))))
    };
    let named = catalog.rollout.iter().filter(upgraded);
    let of = |name: &String| {
        let release = desired.releases.get(name)?;
        let mut nodes: BTreeMap<&Component, i32> = BTreeMap::new();
        let own = observed.workloads.iter().filter(|set| {
            set.namespace == release.key.namespace && set.release == release.key.name && set.on_delete.is_some()
        });
        own.filter(|set| part::is_rolled_out(release, &set.component)).for_each(|set| {
            *nodes.entry(&set.component).or_default() += set.desired;
        });
        let each = nodes.iter().filter(|(_, nodes)| **nodes > 0).map(|(component, nodes)| {
            format!("{component} on {}, {} at a time", messages::nodes_of(*nodes), settings.batch_size_for(*nodes))
        });
        let each: Vec<String> = each.collect();
        let approval = if is_automatic(settings) { "" } else { " after approval" };
        let message = format!("restarts{approval} the pods whose pod template changes: {}", each.join("; "));
        (!each.is_empty()).then(|| (name.clone(), message))
    };
    named.filter_map(of).collect_map()
}
