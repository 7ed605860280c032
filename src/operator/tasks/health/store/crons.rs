//! Assesses `CronJobs` and the Jobs that they started.

use std::collections::BTreeMap;

use super::{Batch, Store, pods_of};
use crate::tasks::cache::WatchCache;
use osdpl_core::api::CauseObject;
use osdpl_core::cause::{AffectedObject, Chain, Facts, Link, Pods};
use osdpl_core::health::pod::OwnerKind;
use osdpl_core::health::{CRON_JOB, cron};
use osdpl_core::observed::{Issue, ObservedCronJob, ReleaseKey, Run, RunState};

impl Store {
    /// Returns all `CronJobs` of releases with their state. For each failing `CronJob`, also returns an
    /// [`AffectedObject`] with the reason of the failure.
    pub(super) fn crons(&self, pods: &Pods<'_>, facts: &Facts<'_>) -> (Vec<ObservedCronJob>, Vec<AffectedObject>) {
        let (mut all, mut affected, mut runs) = (Vec::new(), Vec::new(), self.runs());
        for (_, cron) in self.crons.iter().flat_map(WatchCache::entries) {
            let pod_trouble = |run: &str| {
                let pod = pods_of(pods, &(cron.namespace.as_str(), OwnerKind::Job, run)).first()?;
                Some(facts.explain(&cron.namespace, pod)?.trouble).filter(|trouble| trouble.stuck)
            };
            let runs = runs.remove(&(cron.namespace.as_str(), cron.name.as_str())).unwrap_or_default();
            let running = runs.iter().any(|(_, run)| matches!(run.end, RunState::Running { .. }));
            let last = cron::last(&runs);
            let found = cron::trouble(cron, runs, |run| pod_trouble(run).map(|trouble| trouble.message));
            let trouble = found.as_ref().map(|(message, _)| Issue { stuck: false, message: message.clone() });
            affected.extend(found.map(|(message, run)| affected_object(cron, message, run)));
            all.push(ObservedCronJob { trouble, last, running: cron.running || running, ..cron.clone() });
        }
        (all, affected)
    }

    /// Returns the Jobs that `CronJobs` started, by the namespace and name of the `CronJob`.
    fn runs(&self) -> BTreeMap<(&str, &str), Vec<(&str, &Run)>> {
        let mut all: BTreeMap<(&str, &str), Vec<(&str, &Run)>> = BTreeMap::new();
        for ((namespace, name), batch) in self.jobs.iter().flat_map(WatchCache::entries) {
            if let Batch::Run(run) = batch {
                all.entry((namespace, &run.cron)).or_default().push((name, run));
            }
        }
        all
    }
}

/// Describes a failing `CronJob` as an [`AffectedObject`].
///
/// Its chain of causes has only one link, because the `CronJob` itself is the root cause.
fn affected_object(cron: &ObservedCronJob, message: String, run: Option<&str>) -> AffectedObject {
    let object = |kind: &str, name: &str| CauseObject {
        kind: kind.into(),
        namespace: cron.namespace.clone(),
        name: name.into(),
    };
    let release = ReleaseKey::new(&cron.namespace, &cron.release);
    let link = Link { label: format!("CronJob {}", cron.name), object: object(CRON_JOB, &cron.name) };
    let details = run.map(|run| object("Job", run)).into_iter().collect();
    let chain =
        Chain { links: vec![link], why: Some(message), stuck: false, inspect: details, release: Some(release.clone()) };
    AffectedObject { release, chain }
}
