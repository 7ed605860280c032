//! Tests how helm processes end after the operator has stopped them, or when the operator itself ends.

use super::*;

/// The script of a fake helm that starts a child process. The child ends on SIGTERM. The fake helm itself ignores
/// SIGTERM, and reports when the child has ended.
const WITH_GRANDCHILD: &str = "wait_for_ever & trap : TERM; report started; while kill -0 $! 2>/dev/null; do wait $!; done; \
                          report \"grandchild is gone\"; wait_for_go; exit 1";

#[tokio::test]
async fn stops_the_whole_process_group() {
    let mut fixture = fixture(WITH_GRANDCHILD).await;
    fixture.runner.start(upgrade("nova")).unwrap();
    assert!(!fixture.runner.stop(&key("other"), StopReason::Requested));
    fixture.helm.receive().await;
    assert!(fixture.runner.stop(&key("nova"), StopReason::Requested));
    assert!(fixture.runner.stop(&key("nova"), StopReason::Shutdown), "a second request to stop is accepted");
    assert_eq!(fixture.runner.table()[&key("nova")].stopping, Some(StopReason::Requested));
    let runner = fixture.runner.clone();
    tokio::select! {
        message = fixture.helm.receive() => assert_eq!(message, "grandchild is gone"),
        outcome = next_outcome(&runner) => panic!("helm ended before its child: {outcome:?}"),
    }
    fixture.helm.go().await;
    let outcome = fixture.outcome().await;
    assert_eq!(outcome.exit, Exit::Stopped { why: StopReason::Requested, killed: false });
    assert_eq!(
        (outcome.failure, outcome.text.as_str()),
        (None, "osdpl stopped helm because the operation was outdated")
    );
}

#[tokio::test]
async fn kills_a_helm_that_ignores_sigterm() {
    let config = Config { grace: Duration::from_millis(1), wrapper: None, ..Config::default() };
    let mut fixture = fixture_with("trap '' TERM; report started; while :; do wait_for_go; done", config).await;
    fixture.runner.start(upgrade("nova")).unwrap();
    fixture.helm.receive().await;
    fixture.runner.stop(&key("nova"), StopReason::Requested);
    assert_eq!(fixture.outcome().await.exit, Exit::Stopped { why: StopReason::Requested, killed: true });
}

#[tokio::test]
async fn stops_a_process_after_its_deadline() {
    let fixture = fixture("wait_for_ever").await;
    let outcome = fixture.run(Job { deadline: Duration::from_millis(1), ..upgrade("nova") }).await;
    assert_eq!(outcome.exit, Exit::Stopped { why: StopReason::Deadline, killed: false });
}

#[tokio::test]
async fn a_helm_that_ends_well_on_sigterm_has_succeeded() {
    let mut fixture = fixture("wait_for_ever & trap 'exit 0' TERM; report started; wait").await;
    fixture.runner.start(upgrade("nova")).unwrap();
    fixture.helm.receive().await;
    fixture.runner.stop(&key("nova"), StopReason::Requested);
    assert!(fixture.outcome().await.succeeded());
}

#[tokio::test]
async fn shutdown_stops_all_processes_and_refuses_jobs() {
    let mut fixture = fixture("report started; wait_for_ever").await;
    fixture.runner.start(upgrade("a")).unwrap();
    fixture.runner.start(upgrade("b")).unwrap();
    fixture.helm.receive().await;
    fixture.helm.receive().await;
    fixture.runner.shutdown().await;
    assert!(fixture.runner.table().is_empty());
    let exits: Vec<Exit> = fixture.runner.take_outcomes().into_iter().map(|outcome| outcome.exit).collect();
    assert_eq!(
        exits,
        [
            Exit::Stopped { why: StopReason::Shutdown, killed: false },
            Exit::Stopped { why: StopReason::Shutdown, killed: false }
        ]
    );
    assert_eq!(fixture.runner.start(upgrade("c")), Err(JobRejection::Closing));
    fixture.runner.shutdown().await;
}

/// Not a real test: [`helm_ends_with_its_killed_operator`] starts it as an operator process, and kills it. This
/// operator process runs one helm process.
#[tokio::test]
#[ignore = "helm_ends_with_its_killed_operator runs it"]
async fn an_operator_with_one_child() {
    let home = PathBuf::from(std::env::var_os("OSDPL_TEST_HOME").unwrap());
    let program = Program::find(Some(fake::helm()), home).await.unwrap();
    let config = Config { wrapper: Some(fake::wrapper()), ..Config::default() };
    let runner = Runner::new(program, config, Instance::of_this_process(None).unwrap()).unwrap();
    runner.start(upgrade("nova")).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn helm_ends_with_its_killed_operator() {
    let mut helm =
        FakeHelm::with_script("wait_for_ever & trap 'kill $!; report terminated; exit 1' TERM; report \"$*\"; wait");
    let arguments =
        ["--exact", "helm::runner::tests::endings::an_operator_with_one_child", "--ignored", "--test-threads=1"];
    #[allow(clippy::disallowed_methods, reason = "the test starts its own program as the operator process")]
    let mut operator = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(arguments.map(OsString::from))
        .env("OSDPL_TEST_HOME", helm.home.path())
        .spawn()
        .unwrap();
    let started = tokio::select! {
        message = helm.receive() => message,
        ended = operator.wait() => panic!("the operator ended: {ended:?}; its output says why"),
    };
    assert!(started.starts_with("upgrade --install "), "{started}");
    operator.kill().await.unwrap();
    assert_eq!(helm.receive().await, "terminated");
}
