//! The last step of a pass (read, decide, apply, report): writes the status of the resource, and events about changes
//! of the status, at a limited rate.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::memory::{Memory, WrittenStatus};
use super::{Context, now};
use crate::clock::wall;
use crate::cluster::Error;
use crate::telemetry::CloudState;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentStatus, condition, reason};
use osdpl_core::plan::{self, Step, Wait};
use osdpl_core::rollout;
use osdpl_core::status::{Report, report};
use osdpl_decide::Plan;

/// The minimum time between two writes of the status if the second one changes only details (see [`is_significant`]).
///
/// During an installation, each pass changes details of the status. Writing a large status costs the API server more
/// than the whole pass costs the operator. Besides, the pass waits for the write.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

impl Context {
    /// Computes the resource's status from the plan and writes it. Records events about the changes of the status.
    ///
    /// `helm_started` contains the releases for which this pass has started helm (`true`), or that wait for helm
    /// (`false`), usually because the maximum number of helm processes is running.
    ///
    /// In two cases, writes nothing and returns the time at which the next pass must run to write the status: only
    /// details of the status have changed and the last write is less than a second old, or someone has changed the
    /// `OpenStackDeployment` during the pass.
    pub(super) async fn publish(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        helm_started: &BTreeMap<String, bool>,
        memory: &mut Memory,
    ) -> Result<Option<Timestamp>, Error> {
        let releases = plan.releases_after(helm_started);
        let inputs = report_inputs(deployment, plan, &releases, self.runner.program().version().to_string());
        let now = now();
        let (status, events) = report(deployment.status.as_ref(), &inputs, wall());
        if plan.ignored.is_some() {
            let written = self.cluster.publish_status(deployment, status, events).await;
            return written.map(|_| None).or_else(|error| retry_conflict(error, now));
        }
        let ready = releases.decisions.values().filter(|decision| decision.step == Step::Ready).count();
        if !plan.assumed {
            self.metrics.set_releases(ready, releases.decisions.len());
        }
        let state = cloud_state(&status, &releases, self.runner.table().len());
        if events.is_empty() && !is_significant(deployment.status.as_ref(), &status) {
            let next = memory.written.as_ref().and_then(|written| written.at.checked_add(WRITE_INTERVAL).ok());
            if deployment.status.as_ref() != Some(&status) && next.is_some_and(|next| next > now) {
                self.metrics.set_cloud(&deployment.name_any(), state);
                return Ok(next);
            }
        }
        let failed = events.iter().filter_map(|event| releases.decisions.get(event.failure()?));
        let failed: Vec<_> = failed.map(|decision| decision.key.clone()).collect();
        let written = match self.cluster.publish_status(deployment, status, events).await {
            Ok(written) => written,
            Err(error) => return retry_conflict(error, now),
        };
        if let Some(resource) = written {
            memory.written = Some(WrittenStatus::new(resource, now));
            for key in failed {
                memory.failures.entry(key).and_modify(|failure| failure.is_reported = true);
            }
        }
        self.forget_secrets(plan, memory);
        // Set the metrics of the cloud only after the write of the status: if the write fails, the pass fails, and
        // `pass_failures` sets the metrics.
        self.metrics.set_cloud(&deployment.name_any(), state);
        Ok(None)
    }
}

/// Collects the data from which the status is computed. `releases` contains the step of each release after this pass
/// has started helm. `helm` is the version of helm.
fn report_inputs<'a>(
    deployment: &'a OpenStackDeployment,
    plan: &'a Plan,
    releases: &'a plan::Plan,
    helm: String,
) -> Report<'a> {
    Report {
        spec: &deployment.spec,
        generation: deployment.metadata.generation.unwrap_or_default(),
        helm,
        desired: &plan.desired,
        observed: &plan.observed,
        names: &plan.names,
        plan: releases,
        findings: &plan.findings,
        changes: &plan.changes,
        problems: &plan.problems,
        ceph: plan.ceph.as_ref(),
        roles: &plan.roles,
        label_removal: plan.label_removal.as_ref(),
        awaiting_objects: &plan.awaiting_objects,
        rollouts: &plan.rollouts,
        owned: plan.owned.as_ref(),
        additions: plan.additions.as_ref(),
        charts: plan.charts.as_ref(),
        ignored: plan.ignored.clone(),
        deleting: plan.deleting.clone(),
    }
}

/// If the write of the status failed with a conflict (HTTP 409), returns `now` as the time of the next pass, which
/// reads the changed `OpenStackDeployment`. Returns any other error.
fn retry_conflict(error: Error, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    if error.is_conflict() { Ok(Some(now)) } else { Err(error) }
}

fn cloud_state(status: &OpenStackDeploymentStatus, plan: &plan::Plan, running: usize) -> CloudState {
    let is_failing = |step: &Step| match step {
        Step::Wait(Wait::Backoff { .. }) => true,
        Step::Wait(Wait::Blocked { reason, .. }) => reason == reason::FAILED,
        Step::Wait(_) | Step::Do(..) | Step::Settling(_) | Step::Ready => false,
    };
    let is_ready = |condition: &Condition| condition.type_ == condition::READY && condition.status == "True";
    CloudState {
        ready: status.conditions.iter().any(is_ready),
        awaiting_approval: plan.awaiting_approval().count() + rollout::awaiting_approval(&status.rollouts).count(),
        running,
        failing: plan.decisions.values().filter(|decision| is_failing(&decision.step)).count(),
        drifted: status.children.values().filter(|child| !child.drift.is_empty()).count(),
    }
}

/// Whether two statuses differ in fields that other programs wait for. These are the observed generation, and the
/// conditions without their messages.
fn is_significant(before: Option<&OpenStackDeploymentStatus>, after: &OpenStackDeploymentStatus) -> bool {
    let conditions = |status: &OpenStackDeploymentStatus| -> Vec<(String, String, String)> {
        let fields =
            |condition: &Condition| (condition.type_.clone(), condition.status.clone(), condition.reason.clone());
        status.conditions.iter().map(fields).collect()
    };
    before.is_none_or(|before| {
        before.observed_generation != after.observed_generation || conditions(before) != conditions(after)
    })
}
