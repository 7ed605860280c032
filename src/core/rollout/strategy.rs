//! The update strategy of `DaemonSets`. Not all templates of upstream read the value for it, so the operator sets the
//! strategy itself where they do not.

use super::part;
use crate::catalog::{Catalog, WorkloadKind};
use crate::desired::{Desired, DesiredRelease};
use crate::observed::{Observed, Workload};
use crate::plan::{Plan, Step, Wait};

/// A `DaemonSet` whose update strategy differs from its release's values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strategy {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its generation: a failed update is not retried for the same generation.
    pub generation: i64,
    /// Whether the strategy should be `OnDelete`; otherwise `RollingUpdate`.
    pub on_delete: bool,
    /// Whether its release is in sync. Otherwise helm may be about to set the strategy itself.
    pub settled: bool,
}

/// Returns the `DaemonSets` of rolled out releases whose update strategy differs from the desired one.
///
/// They belong to charts that ignore the value (upstream's ovn does not read `pod.lifecycle` for its controller) or to
/// releases that helm has not upgraded yet. The strategy is set before helm changes the template, because otherwise
/// Kubernetes would replace the pods itself.
pub fn strategies_to_set(desired: &Desired, observed: &Observed, catalog: &Catalog, plan: &Plan) -> Vec<Strategy> {
    let idle = |name: &&String| {
        plan.decisions.get(*name).is_some_and(|own| !matches!(own.step, Step::Wait(Wait::Helm { .. } | Wait::Paused)))
    };
    let releases = catalog.rollout.iter().filter(idle).filter_map(|name| Some((name, desired.releases.get(name)?)));
    let is_excluded =
        |release: &DesiredRelease| release.paused || !release.managed || observed.is_unmanaged(&release.key);
    let differing = releases.filter(|(_, release)| !is_excluded(release)).flat_map(|(name, release)| {
        let wanted = part::uses_on_delete(release);
        let settled = plan.decisions.get(name).is_some_and(|own| matches!(own.step, Step::Ready | Step::Settling(_)));
        let own = move |set: &&Workload| {
            set.kind == WorkloadKind::DaemonSet
                && set.namespace == release.key.namespace
                && set.release == release.key.name
                && set.on_delete.is_some() != wanted
        };
        // Kubernetes must not replace pods again before helm has finished.
        observed.workloads.iter().filter(move |_| wanted || settled).filter(own).map(move |set| Strategy {
            namespace: set.namespace.clone(),
            name: set.name.clone(),
            generation: set.generation,
            on_delete: wanted,
            settled,
        })
    });
    differing.collect()
}
