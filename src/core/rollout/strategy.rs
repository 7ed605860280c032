//! Finds the `DaemonSets` whose update strategy the operator must set itself, because upstream's chart templates ignore
//! the value that sets the strategy, or because helm has not applied that value yet.

use super::part;
use crate::catalog::{Catalog, WorkloadKind};
use crate::desired::{Desired, DesiredRelease};
use crate::observed::{Observed, Workload};
use crate::plan::{Plan, Step, Wait};

/// A `DaemonSet` whose update strategy differs from the strategy in the values of its release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strategy {
    /// The `DaemonSet`'s namespace.
    pub namespace: String,
    /// The `DaemonSet`'s name.
    pub name: String,
    /// The `DaemonSet`'s generation. After a failed attempt to set the strategy, the operator tries again only if the
    /// generation has changed.
    pub generation: i64,
    /// The desired strategy: `OnDelete` if true, `RollingUpdate` if false.
    pub on_delete: bool,
    /// Whether the release of the `DaemonSet` has the desired inputs. If not, helm's next upgrade of the release can
    /// set the strategy itself.
    pub settled: bool,
}

/// Returns the `DaemonSets` whose update strategy differs from the strategy in the values of their release. Leaves out
/// releases that are paused, that osdpl does not manage, or for which helm runs.
///
/// The strategies differ if the chart ignores the value (upstream's ovn does not read `pod.lifecycle` for its
/// controller), or if helm has not upgraded the release since the value was set. The operator must set `OnDelete`
/// before helm changes the pod template. Otherwise Kubernetes itself would replace all pods, without osdpl's batches
/// and approvals.
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
        // The operator sets `RollingUpdate` only after helm has finished, because with this strategy Kubernetes
        // replaces all outdated pods.
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
