//! Helms that are told to end, and those whose operator ends.

use super::*;

/// A helm with a child that traps nothing: a signal ends that at any time, and helm, which goes on, tells.
const WITH_CHILD: &str = "wait_for_ever & trap : TERM; say started; while kill -0 $! 2>/dev/null; do wait $!; done; \
                          say \"grandchild is gone\"; wait_for_go; exit 1";

#[tokio::test]
async fn a_stop_reaches_the_whole_group_and_is_seen_in_the_table() {
    let mut theatre = theatre(WITH_CHILD).await;
    theatre.runner.start(upgrade("nova")).unwrap();
    assert!(!theatre.runner.stop(&key("other"), Stop::Asked));
    theatre.stage.hear().await;
    assert!(theatre.runner.stop(&key("nova"), Stop::Asked));
    assert!(theatre.runner.stop(&key("nova"), Stop::Shutdown), "asking twice is no error");
    assert_eq!(theatre.runner.table()[&key("nova")].stopping, Some(Stop::Asked));
    let runner = theatre.runner.clone();
    tokio::select! {
        said = theatre.stage.hear() => assert_eq!(said, "grandchild is gone"),
        outcome = next_outcome(&runner) => panic!("helm ended before its child: {outcome:?}"),
    }
    theatre.stage.go().await;
    let outcome = theatre.outcome().await;
    assert_eq!(outcome.exit, Exit::Stopped { why: Stop::Asked, killed: false });
    assert_eq!((outcome.failure, outcome.text.as_str()), (None, "it was stopped for newer inputs"));
}

#[tokio::test]
async fn a_helm_that_ignores_sigterm_is_killed_after_the_grace() {
    let config = Config { grace: Duration::from_millis(1), wrapper: None, ..Config::default() };
    let mut theatre = theatre_with("trap '' TERM; say started; while :; do wait_for_go; done", config).await;
    theatre.runner.start(upgrade("nova")).unwrap();
    theatre.stage.hear().await;
    theatre.runner.stop(&key("nova"), Stop::Asked);
    assert_eq!(theatre.outcome().await.exit, Exit::Stopped { why: Stop::Asked, killed: true });
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_stopped() {
    let theatre = theatre("wait_for_ever").await;
    let outcome = theatre.run(Job { deadline: Duration::from_millis(1), ..upgrade("nova") }).await;
    assert_eq!(outcome.exit, Exit::Stopped { why: Stop::Deadline, killed: false });
}

#[tokio::test]
async fn a_helm_that_is_through_when_the_stop_comes_has_succeeded() {
    let mut theatre = theatre("wait_for_ever & trap 'exit 0' TERM; say started; wait").await;
    theatre.runner.start(upgrade("nova")).unwrap();
    theatre.stage.hear().await;
    theatre.runner.stop(&key("nova"), Stop::Asked);
    assert!(theatre.outcome().await.succeeded());
}

#[tokio::test]
async fn a_shutdown_stops_everything_waits_for_it_and_starts_nothing_more() {
    let mut theatre = theatre("say started; wait_for_ever").await;
    theatre.runner.start(upgrade("a")).unwrap();
    theatre.runner.start(upgrade("b")).unwrap();
    theatre.stage.hear().await;
    theatre.stage.hear().await;
    theatre.runner.shutdown().await;
    assert!(theatre.runner.table().is_empty());
    let exits: Vec<Exit> = theatre.runner.take_outcomes().into_iter().map(|outcome| outcome.exit).collect();
    assert_eq!(
        exits,
        [Exit::Stopped { why: Stop::Shutdown, killed: false }, Exit::Stopped { why: Stop::Shutdown, killed: false }]
    );
    assert_eq!(theatre.runner.start(upgrade("c")), Err(Refused::Closing));
    theatre.runner.shutdown().await;
}

/// What [`children_end_with_an_operator_that_is_killed`] starts and kills: an operator with one child.
#[tokio::test]
#[ignore = "only another test starts it"]
async fn an_operator_with_one_child() {
    let home = PathBuf::from(std::env::var_os("OSDPL_TEST_HOME").unwrap());
    let program = Program::find(Some(fake::helm()), home).await.unwrap();
    let config = Config { wrapper: Some(fake::wrapper()), ..Config::default() };
    let runner = Runner::new(program, config, Instance::of_this_process(None).unwrap()).unwrap();
    runner.start(upgrade("nova")).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn children_end_with_an_operator_that_is_killed() {
    let mut stage = Stage::of("wait_for_ever & trap 'kill $!; say terminated; exit 1' TERM; say \"$*\"; wait");
    let arguments =
        ["--exact", "helm::runner::tests::endings::an_operator_with_one_child", "--ignored", "--test-threads=1"];
    #[allow(clippy::disallowed_methods, reason = "the test is its own operator")]
    let mut operator = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(arguments.map(OsString::from))
        .env("OSDPL_TEST_HOME", stage.home.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(stage.hear().await.starts_with("upgrade --install "));
    operator.kill().await.unwrap();
    assert_eq!(stage.hear().await, "terminated");
}
