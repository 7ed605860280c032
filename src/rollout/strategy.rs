//! Whose business old pods are: the charts leave them alone where they are told so, but not every template of upstream's listens.

use super::part;
use crate::catalog::{Catalog, WorkloadKind};
use crate::desired::Desired;
use crate::observed::{Observed, Workload};
use crate::plan::{Plan, Step};

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
}

/// The `DaemonSets` of rolled releases whose charts pass the strategy on to none of their pods' makers (upstream's ovn: its template of the
/// controller reads no `pod.lifecycle`). Only of releases that are as wanted: what helm is about to set is helm's.
pub fn strategies(desired: &Desired, observed: &Observed, catalog: &Catalog, plan: &Plan) -> Vec<Strategy> {
    let named = catalog
        .rollout
        .iter()
        .filter(|name| plan.decisions.get(*name).is_some_and(|own| matches!(own.step, Step::Ready | Step::Settle(_))));
    let releases = named.filter_map(|name| desired.releases.get(name)).filter(|release| !release.paused);
    let differing = releases.flat_map(|release| {
        let wanted = part::leaves_pods(release);
        let own = move |set: &&Workload| {
            set.kind == WorkloadKind::DaemonSet
                && set.namespace == release.key.namespace
                && set.release == release.key.name
                && set.on_delete.is_some() != wanted
        };
        observed.workloads.iter().filter(own).map(move |set| Strategy {
            namespace: set.namespace.clone(),
            name: set.name.clone(),
            generation: set.generation,
            on_delete: wanted,
        })
    });
    differing.collect()
}
