use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::SignedDuration;

use super::*;
use crate::observed::{OnDelete, PodState};
use crate::plan::{Step, Wait};
use crate::testing::world::{NOW, World};
use cloud::{COMPUTE, Cloud, SWITCH, batches, daemons};

mod cloud;

#[test]
fn nothing_is_looked_at_or_said_while_no_template_has_changed() {
    assert_eq!(Cloud::new(3).pass(), Next::default());
}

#[test]
fn what_is_approved_goes_in_batches_component_by_component_and_the_word_is_kept() {
    let mut cloud = Cloud::new(5);
    cloud.settings.batch_size = Some(IntOrString::String("40%".into()));
    cloud.template(COMPUTE, "r2");
    cloud.template(SWITCH, "r2");
    let next = cloud.pass();
    assert_eq!((next.evict.len(), next.watch.len()), (0, 2));
    let said = &cloud.said["nova/compute"];
    assert_eq!((said.phase, said.updated, said.total), (RolloutPhase::AwaitingApproval, 0, 5));
    assert_eq!(
        said.message,
        "its template changed, which restarts it on 5 nodes, 2 at a time: waits for approval (osdpl approve)"
    );
    cloud.approve();
    assert_eq!(cloud.said["openvswitch/server"].message, "batch n1, n2");
    assert_eq!(cloud.said["nova/compute"].message, "waits for its turn: openvswitch/server is rolled first");
    cloud.replace();
    cloud.settle();
    let switch = ["openvswitch/server n3+n4", "openvswitch/server n5"];
    let compute = ["nova/compute n1+n2", "nova/compute n3+n4", "nova/compute n5"];
    assert_eq!(batches(&mut cloud), [switch.as_slice(), &compute].concat());
    assert_eq!((cloud.phase("nova/compute"), cloud.said["nova/compute"].updated), (Some(RolloutPhase::Complete), 5));

    cloud.template(COMPUTE, "r3");
    assert_eq!(cloud.pass().evict, [], "another template needs another word");
    assert_eq!(cloud.phase("nova/compute"), Some(RolloutPhase::AwaitingApproval));
    cloud.template(COMPUTE, "r2");
    cloud.pass();
    assert_eq!(cloud.phase("nova/compute"), None, "taken back before it began");
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r4");
    assert_eq!(batches(&mut cloud).len(), 3);
}

#[test]
fn a_word_for_the_change_that_led_to_it_is_a_word_for_the_rollout() {
    let mut cloud = Cloud::new(1);
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Wait(Wait::Needs(Vec::new()));
    cloud.approve();
    let said = &cloud.said["nova/compute"];
    assert_eq!((said.phase, said.approved_inputs.as_str(), cloud.said.len()), (RolloutPhase::Pending, "new", 1));
    // helm is through, its template not yet seen.
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Ready;
    cloud.pass();
    assert!(is_recorded(&cloud.said.clone(), &cloud.said) && !is_recorded(&cloud.said, &Rollouts::new()));
    cloud.template(COMPUTE, "r2");
    assert_eq!(batches(&mut cloud), ["nova/compute n1"]);
    assert_eq!(cloud.said["nova/compute"].approved_inputs, "", "it was for that revision");
    cloud.template(COMPUTE, "r3");
    cloud.pass();
    assert_eq!(cloud.phase("nova/compute"), Some(RolloutPhase::AwaitingApproval));
}

#[test]
fn the_first_unhealthy_pod_stops_it_until_it_is_ready_or_the_template_is_another() {
    for mended in [true, false] {
        let mut cloud = Cloud::new(3);
        cloud.settings.approval = Some(Approval::Automatic);
        cloud.template(COMPUTE, "r2");
        assert_eq!(cloud.pass().evict[0].node, "n1");
        cloud.replace();
        cloud.pods(COMPUTE.1)[0].state = PodState::Unhealthy("ImagePullBackOff".into());
        assert_eq!(cloud.pass().evict, []);
        let said = cloud.said["nova/compute"].clone();
        assert_eq!((said.phase, said.batch.join(",")), (RolloutPhase::Stopped, "n1".into()));
        assert!(
            said.message.starts_with("stopped at n1: ImagePullBackOff; it goes on once that pod is ready"),
            "{}",
            said.message
        );
        if mended {
            cloud.pods(COMPUTE.1)[0].state = PodState::Ready(Some(NOW));
            assert_eq!(batches(&mut cloud), ["nova/compute n2", "nova/compute n3"]);
        } else {
            cloud.template(COMPUTE, "r3");
            assert_eq!(batches(&mut cloud).join(","), "nova/compute n1,nova/compute n2,nova/compute n3");
        }
    }
}

#[test]
fn a_pod_that_never_comes_up_stops_it_too() {
    let mut cloud = Cloud::new(2);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    cloud.pass();
    cloud.replace();
    let late = NOW + SignedDuration::from_mins(15);
    assert_eq!((cloud.pass().wake, cloud.phase("nova/compute")), (Some(late), Some(RolloutPhase::Rolling)));
    assert_eq!(cloud.said["nova/compute"].message, "batch n1: it starts");
    cloud.now = late;
    assert_eq!(cloud.pass().evict, []);
    assert!(cloud.said["nova/compute"].message.starts_with("stopped at n1: not ready for 15 minutes: it starts"));
}

#[test]
fn pods_that_are_not_ready_anyway_go_first_and_lost_nodes_are_left_out() {
    let mut cloud = Cloud::new(4);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.nodes.get_mut("n1").unwrap().missing = true;
    cloud.pods(COMPUTE.1)[2].state = PodState::Unhealthy("boom".into());
    cloud.template(COMPUTE, "r2");
    let mut gone = Vec::new();
    for _ in 0..4 {
        gone.extend(cloud.pass().evict.into_iter().map(|pod| pod.node));
        cloud.replace();
        cloud.settle();
    }
    assert_eq!(gone, ["n3", "n2", "n4"]);
    cloud.template(SWITCH, "r2");
    assert_eq!(cloud.pass().of.as_deref(), Some(SWITCH.1), "what can't go holds nothing up");
    let said = &cloud.said["nova/compute"];
    assert_eq!((said.phase, said.updated, said.skipped.join(",")), (RolloutPhase::Waiting, 3, "n1".into()));
    assert_eq!(said.message, "what is left is on nodes that are NotReady: n1");
}

#[test]
fn a_node_that_is_lost_after_its_pod_was_made_anew_stops_it() {
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
        let why = "stopped at n1: the node is NotReady since its pod was made anew";
        assert!(cloud.said["nova/compute"].message.starts_with(why), "{:?}", cloud.said);
    }
}

#[test]
fn between_two_pods_of_a_node_nothing_goes_whatever_runs_elsewhere() {
    let mut cloud = Cloud::new(3);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    cloud.pass();
    // n3 is none of its nodes any more, but has a pod: as many pods as are wanted, while n1 has none.
    cloud.pods(COMPUTE.1).retain(|pod| pod.node != "n1");
    let set = cloud.world.observed.workloads.iter_mut().find(|set| set.release == "nova").unwrap();
    (set.desired, set.misscheduled) = (2, 1);
    assert_eq!(cloud.pass().evict, []);
    assert_eq!(cloud.said["nova/compute"].message, "batch n1");
}

#[test]
fn a_pod_that_would_not_come_back_is_not_touched() {
    let mut cloud = Cloud::new(3);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    let set = cloud.world.observed.workloads.iter_mut().find(|set| set.release == "nova").unwrap();
    (set.desired, set.misscheduled) = (2, 1);
    assert_eq!(cloud.pass().evict, []);
    let said = &cloud.said["nova/compute"];
    assert_eq!(said.phase, RolloutPhase::Waiting);
    assert!(said.message.starts_with("1 of its pods run on nodes where its DaemonSet would put none"), "{said:?}");
}

#[test]
fn a_node_that_comes_is_no_rollout_and_what_the_spec_allowed_it_can_take_back() {
    let mut cloud = Cloud::new(3);
    cloud.pods(COMPUTE.1).pop();
    let set = cloud.world.observed.workloads.iter_mut().find(|set| set.release == "nova").unwrap();
    set.on_delete = Some(OnDelete { uid: "nova".into(), stale: 1 });
    let next = cloud.pass();
    assert_eq!((next.rollouts.len(), next.unseen), (0, false));

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
fn there_is_a_pause_after_a_batch_and_nothing_goes_while_helm_runs_or_the_cloud_is_paused() {
    let mut cloud = Cloud::new(2);
    cloud.settings = Rollout { approval: Some(Approval::Automatic), ..Rollout::default() };
    cloud.template(COMPUTE, "r2");
    let helm = Step::Wait(Wait::Helm { verb: "upgrade".into(), queued: false, hook: None });
    for release in ["nova", "openvswitch"] {
        let step = std::mem::replace(&mut cloud.plan.decisions.get_mut(release).unwrap().step, helm.clone());
        assert_eq!(cloud.pass().evict, []);
        assert_eq!(cloud.said["nova/compute"].message, format!("waits until release {release} is as wanted"));
        cloud.plan.decisions.get_mut(release).unwrap().step = step;
    }
    cloud.world.policy.paused = true;
    assert_eq!((cloud.pass().evict.len(), cloud.phase("nova/compute")), (0, Some(RolloutPhase::Waiting)));
    cloud.world.policy.paused = false;
    assert_eq!(cloud.pass().evict.len(), 1);
    cloud.replace();
    cloud.settle();
    let next = cloud.pass();
    assert_eq!((next.evict.len(), next.wake), (0, Some(NOW + SignedDuration::from_secs(30))));
    assert_eq!(cloud.phase("nova/compute"), Some(RolloutPhase::Pausing));
    cloud.now = NOW + SignedDuration::from_secs(30);
    assert_eq!(cloud.pass().evict.len(), 1);
}

#[test]
fn what_two_watches_tell_differently_is_waited_for() {
    let mut cloud = Cloud::new(2);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    let late = std::mem::take(&mut cloud.rolling.get_mut(&daemons(COMPUTE.1)).unwrap().revisions);
    let next = cloud.pass();
    assert_eq!((next.evict.len(), next.unseen, cloud.said.len()), (0, true, 0));
    let own = cloud.rolling.get_mut(&daemons(COMPUTE.1)).unwrap();
    own.revisions.insert("nova".into(), "r1".into());
    assert_eq!(cloud.pass().evict, [], "the newest revision is not told yet");
    cloud.rolling.get_mut(&daemons(COMPUTE.1)).unwrap().revisions = late;
    assert_eq!(cloud.pass().evict.len(), 1);
}

#[test]
fn a_chart_that_has_no_word_for_the_strategy_has_it_set_and_one_that_a_user_set_back_is_left_alone() {
    let mut cloud = Cloud::new(1);
    let of = |cloud: &Cloud| {
        let World { desired, observed, catalog, .. } = &cloud.world;
        strategies(desired, observed, catalog, &cloud.plan)
    };
    assert_eq!(of(&cloud), []);
    let set = cloud.world.observed.workloads.iter_mut().find(|set| set.release == "nova").unwrap();
    set.on_delete = None;
    let wanted =
        Strategy { namespace: "openstack".into(), name: "nova".into(), generation: 1, on_delete: true, settled: true };
    assert_eq!(of(&cloud), std::slice::from_ref(&wanted));
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Wait(Wait::Needs(Vec::new()));
    assert_eq!(of(&cloud), [Strategy { settled: false, ..wanted.clone() }], "before helm brings another template");
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Wait(Wait::Paused);
    assert_eq!(of(&cloud), []);
    cloud.plan.decisions.get_mut("nova").unwrap().step = Step::Ready;
    cloud.world.desired.releases.get_mut("nova").unwrap().values.clear();
    assert_eq!(of(&cloud), [], "Kubernetes' own way is wanted, and is");
    cloud.world.observed.workloads.iter_mut().for_each(|set| set.on_delete = Some(OnDelete::default()));
    assert_eq!(of(&cloud), [Strategy { on_delete: false, ..wanted }]);
    cloud.settings.approval = Some(Approval::Automatic);
    cloud.template(COMPUTE, "r2");
    assert_eq!(cloud.pass().evict, [], "it is Kubernetes' business");
}

#[test]
fn a_plan_tells_what_an_upgrade_restarts() {
    let mut cloud = Cloud::new(3);
    let told = |cloud: &Cloud| {
        let World { desired, observed, catalog, .. } = &cloud.world;
        ahead(desired, observed, catalog, &cloud.plan, &cloud.settings).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(told(&cloud), []);
    let upgrade = Step::Do(crate::plan::Action::Upgrade { delete_jobs: Vec::new() }, crate::plan::Why::Spec);
    cloud.plan.decisions.get_mut("nova").unwrap().step = upgrade;
    let said = "restarts after approval what has another template then: nova/compute on 3 nodes, 1 at a time";
    assert_eq!(told(&cloud), [("nova".to_owned(), said.to_owned())]);
}
