//! Reports errors of passes in the status of the resource.
//!
//! A failed pass ends before its last step, the report, so the status would still show the last successful pass.
//! Therefore this module writes the error to the status, and records an event about it.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{Context, now};
use crate::clock::wall;
use crate::cluster::Error;
use crate::telemetry::Metrics;
use osdpl_core::api::OpenStackDeployment;

/// The time for which passes must fail before the status reports the failure. A restart of the API server takes less
/// time, so the status does not report it.
///
/// The limit is a time and not a number of passes, because events in the cluster may trigger dozens of passes per
/// second.
const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(5);

/// The minimum time between two reports of the same series of failed passes.
///
/// Without this limit, failing passes could write the status without end: each write triggers the next pass, and the
/// text of the error may differ each time (addresses, request IDs).
const REPORT_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

/// A series of consecutive failed passes of a resource: when it began, and when osdpl last reported it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassFailure {
    /// The time of the first of the consecutive failed passes.
    since: Timestamp,
    /// The time when osdpl last wrote the failure to the status; `None` if it has not written the failure yet.
    reported: Option<Timestamp>,
}

impl PassFailure {
    fn is_lasting(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) >= GRACE_PERIOD
    }

    /// Sets the cloud's metric to "not ready" if the cloud's passes have failed for longer than the grace period.
    ///
    /// The metric changes even if the status can't be written.
    ///
    /// `cloud` is the name of the resource, which is also the value of the metric's label. It is `None` if osdpl
    /// ignores the resource, because the metric with this label could belong to an older resource with the same name in
    /// another namespace.
    fn update_metrics(&self, now: Timestamp, cloud: Option<&str>, metrics: &Metrics) {
        if let Some(cloud) = cloud.filter(|_| self.is_lasting(now)) {
            metrics.set_not_ready(cloud);
        }
    }

    /// Whether osdpl must write the failure to the status now.
    fn is_due(&self, now: Timestamp) -> bool {
        self.is_lasting(now) && self.reported.is_none_or(|reported| now.duration_since(reported) >= REPORT_INTERVAL)
    }
}

/// The resources whose last pass failed, by uid.
pub(super) type PassFailures = BTreeMap<String, PassFailure>;

impl Context {
    /// Reports the error of a pass in the status if passes keep failing.
    ///
    /// `error` is `None` after a successful pass. Then the function only forgets the earlier failures, because the pass
    /// itself has written the status.
    pub(super) async fn report_pass_failure(&self, deployment: &OpenStackDeployment, error: Option<&Error>) {
        let uid = deployment.uid().unwrap_or_default();
        let Some(error) = error else {
            self.pass_failures().remove(&uid);
            return;
        };
        let now = now();
        let failure = *self.pass_failures().entry(uid.clone()).or_insert(PassFailure { since: now, reported: None });
        let cloud = self.ignored(deployment).is_none().then(|| deployment.name_any());
        failure.update_metrics(now, cloud.as_deref(), &self.metrics);
        if !failure.is_due(now) {
            return;
        }
        let problem = self.scrubber.borrow().scrub(&error.to_string());
        let generation = deployment.metadata.generation.unwrap_or_default();
        let (status, events) =
            osdpl_core::status::failing_status(deployment.status.as_ref(), generation, &problem, wall());
        match self.cluster.publish_status(deployment, status, events).await {
            Ok(_) => drop(self.pass_failures().insert(uid, PassFailure { reported: Some(now), ..failure })),
            Err(error) => tracing::warn!(%error, "osdpl can't report failing passes in the status"),
        }
    }

    fn pass_failures(&self) -> MutexGuard<'_, PassFailures> {
        self.pass_failures.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn reports_lasting_failures_at_intervals() {
        let new = PassFailure { since: at(0), reported: None };
        assert!(!new.is_due(at(0)), "the status does not report a failure before the grace period ends");
        assert!(!new.is_due(at(4)) && new.is_due(at(5)));
        let reported = PassFailure { reported: Some(at(5)), ..new };
        assert!(!reported.is_due(at(6)) && !reported.is_due(at(34)));
        assert!(reported.is_due(at(35)));
    }

    #[test]
    fn lasting_failure_makes_the_cloud_not_ready() {
        let is_ready = |failure: PassFailure, cloud, now| {
            let metrics = Metrics::default();
            metrics.set_cloud("cloud", CloudState { ready: true, ..CloudState::default() });
            failure.update_metrics(now, cloud, &metrics);
            metrics.encode(crate::helm::Counters::default(), true).contains("osdpl_ready{name=\"cloud\"} 1")
        };
        let new = PassFailure { since: at(0), reported: None };
        assert!(is_ready(new, Some("cloud"), at(4)) && !is_ready(new, Some("cloud"), at(5)));
        let reported = PassFailure { reported: Some(at(5)), ..new };
        assert!(!is_ready(reported, Some("cloud"), at(6)), "the metric stays 0 between two reports");
        assert!(
            is_ready(reported, None, at(6)),
            "the failure of a newer resource does not change the metric of the oldest one"
        );
    }
}
