//! Whose business old pods are: the charts leave them alone where they are told so, but not every template of upstream's listens.

use super::part;
use crate::catalog::{Catalog, WorkloadKind};
use crate::desired::{Desired, DesiredRelease};
use crate::observed::{Observed, Workload};
use crate::plan::{Plan, Step, Wait};

/// A `DaemonSet` whose live strategy is not what its release's values say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strategy {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its generation: the same one needs no second try.
    pub generation: i64,
    /// Whether its pods are to be left alone (`OnDelete`); else Kubernetes replaces them.
    pub on_delete: bool,
    /// Whether its release is as wanted: until then helm may be about to set it itself.
    pub settled: bool,
}

/// The `DaemonSets` of rolled releases whose live strategy is not the wanted one: charts that don't pass it on (upstream's ovn: its template of the
/// controller reads no `pod.lifecycle`), and those of which helm has not been told yet. It is set before helm brings another template, else
/// Kubernetes would replace their pods by itself.
pub fn strategies(desired: &Desired, observed: &Observed, catalog: &Catalog, plan: &Plan) -> Vec<Strategy> {
    let idle = |name: &&String| {
        plan.decisions.get(*name).is_some_and(|own| !matches!(own.step, Step::Wait(Wait::Helm { .. } | Wait::Paused)))
    };
    let releases = catalog.rollout.iter().filter(idle).filter_map(|name| Some((name, desired.releases.get(name)?)));
    let held = |release: &DesiredRelease| release.paused || !release.managed || observed.is_others(&release.key);
    let differing = releases.filter(|(_, release)| !held(release)).flat_map(|(name, release)| {
        let wanted = part::leaves_pods(release);
        let settled = plan.decisions.get(name).is_some_and(|own| matches!(own.step, Step::Ready | Step::Settle(_)));
        let own = move |set: &&Workload| {
            set.kind == WorkloadKind::DaemonSet
                && set.namespace == release.key.namespace
                && set.release == release.key.name
                && set.on_delete.is_some() != wanted
        };
        // What Kubernetes may replace is given back only when helm is through.
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
