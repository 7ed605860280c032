//! Derives from the state of pods why their workload or Job is not ready.

use std::collections::{BTreeMap, BTreeSet};

use super::{job_owner, workload_owner};
use osdpl_core::catalog::WorkloadKind;
use osdpl_core::cause::Facts;
use osdpl_core::health::pod::UnreadyPod;
use osdpl_core::health::{has_no_nodes, no_nodes};
use osdpl_core::observed::{Issue, ObservedJob, Workload};
use osdpl_values::CollectSorted;

/// Returns a copy of the workload. The copy's field `trouble` says why the workload is not complete: no node matches
/// its selector, Kubernetes can't create its pods, its pods are not ready, or nodes are missing. If the workload is a
/// `DaemonSet`, the counts in the copy include its pods on `NotReady` nodes.
///
/// If the workload is complete, the function ignores pods that are not ready, because they are new or are being
/// deleted.
pub(super) fn explain_workload(workload: &Workload, pods: &[&UnreadyPod], facts: &Facts<'_>) -> Workload {
    let on_nodes = workload.kind == WorkloadKind::DaemonSet;
    let lost_nodes = if on_nodes { lost(pods, facts) } else { Vec::new() };
    let awaited = pods.iter().filter(|pod| on_nodes && facts.is_on_recovering_node(pod)).count();
    let Workload { ready, updated, outdated_pods: outdated, misscheduled, .. } = *workload;
    // The DaemonSet controller does not count `NotReady` nodes, because of their taint. Without these nodes, a
    // DaemonSet that lost its pods on them would look complete. So osdpl counts the lost pods as desired.
    let count = |nodes: usize| i32::try_from(nodes).unwrap_or(i32::MAX);
    let on_lost = misscheduled.min(count(lost_nodes.len().saturating_add(awaited)));
    let desired = workload.desired.saturating_add(on_lost);
    let ready = ready.saturating_add(count(awaited)).min(desired.max(ready));
    let updated = updated.saturating_add(misscheduled.min(count(awaited)));
    let complete = ready >= desired && updated >= desired && outdated == 0;
    let first = pods.iter().find(|pod| !(on_nodes && facts.is_on_recovering_node(pod))).filter(|_| !complete);
    let nodeless = (has_no_nodes(workload) && on_lost == 0).then(|| {
        let message = no_nodes(workload, facts.nodes.as_ref().map(BTreeMap::len));
        Issue { stuck: false, message }
    });
    let refused = facts.rejections.get(&workload_owner(workload)).filter(|_| !complete);
    let refused = refused.map(|message| Issue { stuck: true, message: (*message).to_owned() });
    let lost = (!complete && !lost_nodes.is_empty())
        .then(|| Issue { stuck: false, message: osdpl_core::health::lost_nodes(&lost_nodes) });
    Workload {
        desired,
        ready,
        updated,
        lost_nodes,
        trouble: nodeless.or(refused).or_else(|| Some(facts.explain(&workload.namespace, first?)?.trouble)).or(lost),
        was_available: workload.was_available || first.is_some_and(|pod| pod.was_ready),
        ..workload.clone()
    }
}

fn lost(pods: &[&UnreadyPod], facts: &Facts<'_>) -> Vec<String> {
    let nodes: BTreeSet<&str> = pods.iter().filter_map(|pod| facts.lost_node(pod)).collect_set();
    nodes.into_iter().map(str::to_owned).collect()
}

/// Returns a copy of the Job. The copy's field `trouble` says why the Job is not complete, according to its status and
/// its first pod. If the Job has no pod, the reason is from its status or from the events about the Job.
pub(super) fn explain_job(job: &ObservedJob, pods: &[&UnreadyPod], facts: &Facts<'_>) -> ObservedJob {
    let mut job = job.clone();
    if job.complete {
        job.trouble = None;
        return job;
    }
    let Some(pod) = pods.first() else {
        let refused = facts.rejections.get(&job_owner(&job)).map(|message| (*message).to_owned());
        job.trouble = job.trouble.take().or(refused.map(|message| Issue { stuck: true, message }));
        return job;
    };
    let Some(explanation) = facts.explain(&job.namespace, pod) else { return job };
    let mut trouble = explanation.trouble;
    if let Some(given_up) = job.trouble.take() {
        trouble = Issue { stuck: true, message: format!("{}; {}", given_up.message, trouble.message) };
    }
    job.trouble = Some(trouble);
    job
}
