use super::*;
use crate::catalog::Component;
use crate::observed::Issue;

/// Returns a healthy Deployment of three pods.
fn healthy() -> Workload {
    Workload {
        kind: WorkloadKind::Deployment,
        namespace: "openstack".into(),
        name: "neutron-server".into(),
        release: "neutron".into(),
        component: Component { application: "neutron".into(), component: "server".into() },
        generation: 4,
        observed_generation: 4,
        desired: 3,
        ready: 3,
        updated: 3,
        on_delete: None,
        outdated_pods: 0,
        was_available: true,
        node_selector: String::new(),
        misscheduled: 0,
        claim_size: None,
        lost_nodes: Vec::new(),
        trouble: None,
    }
}

fn with(change: impl FnOnce(&mut Workload)) -> Workload {
    let mut workload = healthy();
    change(&mut workload);
    workload
}

fn trouble(stuck: bool) -> Issue {
    Issue { stuck, message: "neutron-server-x: why".into() }
}

/// Returns a healthy `DaemonSet` with one pod on each of `nodes` nodes.
fn on_nodes(nodes: i32) -> Workload {
    with(|workload| {
        workload.kind = WorkloadKind::DaemonSet;
        (workload.desired, workload.ready, workload.updated) = (nodes, nodes, nodes);
    })
}

#[test]
fn assesses_each_state_of_a_workload() {
    use ComponentHealth::{Progressing, Ready, Unhealthy, Unknown};
    for (workload, status, ready, reason) in [
        (healthy(), Ready, "3/3", ""),
        (with(|w| w.trouble = Some(trouble(true))), Ready, "3/3", ""),
        (with(|w| (w.desired, w.ready, w.updated) = (0, 0, 0)), Ready, "0/0", ""),
        (with(|w| w.generation = 5), Progressing, "3/3", "its controller has not observed generation 5 yet"),
        (with(|w| (w.ready, w.was_available) = (1, false)), Progressing, "1/3", ""),
        (with(|w| w.ready = 1), Unhealthy, "1/3", "some of its pods are no longer ready"),
        (with(|w| w.updated = 2), Progressing, "3/3", "2 of 3 pods have the newest pod template"),
        (with(|w| w.outdated_pods = 2), Progressing, "3/3", "2 pods with an older pod template still exist"),
        (
            with(|w| (w.ready, w.was_available, w.trouble) = (0, false, Some(trouble(false)))),
            Progressing,
            "0/3",
            "neutron-server-x: why",
        ),
        (
            with(|w| (w.ready, w.was_available, w.trouble) = (0, false, Some(trouble(true)))),
            Unhealthy,
            "0/3",
            "neutron-server-x: why",
        ),
        (
            with(|w| (w.updated, w.was_available, w.trouble) = (1, false, Some(trouble(true)))),
            Unhealthy,
            "3/3",
            "neutron-server-x: why",
        ),
        (on_nodes(0), Unknown, "0/0", "its DaemonSet selects no node"),
        (on_nodes(2), Ready, "2/2", ""),
    ] {
        let expected = ComponentStatus {
            status,
            generation: Some(workload.generation),
            ready: ready.into(),
            reason: reason.into(),
        };
        assert_eq!(assess(&workload), expected, "{workload:?}");
    }
}

#[test]
fn one_ready_pod_makes_a_workload_available() {
    for (workload, expected) in [
        (healthy(), true),
        (with(|w| (w.ready, w.updated, w.generation) = (1, 0, 9)), true),
        (with(|w| w.ready = 0), false),
        // Someone scaled the workload to 0. Its last pod still runs, but is being deleted.
        (with(|w| (w.desired, w.ready) = (0, 1)), false),
        (on_nodes(0), false),
        (on_nodes(1), true),
    ] {
        assert_eq!(is_available(&workload), expected, "{workload:?}");
    }
}

#[test]
fn has_no_nodes_only_after_controller_observed_it() {
    assert!(has_no_nodes(&on_nodes(0)));
    assert!(!has_no_nodes(&on_nodes(1)));
    let unseen = Workload { observed_generation: 0, ..on_nodes(0) };
    assert!(!has_no_nodes(&unseen));
    assert_eq!(assess(&unseen).status, ComponentHealth::Progressing);
    assert!(!has_no_nodes(&with(|w| w.desired = 0)));
}

#[test]
fn component_has_worst_status_and_summed_counts() {
    let missing = with(|w| (w.ready, w.was_available) = (1, false));
    let broken = with(|w| (w.ready, w.trouble) = (0, Some(trouble(true))));
    let of = |workloads: &[&Workload]| {
        let ComponentStatus { status, ready, reason, .. } = aggregate(workloads);
        (status, ready, reason)
    };
    assert_eq!(of(&[&healthy(), &healthy()]), (ComponentHealth::Ready, "6/6".into(), String::new()));
    assert_eq!(of(&[&healthy(), &missing]), (ComponentHealth::Progressing, "4/6".into(), String::new()));
    assert_eq!(
        of(&[&missing, &broken, &healthy()]),
        (ComponentHealth::Unhealthy, "4/9".into(), "neutron-server-x: why".into())
    );
    assert_eq!(of(&[]), (ComponentHealth::Unknown, "0/0".into(), NO_WORKLOAD.into()));
}

#[test]
fn ignores_default_daemon_set_without_nodes() {
    assert_eq!(aggregate(&[&on_nodes(0), &on_nodes(2)]).status, ComponentHealth::Ready);
    let only = aggregate(&[&on_nodes(0)]);
    assert_eq!((only.status, only.reason.as_str()), (ComponentHealth::Unknown, "its DaemonSet selects no node"));
}

#[test]
fn assesses_each_state_of_a_job() {
    let running = ObservedJob {
        namespace: "openstack".into(),
        name: "nova-db-sync".into(),
        release: "nova".into(),
        complete: false,
        failed: false,
        failures: 0,
        trouble: None,
    };
    let message = || "neutron-server-x: why".to_owned();
    for (job, expected) in [
        (running.clone(), JobHealth::Running(String::new())),
        (ObservedJob { trouble: Some(trouble(false)), ..running.clone() }, JobHealth::Running(message())),
        (ObservedJob { trouble: Some(trouble(true)), ..running.clone() }, JobHealth::Failing(message())),
        (ObservedJob { failures: 2, ..running.clone() }, JobHealth::Failing("2 of its pods have failed".into())),
        (ObservedJob { failed: true, failures: 7, ..running.clone() }, JobHealth::Failed("it has failed".into())),
        (ObservedJob { failed: true, trouble: Some(trouble(true)), ..running.clone() }, JobHealth::Failed(message())),
        (ObservedJob { complete: true, failures: 3, trouble: Some(trouble(true)), ..running }, JobHealth::Complete),
    ] {
        assert_eq!(job_health(&job), expected, "{job:?}");
    }
}

#[test]
fn missing_nodes_only_degrade_a_daemon_set() {
    let lost = |nodes: &[&str], ready: i32| Workload {
        lost_nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        ready,
        trouble: Some(trouble(false)),
        ..on_nodes(50)
    };
    let of = |workload: &Workload| {
        let ComponentStatus { status, ready, reason, .. } = assess(workload);
        (status, ready, reason)
    };
    let degraded = |ready: &str, reason: &str| (ComponentHealth::Degraded, ready.to_owned(), reason.to_owned());
    assert_eq!(of(&lost(&["n3"], 49)), degraded("49/50", "node n3 is NotReady"));
    let four = ["a", "b", "c", "d"];
    assert_eq!(of(&lost(&four, 46)), degraded("46/50", "nodes a, b, c and 1 more are NotReady"));
    assert_eq!(of(&lost(&["n3"], 48)).0, ComponentHealth::Unhealthy, "a pod on a ready node is missing, too");
    assert_eq!(of(&Workload { desired: 1, updated: 1, ..lost(&["n3"], 0) }).0, ComponentHealth::Unhealthy);
    let control_plane = Workload { lost_nodes: vec!["n3".into()], ready: 2, ..healthy() };
    assert_eq!(of(&control_plane).0, ComponentHealth::Unhealthy);
}
