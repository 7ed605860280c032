use super::*;
use crate::catalog::Component;
use crate::observed::Trouble;

/// A Deployment of three pods, all as wanted.
fn whole() -> Workload {
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
        outdated: 0,
        was_available: true,
        selects: String::new(),
        misscheduled: 0,
        lost_nodes: Vec::new(),
        trouble: None,
    }
}

fn with(change: impl FnOnce(&mut Workload)) -> Workload {
    let mut workload = whole();
    change(&mut workload);
    workload
}

fn trouble(stuck: bool) -> Trouble {
    Trouble { stuck, message: "neutron-server-x: why".into() }
}

/// A `DaemonSet` on so many nodes.
fn on_nodes(nodes: i32) -> Workload {
    with(|workload| {
        workload.kind = WorkloadKind::DaemonSet;
        (workload.desired, workload.ready, workload.updated) = (nodes, nodes, nodes);
    })
}

#[test]
fn each_situation_of_a_workload_has_one_verdict() {
    use ComponentVerdict::{Progressing, Ready, Unhealthy, Unknown};
    for (workload, status, ready, reason) in [
        (whole(), Ready, "3/3", ""),
        (with(|w| w.trouble = Some(trouble(true))), Ready, "3/3", ""),
        (with(|w| (w.desired, w.ready, w.updated) = (0, 0, 0)), Ready, "0/0", ""),
        (with(|w| w.generation = 5), Progressing, "3/3", "its controller has not seen generation 5 yet"),
        (with(|w| (w.ready, w.was_available) = (1, false)), Progressing, "1/3", ""),
        (with(|w| w.ready = 1), Unhealthy, "1/3", "not all of its pods are ready any more"),
        (with(|w| w.updated = 2), Progressing, "3/3", "2 of 3 pods are of the newest template"),
        (with(|w| w.outdated = 2), Progressing, "3/3", "2 pods of an older template are still there"),
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
        (on_nodes(0), Unknown, "0/0", "no node is one that its DaemonSet selects"),
        (on_nodes(2), Ready, "2/2", ""),
    ] {
        let expected = ComponentStatus {
            status,
            generation: Some(workload.generation),
            ready: ready.into(),
            reason: reason.into(),
        };
        assert_eq!(verdict(&workload), expected, "{workload:?}");
    }
}

#[test]
fn one_ready_pod_meets_a_need_and_none_does_not() {
    for (workload, expected) in [
        (whole(), true),
        (with(|w| (w.ready, w.updated, w.generation) = (1, 0, 9)), true),
        (with(|w| w.ready = 0), false),
        // Scaled down: the last pod is about to go.
        (with(|w| (w.desired, w.ready) = (0, 1)), false),
        (on_nodes(0), false),
        (on_nodes(1), true),
    ] {
        assert_eq!(available(&workload), expected, "{workload:?}");
    }
}

#[test]
fn a_daemon_set_has_no_nodes_only_once_its_controller_has_looked() {
    assert!(has_no_nodes(&on_nodes(0)));
    assert!(!has_no_nodes(&on_nodes(1)));
    let unseen = Workload { observed_generation: 0, ..on_nodes(0) };
    assert!(!has_no_nodes(&unseen));
    assert_eq!(verdict(&unseen).status, ComponentVerdict::Progressing);
    assert!(!has_no_nodes(&with(|w| w.desired = 0)));
}

#[test]
fn a_component_is_as_good_as_its_worst_workload_and_counts_them_all() {
    let missing = with(|w| (w.ready, w.was_available) = (1, false));
    let broken = with(|w| (w.ready, w.trouble) = (0, Some(trouble(true))));
    let of = |workloads: &[&Workload]| {
        let ComponentStatus { status, ready, reason, .. } = aggregate(workloads);
        (status, ready, reason)
    };
    assert_eq!(of(&[&whole(), &whole()]), (ComponentVerdict::Ready, "6/6".into(), String::new()));
    assert_eq!(of(&[&whole(), &missing]), (ComponentVerdict::Progressing, "4/6".into(), String::new()));
    assert_eq!(
        of(&[&missing, &broken, &whole()]),
        (ComponentVerdict::Unhealthy, "4/9".into(), "neutron-server-x: why".into())
    );
    assert_eq!(of(&[]), (ComponentVerdict::Unknown, "0/0".into(), NOT_SEEN.into()));
}

#[test]
fn a_default_daemon_set_emptied_by_per_node_overrides_does_not_count() {
    assert_eq!(aggregate(&[&on_nodes(0), &on_nodes(2)]).status, ComponentVerdict::Ready);
    let alone = aggregate(&[&on_nodes(0)]);
    assert_eq!(
        (alone.status, alone.reason.as_str()),
        (ComponentVerdict::Unknown, "no node is one that its DaemonSet selects")
    );
}

#[test]
fn each_situation_of_a_job_has_one_verdict() {
    let running = JobSeen {
        namespace: "openstack".into(),
        name: "nova-db-sync".into(),
        release: "nova".into(),
        complete: false,
        failed: false,
        failures: 0,
        trouble: None,
    };
    let said = || "neutron-server-x: why".to_owned();
    for (seen, expected) in [
        (running.clone(), JobVerdict::Running(String::new())),
        (JobSeen { trouble: Some(trouble(false)), ..running.clone() }, JobVerdict::Running(said())),
        (JobSeen { trouble: Some(trouble(true)), ..running.clone() }, JobVerdict::Failing(said())),
        (JobSeen { failures: 2, ..running.clone() }, JobVerdict::Failing("2 of its pods have failed".into())),
        (JobSeen { failed: true, failures: 7, ..running.clone() }, JobVerdict::Failed("it has failed".into())),
        (JobSeen { failed: true, trouble: Some(trouble(true)), ..running.clone() }, JobVerdict::Failed(said())),
        (JobSeen { complete: true, failures: 3, trouble: Some(trouble(true)), ..running }, JobVerdict::Complete),
    ] {
        assert_eq!(job(&seen), expected, "{seen:?}");
    }
}

#[test]
fn a_daemon_set_that_only_misses_nodes_which_are_not_there_is_degraded_and_names_them() {
    let lost = |nodes: &[&str], ready: i32| Workload {
        lost_nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        ready,
        trouble: Some(trouble(false)),
        ..on_nodes(50)
    };
    let of = |workload: &Workload| {
        let ComponentStatus { status, ready, reason, .. } = verdict(workload);
        (status, ready, reason)
    };
    let degraded = |ready: &str, reason: &str| (ComponentVerdict::Degraded, ready.to_owned(), reason.to_owned());
    assert_eq!(of(&lost(&["n3"], 49)), degraded("49/50", "node n3 is NotReady"));
    let four = ["a", "b", "c", "d"];
    assert_eq!(of(&lost(&four, 46)), degraded("46/50", "nodes a, b, c and 1 more are NotReady"));
    assert_eq!(of(&lost(&["n3"], 48)).0, ComponentVerdict::Unhealthy, "one more is missing elsewhere");
    assert_eq!(of(&Workload { desired: 1, updated: 1, ..lost(&["n3"], 0) }).0, ComponentVerdict::Unhealthy);
    let control_plane = Workload { lost_nodes: vec!["n3".into()], ready: 2, ..whole() };
    assert_eq!(of(&control_plane).0, ComponentVerdict::Unhealthy);
}
