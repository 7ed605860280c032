//! Passes that fail, told where people look.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{Context, now};
use crate::cluster::Error;
use crate::telemetry::Metrics;
use osdpl_core::api::OpenStackDeployment;

/// How long passes must fail in a row before that is told: less is nothing yet, such as an API server that restarts. Their number says nothing, as
/// what happens in the cluster may bring dozens in a second.
const PATIENCE: SignedDuration = SignedDuration::from_secs(5);

/// The time between two words on the same failure: the text of what refuses may be another each time (an address, a request's number), and each
/// write of the status is followed by a pass.
const PACE: SignedDuration = SignedDuration::from_secs(30);

/// Passes of one resource that fail, without one that worked in between.
#[derive(Clone, Copy, Debug)]
pub struct Failing {
    /// When the first did.
    since: Timestamp,
    /// When the status was last told.
    told: Option<Timestamp>,
}

impl Failing {
    /// Whether it is more than a moment.
    fn lasts(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) >= PATIENCE
    }

    /// Counts the cloud of this name as not Ready as long as it lasts, whether or not the status can be written; `None` of a resource that does not rule,
    /// which may be called like the one that does.
    fn count(&self, now: Timestamp, ruling: Option<&str>, metrics: &Metrics) {
        if let Some(cloud) = ruling.filter(|_| self.lasts(now)) {
            metrics.set_not_ready(cloud);
        }
    }

    /// Whether the status is to tell it now.
    fn is_to_be_told(&self, now: Timestamp) -> bool {
        self.lasts(now) && self.told.is_none_or(|told| now.duration_since(told) >= PACE)
    }
}

/// The resources whose passes fail, by uid.
pub type AllFailing = BTreeMap<String, Failing>;

impl Context {
    /// Has the status say that passes fail: a pass that fails ends before it writes what it found, and the status of the one before, green or not,
    /// would stand for ever. The next that does not fail writes its own.
    pub(super) async fn tell_failure(&self, deployment: &OpenStackDeployment, error: Option<&Error>) {
        let uid = deployment.uid().unwrap_or_default();
        let Some(error) = error else {
            self.failing().remove(&uid);
            return;
        };
        let now = now();
        let failing = *self.failing().entry(uid.clone()).or_insert(Failing { since: now, told: None });
        let ruling = self.older_deployment(deployment).is_none().then(|| deployment.name_any());
        failing.count(now, ruling.as_deref(), &self.metrics);
        if !failing.is_to_be_told(now) {
            return;
        }
        let problem = self.scrubber.borrow().scrub(&error.to_string());
        let generation = deployment.metadata.generation.unwrap_or_default();
        let (status, events) =
            osdpl_core::status::failing_status(deployment.status.as_ref(), generation, &problem, now);
        match self.cluster.publish(deployment, status, events).await {
            Ok(_) => drop(self.failing().insert(uid, Failing { told: Some(now), ..failing })),
            Err(error) => tracing::warn!(%error, "the status can't tell that passes fail"),
        }
    }

    fn failing(&self) -> MutexGuard<'_, AllFailing> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::CloudState;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn a_failure_is_told_when_it_lasts_and_said_in_other_words_at_a_pace() {
        let untold = Failing { since: at(0), told: None };
        assert!(!untold.is_to_be_told(at(0)), "dozens of passes may fail in that moment");
        assert!(!untold.is_to_be_told(at(4)) && untold.is_to_be_told(at(5)));
        let told = Failing { told: Some(at(5)), ..untold };
        assert!(!told.is_to_be_told(at(6)) && !told.is_to_be_told(at(34)));
        assert!(told.is_to_be_told(at(35)));
    }

    #[test]
    fn a_cloud_whose_passes_fail_is_not_counted_as_ready_and_another_resource_is_not_counted() {
        let is_ready = |failing: Failing, ruling, now| {
            let metrics = Metrics::default();
            metrics.set_cloud("cloud", CloudState { ready: true, ..CloudState::default() });
            failing.count(now, ruling, &metrics);
            metrics.encode(crate::helm::Counters::default()).contains("osdpl_ready{name=\"cloud\"} 1")
        };
        let untold = Failing { since: at(0), told: None };
        assert!(is_ready(untold, Some("cloud"), at(4)) && !is_ready(untold, Some("cloud"), at(5)));
        let told = Failing { told: Some(at(5)), ..untold };
        assert!(!is_ready(told, Some("cloud"), at(6)), "between two words on it too");
        assert!(is_ready(told, None, at(6)));
    }
}
