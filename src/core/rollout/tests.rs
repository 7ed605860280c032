use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::SignedDuration;

use super::*;
use crate::observed::{OnDelete, PodState};
use crate::plan::{Step, Wait};
use crate::release::Verb;
use crate::testing::{Fixture, NOW};
use cloud::{COMPUTE, Cloud, SWITCH, batches, daemons};

mod cloud;

#[test]
fn unchanged_templates_need_nothing() {
    assert_eq!(Cloud::new(3).pass(), NextRollouts::default());
}

#[test]
fn rolls_out_approved_batches_in_catalogue_order() {
    let mut cloud = Cloud::new(5);
    cloud.settings.batch_size = Some(IntOrString::String("40%".into()));
    cloud.template(COMPUTE, "r2");
    cloud.template(SWITCH, "r2");
    let next = cloud.pass();
    assert_eq!((next.evict.len(), next.watch.len()), (0, 2));
    let status = &cloud.status["nova/compute"];
    assert_eq!((status.phase, status.updated, status.total), (RolloutPhase::AwaitingApproval, 0, 5));
    assert_eq!(
        status.message,
        "its new pod template restarts pods on 5 nodes, 2 at a time: waits for approval (osdpl approve)"
    );
    cloud.approve();
    assert_eq!(cloud.status["openvswitch/server"].message, "batch n1, n2");
    assert_eq!(cloud.status["nova/compute"].message, "waits for its turn: osdpl rolls out openvswitch/server first");
    cloud.replace();
    cloud.settle();
    let switch = ["openvswitch/server n3+n4", "openvswitch/server n5"];
    let compute = ["nova/compute n1+n2", "nova/compute n3+n4", "nova/compute n5"];
    assert_eq!(batches(&mut cloud), [switch.as_slice(), &compute].concat());
    assert_eq!((cloud.phase("nova/compute"), cloud.status["nova/compute"].updated), (Some(RolloutPhase::Complete), 5));

    cloud.template(COMPUTE, "r3");
    assert_eq!(cloud.pass().evict, [], "a new template needs a new approval");
    assert_eq!(cloud.phase("nova/compute"), Some(RolloutPhase::AwaitingApproval));
    cloud.template(COMPUTE, "r2");
    cloud.pass();
    assert_eq!(
        cloud.phase("nova/compute"),
        None,
        "a template that was reverted before its rollout started needs no rollout"
    );
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r4");
    assert_eq!(batches(&mut cloud).len(), 3);
}

#[test]
fn approval_of_a_change_covers_its_rollout() {
    let mut cloud = Cloud::new(1);
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Wait(Wait::Needs(Vec::new()));
    cloud.approve();
    let status = &cloud.status["nova/compute"];
    assert_eq!((status.phase, status.approved_inputs.as_str(), cloud.status.len()), (RolloutPhase::Pending, "new", 1));
    // helm has finished, but the watch on `DaemonSets` has not reported the changed pod template yet.
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Ready;
    cloud.pass();
    assert!(
        are_approvals_stored(&cloud.status.clone(), &cloud.status)
            && !are_approvals_stored(&cloud.status, &Rollouts::new())
    );
    cloud.template(COMPUTE, "r2");
    assert_eq!(batches(&mut cloud), ["nova/compute n1"]);
    assert_eq!(cloud.status["nova/compute"].approved_inputs, "", "an approval covers only one change of the template");
    cloud.template(COMPUTE, "r3");
    cloud.pass();
    assert_eq!(cloud.phase("nova/compute"), Some(RolloutPhase::AwaitingApproval));
}

#[test]
fn unhealthy_pod_stops_rollout_until_ready_or_changed() {
    for is_ready in [true, false] {
        let mut cloud = Cloud::new(3);
        cloud.settings.approval = Some(Approval::Automatic);
        cloud.template(COMPUTE, "r2");
        assert_eq!(cloud.pass().evict[0].node, "n1");
        cloud.replace();
        cloud.pods(COMPUTE.1)[0].state = PodState::Unhealthy("ImagePullBackOff".into());
        assert_eq!(cloud.pass().evict, []);
        let status = cloud.status["nova/compute"].clone();
        assert_eq!((status.phase, status.batch.join(",")), (RolloutPhase::Stopped, "n1".into()));
        assert!(
            status
                .message
                .starts_with("stopped at n1: ImagePullBackOff; the rollout continues when the pod on this node"),
            "{}",
            status.message
        );
        if is_ready {
            cloud.pods(COMPUTE.1)[0].state = PodState::Ready(Some(NOW));
            assert_eq!(batches(&mut cloud), ["nova/compute n2", "nova/compute n3"]);
        } else {
            cloud.template(COMPUTE, "r3");
            assert_eq!(batches(&mut cloud).join(","), "nova/compute n1,nova/compute n2,nova/compute n3");
        }
    }
}

#[test]
fn pod_that_never_starts_stops_rollout() {
    let mut cloud = Cloud::new(2);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    cloud.pass();
    cloud.replace();
    let late = NOW + SignedDuration::from_mins(15);
    assert_eq!((cloud.pass().requeue_at, cloud.phase("nova/compute")), (Some(late), Some(RolloutPhase::Rolling)));
    assert_eq!(cloud.status["nova/compute"].message, "batch n1: it starts");
    cloud.now = late;
    assert_eq!(cloud.pass().evict, []);
    assert!(cloud.status["nova/compute"].message.starts_with("stopped at n1: not ready for 15 minutes: it starts"));
}

#[test]
fn replaces_unready_pods_first_and_skips_lost_nodes() {
    let mut cloud = Cloud::new(4);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.nodes.get_mut("n1").unwrap().missing = true;
    cloud.pods(COMPUTE.1)[2].state = PodState::Unhealthy("boom".into());
    cloud.template(COMPUTE, "r2");
    let mut evicted = Vec::new();
    for _ in 0..4 {
        evicted.extend(cloud.pass().evict.into_iter().map(|pod| pod.node));
        cloud.replace();
        cloud.settle();
    }
    assert_eq!(evicted, ["n3", "n2", "n4"]);
    cloud.template(SWITCH, "r2");
    assert_eq!(
        cloud.pass().component.as_deref(),
        Some(SWITCH.1),
        "nodes that are skipped because they are NotReady do not block other components"
    );
    let status = &cloud.status["nova/compute"];
    assert_eq!((status.phase, status.updated, status.skipped.join(",")), (RolloutPhase::Waiting, 3, "n1".into()));
    assert_eq!(status.message, "the remaining nodes are NotReady: n1");
}

#[test]
fn lost_node_with_replaced_pod_stops_rollout() {
    for successor in [false, true] {
        let mut cloud = Cloud::new(3);
        cloud.settings.approval = Some(Approval::Automatic);
        cloud.template(COMPUTE, "r2");
        assert_eq!(cloud.pass().evict[0].node, "n1");
        if successor {
            cloud.replace();
        }
        cloud.nodes.get_mut("n1").unwrap().missing = true;
        assert_eq!(cloud.pass().evict, []);
        assert_eq!(cloud.phase("nova/compute"), Some(RolloutPhase::Stopped));
        let why = "stopped at n1: the node became NotReady when its pod was replaced";
        assert!(cloud.status["nova/compute"].message.starts_with(why), "{:?}", cloud.status);
    }
}

#[test]
fn waits_for_missing_pods_despite_misplaced_ones() {
    let mut cloud = Cloud::new(3);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    cloud.pass();
    // The `DaemonSet` selects the nodes n1 and n2, and has two pods. But one pod runs on n3, which the `DaemonSet` does
    // not select any more, and n1 has no pod.
    cloud.pods(COMPUTE.1).retain(|pod| pod.node != "n1");
    let set = cloud.fixture.observed.workloads.iter_mut().find(|set| set.release == "nova").unwrap();
    (set.desired, set.misscheduled) = (2, 1);
    assert_eq!(cloud.pass().evict, []);
    assert_eq!(cloud.status["nova/compute"].message, "batch n1");
}

#[test]
fn does_not_evict_pods_that_would_not_return() {
    let mut cloud = Cloud::new(3);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    let set = cloud.fixture.observed.workloads.iter_mut().find(|set| set.release == "nova").unwrap();
    (set.desired, set.misscheduled) = (2, 1);
    assert_eq!(cloud.pass().evict, []);
    let status = &cloud.status["nova/compute"];
    assert_eq!(status.phase, RolloutPhase::Waiting);
    assert!(status.message.starts_with("the DaemonSet does not select the nodes of some pods (1)"), "{status:?}");
}

#[test]
fn new_nodes_are_no_rollout_and_approval_can_be_revoked() {
    let mut cloud = Cloud::new(3);
    cloud.pods(COMPUTE.1).pop();
    let set = cloud.fixture.observed.workloads.iter_mut().find(|set| set.release == "nova").unwrap();
    set.on_delete = Some(OnDelete { uid: "nova".into(), stale: 1 });
    let next = cloud.pass();
    assert_eq!((next.rollouts.len(), next.is_incomplete), (0, false));

    let mut cloud = Cloud::new(3);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    assert_eq!(cloud.pass().evict.len(), 1);
    cloud.replace();
    cloud.settle();
    cloud.settings.approval = Some(Approval::Manual);
    assert_eq!(cloud.pass().evict, []);
    assert_eq!(cloud.phase("nova/compute"), Some(RolloutPhase::AwaitingApproval));
}

#[test]
fn pauses_after_batches_and_waits_for_helm_and_pause() {
    let mut cloud = Cloud::new(2);
    cloud.settings = Rollout { approval: Some(Approval::Automatic), ..Rollout::default() };
    cloud.template(COMPUTE, "r2");
    let helm = Step::Wait(Wait::Helm { verb: Verb::Upgrade, queued: false, hook: None });
    for release in ["nova", "openvswitch"] {
        let step = std::mem::replace(&mut cloud.plan.decisions.get_mut(release).unwrap().step, helm.clone());
        assert_eq!(cloud.pass().evict, []);
        assert_eq!(cloud.status["nova/compute"].message, format!("waits until release {release} is in sync"));
        cloud.plan.decisions.get_mut(release).unwrap().step = step;
    }
    cloud.fixture.policy.paused = true;
    assert_eq!((cloud.pass().evict.len(), cloud.phase("nova/compute")), (0, Some(RolloutPhase::Waiting)));
    cloud.fixture.policy.paused = false;
    assert_eq!(cloud.pass().evict.len(), 1);
    cloud.replace();
    cloud.settle();
    let next = cloud.pass();
    assert_eq!((next.evict.len(), next.requeue_at), (0, Some(NOW + SignedDuration::from_secs(30))));
    assert_eq!(cloud.phase("nova/compute"), Some(RolloutPhase::Pausing));
    cloud.now = NOW + SignedDuration::from_secs(30);
    assert_eq!(cloud.pass().evict.len(), 1);
}

#[test]
fn waits_until_both_watches_agree() {
    let mut cloud = Cloud::new(2);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    let late = std::mem::take(&mut cloud.rolling.get_mut(&daemons(COMPUTE.1)).unwrap().revisions);
    let next = cloud.pass();
    assert_eq!((next.evict.len(), next.is_incomplete, cloud.status.len()), (0, true, 0));
    let own = cloud.rolling.get_mut(&daemons(COMPUTE.1)).unwrap();
    own.revisions.insert("nova".into(), "r1".into());
    assert_eq!(
        cloud.pass().evict,
        [],
        "osdpl evicts nothing until the watch reports the newest revision of the pod template"
    );
    cloud.rolling.get_mut(&daemons(COMPUTE.1)).unwrap().revisions = late;
    assert_eq!(cloud.pass().evict.len(), 1);
}

#[test]
fn waits_until_the_pods_of_all_components_are_listed() {
    let mut cloud = Cloud::new(3);
    cloud.template(COMPUTE, "r2");
    cloud.template(SWITCH, "r2");
    cloud.approve();
    assert_eq!(cloud.phase(SWITCH.1), Some(RolloutPhase::Rolling));
    // The operator has restarted. It has listed the pods of COMPUTE, but not yet those of SWITCH, whose batch is in
    // flight.
    let (before, pods) = (cloud.status.clone(), cloud.rolling.remove(&daemons(SWITCH.1)).unwrap());
    let next = cloud.pass();
    assert_eq!((next.evict, next.is_incomplete), (Vec::new(), true), "a batch of SWITCH is in flight");
    assert_eq!(cloud.status, before);
    cloud.rolling.insert(daemons(SWITCH.1), pods);
    cloud.replace();
    cloud.settle();
    assert_eq!(cloud.pass().component.as_deref(), Some(SWITCH.1));
}

#[test]
fn sets_strategy_unless_the_spec_reverts_it() {
    let mut cloud = Cloud::new(1);
    let of = |cloud: &Cloud| {
        let Fixture { desired, observed, catalog, .. } = &cloud.fixture;
        strategies_to_set(desired, observed, catalog, &cloud.plan)
    };
    assert_eq!(of(&cloud), []);
    let set = cloud.fixture.observed.workloads.iter_mut().find(|set| set.release == "nova").unwrap();
    set.on_delete = None;
    let wanted =
        Strategy { namespace: "openstack".into(), name: "nova".into(), generation: 1, on_delete: true, settled: true };
    assert_eq!(of(&cloud), std::slice::from_ref(&wanted));
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Wait(Wait::Needs(Vec::new()));
    assert_eq!(
        of(&cloud),
        [Strategy { settled: false, ..wanted.clone() }],
        "the operator sets the strategy before helm changes the template"
    );
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Wait(Wait::Paused);
    assert_eq!(of(&cloud), []);
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Ready;
    cloud.fixture.desired.releases.get_mut("nova").unwrap().values.clear();
    assert_eq!(of(&cloud), [], "DaemonSets that have the desired strategy RollingUpdate stay as they are");
    cloud.fixture.observed.workloads.iter_mut().for_each(|set| set.on_delete = Some(OnDelete::default()));
    assert_eq!(of(&cloud), [Strategy { on_delete: false, ..wanted }]);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    assert_eq!(cloud.pass().evict, [], "osdpl evicts no pods with RollingUpdate, because Kubernetes replaces them");
}

#[test]
fn previews_restarts_of_upgrades() {
    let mut cloud = Cloud::new(3);
    let preview = |cloud: &Cloud| {
        let Fixture { desired, observed, catalog, .. } = &cloud.fixture;
        preview_restarts(desired, observed, catalog, &cloud.plan, &cloud.settings).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(preview(&cloud), []);
    let upgrade = crate::plan::Action::Upgrade { delete_jobs: Vec::new(), skip_hooks: false };
    let upgrade = Step::Do(upgrade, crate::plan::Reason::Spec);
    cloud.plan.decisions.get_mut("nova").unwrap().step = upgrade;
    let status = "restarts after approval the pods whose pod template changes: nova/compute on 3 nodes, 1 at a time";
    assert_eq!(preview(&cloud), [("nova".to_owned(), status.to_owned())]);
}
