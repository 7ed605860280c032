//! Starts and stops clusters. Kills the supervisors of clusters, and their callers (the processes that started the
//! clusters). Checks that no process and no temporary folder is left.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use cluster::{Cluster, OPENSTACK_LABELS, Options, Process};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::help::in_time;

/// Returns the six processes that `state.json` in a cluster's folder lists, the supervisor first. Checks that all are
/// running.
fn processes(folder: &Path) -> Vec<Process> {
    let text = std::fs::read_to_string(folder.join("state.json")).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    let components = state["components"].as_object().unwrap().values();
    let all = std::iter::once(&state["supervisor"]).chain(components);
    let all: Vec<Process> = all.map(|process| serde_json::from_value(process.clone()).unwrap()).collect();
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(Process::is_alive), "{all:?}");
    all
}

fn assert_gone(processes: &[Process]) {
    for process in processes {
        assert!(
            process.wait_until_gone(Duration::from_secs(30)),
            "{process:?} is still running 30 s after its cluster was stopped"
        );
    }
}

fn wait_until_removed(folder: &Path) {
    let mut tries = 0..1_000;
    while folder.exists() {
        assert!(tries.next().is_some(), "the supervisor has not removed {} within 10 s", folder.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cluster"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn two_clusters_run_and_stop_independently() {
    let (first, second) = tokio::join!(Cluster::start(Options::default()), Cluster::start(Options::default()));
    let (first, second) = (first.unwrap(), second.unwrap());
    let of_both: Vec<Process> = [&first, &second].into_iter().flat_map(|one| processes(one.folder().path())).collect();

    let nodes: Api<Node> = Api::all(first.client());
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["node-1", "node-2", "node-3"]);
    for label in OPENSTACK_LABELS {
        assert!(nodes.iter().all(|node| node.labels()[label] == "enabled"), "{label}");
    }

    let only_here: Namespace = serde_json::from_value(json!({ "metadata": { "name": "only-here" } })).unwrap();
    Api::all(first.client()).create(&PostParams::default(), &only_here).await.unwrap();
    let elsewhere: Api<Namespace> = Api::all(second.client());
    assert!(elsewhere.get_opt("only-here").await.unwrap().is_none());

    let folders = [&first, &second].map(|one| one.folder().path().to_path_buf());
    drop((first, second));
    assert_gone(&of_both);
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
}

/// Starts a cluster and never ends. The test `killed_caller_leaves_nothing` runs this function in a separate process,
/// and kills that process.
#[tokio::test]
#[ignore = "not a test: the test killed_caller_leaves_nothing runs this function in a process and kills the process"]
async fn hold_a_cluster_until_killed() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    println!("\nfolder {}", cluster.folder().path().display());
    std::future::pending::<()>().await;
}

#[test]
fn killed_caller_leaves_nothing() {
    let mut caller = Command::new(std::env::current_exe().unwrap());
    caller.args(["--exact", "lifecycle::hold_a_cluster_until_killed", "--ignored", "--nocapture"]);
    let mut caller = caller.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(caller.stdout.take().unwrap()).lines();
    let folder = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("folder ").map(PathBuf::from)).unwrap();
    let processes = processes(&folder);
    caller.kill().unwrap();
    caller.wait().unwrap();
    assert_gone(&processes);
    wait_until_removed(&folder);
}

#[tokio::test]
async fn killed_supervisor_stops_its_programs() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let folder = cluster.folder().path().to_path_buf();
    let processes = processes(&folder);
    processes[0].signal(Signal::KILL);
    assert_gone(&processes[1..]);
    drop(cluster);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn up_and_down_are_idempotent() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("a").join("b");
    let folder_text = folder.to_str().unwrap();
    let up = run(&["up", folder_text, "--nodes", "1"]);
    assert!(up.status.success(), "{}", text(&up.stderr));
    let first = processes(&folder);

    let again = run(&["up", folder_text]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(processes(&folder), first);

    let environment = run(&["env", folder_text]);
    let expected = format!("export KUBECONFIG={folder_text}/kubeconfig\nexport PATH={folder_text}/bin:$PATH\n");
    assert_eq!(text(&environment.stdout), expected);

    assert_eq!(text(&run(&["down", folder_text]).stdout), "down\n");
    assert_gone(&first);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    assert_eq!(text(&run(&["down", folder_text]).stdout), "no cluster was running\n");
}

#[tokio::test]
async fn emulates_an_older_kubernetes() {
    let options = Options { emulated_version: Some("1.33".into()), ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pod = json!({ "metadata": { "name": "old" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    in_time("the pod running", await_condition(pods, "old", conditions::is_pod_running())).await.unwrap();
}

#[test]
fn refuses_a_folder_with_other_files() {
    let temporary = tempfile::tempdir().unwrap();
    let precious = temporary.path().join("precious");
    std::fs::write(&precious, "data").unwrap();
    let folder = temporary.path().to_str().unwrap();
    let up = run(&["up", folder]);
    assert!(!up.status.success());
    assert!(text(&up.stderr).contains("neither empty nor the folder of a cluster"), "{}", text(&up.stderr));
    assert_eq!(text(&run(&["down", folder]).stdout), "no cluster was running\n");
    assert_eq!(std::fs::read_to_string(precious).unwrap(), "data");
}

#[test]
fn names_the_command_for_a_missing_cluster() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().to_str().unwrap();
    let answer = run(&["env", folder]);
    assert!(!answer.status.success());
    assert_eq!(
        text(&answer.stderr),
        format!("cluster: no cluster runs in {folder}: start one with `cluster up {folder}`\n")
    );
}
