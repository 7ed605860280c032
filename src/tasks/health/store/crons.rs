//! What runs again and again: `CronJobs`, and the Jobs that they made.

use super::{Batch, Store, of};
use crate::api::CauseObject;
use crate::cause::{Chain, Facts, Link, Pods, Victim};
use crate::health::cron;
use crate::health::pod::OwnerKind;
use crate::observed::{CronSeen, Key, Run, RunEnd, Trouble};
use crate::tasks::shard::Shard;

impl Store {
    /// The `CronJobs`, and those of them that fail.
    pub(super) fn crons(&self, pods: &Pods<'_>, facts: &Facts<'_>) -> (Vec<CronSeen>, Vec<Victim>) {
        let (mut all, mut victims) = (Vec::new(), Vec::new());
        for (_, cron) in self.crons.iter().flat_map(Shard::entries) {
            let told = |run: &str| {
                let pod = of(pods, &(cron.namespace.as_str(), OwnerKind::Job, run)).first()?;
                Some(facts.told(&cron.namespace, pod)?.trouble).filter(|trouble| trouble.stuck)
            };
            let found = cron::trouble(cron, self.runs(cron), |run| told(run).map(|trouble| trouble.message));
            let trouble = found.as_ref().map(|(message, _)| Trouble { stuck: false, message: message.clone() });
            victims.extend(found.map(|(message, run)| victim(cron, message, run)));
            let goes_on = self.runs(cron).iter().any(|(_, run)| matches!(run.end, RunEnd::Running { .. }));
            let last = cron::last(&self.runs(cron));
            all.push(CronSeen { trouble, last, running: cron.running || goes_on, ..cron.clone() });
        }
        (all, victims)
    }

    fn runs(&self, cron: &CronSeen) -> Vec<(&str, &Run)> {
        let own = self.jobs.iter().flat_map(Shard::entries).filter_map(|((namespace, name), batch)| match batch {
            Batch::Run(run) if *namespace == cron.namespace && run.cron == cron.name => Some((name.as_str(), run)),
            Batch::Run(_) | Batch::Job(_) => None,
        });
        own.collect()
    }
}

/// Its own root: nothing waits for it.
fn victim(cron: &CronSeen, message: String, run: Option<&str>) -> Victim {
    let object = |kind: &str, name: &str| CauseObject {
        kind: kind.into(),
        namespace: cron.namespace.clone(),
        name: name.into(),
    };
    let release = Key::new(&cron.namespace, &cron.release);
    let link = Link { label: format!("CronJob {}", cron.name), object: object(cron::KIND, &cron.name) };
    let look = run.map(|run| object("Job", run)).into_iter().collect();
    let chain = Chain { links: vec![link], why: Some(message), stuck: false, look, release: Some(release.clone()) };
    Victim { release, chain }
}
