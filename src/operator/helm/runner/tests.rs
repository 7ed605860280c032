use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::super::fake::{self, FakeHelm};
use super::super::{ApplyMode, Uninstall, Upgrade, Verb};
use super::*;

mod endings;

const LONG: Duration = Duration::from_hours(1);

struct Fixture {
    helm: FakeHelm,
    runner: Runner,
}

async fn fixture(script: &str) -> Fixture {
    fixture_with(script, Config { wrapper: None, ..Config::default() }).await
}

async fn fixture_with(script: &str, config: Config) -> Fixture {
    let helm = FakeHelm::with_script(script);
    let runner = helm.runner(config).await;
    Fixture { helm, runner }
}

fn key(name: &str) -> ReleaseKey {
    ReleaseKey::new("cloud", name)
}

fn upgrade(name: &str) -> Job {
    let upgrade = Upgrade {
        chart: format!("/charts/{name}.tgz").into(),
        values: json!({"password": "hunter22", "replicas": 3, "gone": null}),
        hook_timeout: Duration::from_mins(10),
        apply: ApplyMode::Server,
        inputs: "0a1b".into(),
        catalog: "c0de".into(),
        images: "1ma9e5".into(),
        instances: None,
        split: None,
        baseline: 0,
        chart_identity: None,
        hooks: None,
        skip_hooks: false,
        catalog_name: "identity".into(),
    };
    Job {
        release: key(name),
        operation: Operation::Upgrade(Box::new(upgrade)),
        revision: 4,
        deadline: LONG,
        scrubber: Arc::new(Scrubber::new(["hunter22"])),
    }
}

/// Waits until a helm process has ended, and returns its outcome.
async fn next_outcome(runner: &Runner) -> Outcome {
    let mut changes = runner.changes();
    loop {
        let mut outcomes = runner.take_outcomes();
        assert!(outcomes.len() < 2, "{outcomes:?}");
        if let Some(outcome) = outcomes.pop() {
            return outcome;
        }
        changes.changed().await.unwrap();
    }
}

impl Fixture {
    /// Waits until a helm process of this fixture has ended, and returns its outcome.
    async fn outcome(&self) -> Outcome {
        next_outcome(&self.runner).await
    }

    async fn run(&self, job: Job) -> Outcome {
        self.runner.start(job).unwrap();
        self.outcome().await
    }
}

#[tokio::test]
async fn passes_values_only_on_stdin_as_json_with_a_final_newline() {
    let fixture = fixture("cat >\"$home/stdin\"; printf '%s\\n' \"$@\" >\"$home/argv\"; env >\"$home/env\"").await;
    let attempt = fixture.runner.start(upgrade("keystone")).unwrap();
    let outcome = fixture.outcome().await;
    assert!(outcome.succeeded());
    assert_eq!((outcome.text.as_str(), &outcome.failure, &outcome.attempt), ("", &None, &attempt));
    assert_eq!((attempt.revision(), attempt.instance()), (4, fixture.runner.instance().as_str()));
    assert_eq!(fixture.helm.read_file("stdin"), "{\"gone\":null,\"password\":\"hunter22\",\"replicas\":3}\n");
    let arguments = fixture.helm.read_file("argv");
    assert!(arguments.starts_with("upgrade\n--install\n"), "{arguments}");
    assert!(arguments.contains(&format!("osdpl.dev/attempt={attempt}\n")), "{arguments}");
    let environment = fixture.helm.read_file("env");
    assert!(environment.contains(&format!("OSDPL_INSTANCE={}\n", attempt.instance())), "{environment}");
    assert!(!arguments.contains("hunter22") && !environment.contains("hunter22"));
}

#[tokio::test]
async fn uninstalls_have_no_input() {
    let fixture = fixture("cat >\"$home/stdin\"; printf '%s ' \"$@\" >\"$home/argv\"").await;
    let uninstall = Uninstall { timeout: LONG, hooks: false };
    let outcome = fixture.run(Job { operation: Operation::Uninstall(uninstall), ..upgrade("keystone") }).await;
    assert!(outcome.succeeded());
    assert_eq!(fixture.helm.read_file("stdin"), "");
    assert!(fixture.helm.read_file("argv").starts_with("uninstall --timeout 3600s --no-hooks "));
}

#[tokio::test]
async fn runs_one_process_per_release() {
    let mut fixture = fixture("report started; wait_for_go").await;
    let attempt = fixture.runner.start(upgrade("keystone")).unwrap();
    assert_eq!(fixture.runner.start(upgrade("keystone")), Err(JobRejection::Busy));
    fixture.helm.receive().await;
    let table = fixture.runner.table();
    let running = &table[&key("keystone")];
    assert_eq!((running.verb, &running.attempt, running.stopping), (Verb::Upgrade, &attempt, None));
    assert_eq!(running.inputs.as_deref(), Some("0a1b"));
    fixture.helm.go().await;
    assert!(fixture.outcome().await.succeeded());
    assert!(fixture.runner.table().is_empty());
    fixture.helm.go().await;
    let next = fixture.run(upgrade("keystone")).await;
    assert_eq!(next.attempt.number(), attempt.number() + 1);
}

#[tokio::test]
async fn limits_slots_and_frees_them() {
    let config = Config { slots: 2, wrapper: None, ..Config::default() };
    let mut fixture = fixture_with("report \"${HOME##*/}\"; wait_for_go", config).await;
    fixture.runner.start(upgrade("a")).unwrap();
    fixture.runner.start(upgrade("b")).unwrap();
    assert_eq!(fixture.runner.start(upgrade("c")), Err(JobRejection::Full));
    let mut slots = [fixture.helm.receive().await, fixture.helm.receive().await];
    slots.sort();
    assert_eq!(slots, ["slot-0", "slot-1"]);
    assert_eq!(fixture.runner.free_slots(), 0);
    fixture.helm.go().await;
    fixture.outcome().await;
    assert_eq!(fixture.runner.free_slots(), 1);
    fixture.runner.start(upgrade("c")).unwrap();
    assert!(slots.contains(&fixture.helm.receive().await));
    fixture.runner.shutdown().await;
}

#[tokio::test]
async fn classifies_condenses_and_scrubs_errors() {
    let script = "cat >/dev/null; echo 'level=WARN noise' >&2; printf 'Error: UPGRADE FAILED: cannot patch \"nova-bootstrap\" with kind Job: \
                spec.template: Invalid value: {\"x\":\"' >&2; i=0; while [ $i -lt 800 ]; do printf 'hunter22,' >&2; i=$((i+1)); done; \
                echo '\"}: field is immutable: hunter22' >&2; exit 1";
    let outcome = fixture(script).await.run(upgrade("nova")).await;
    assert_eq!(outcome.exit, Exit::Failed(1));
    let Some(Failure::Immutable(objects)) = &outcome.failure else { panic!("{outcome:?}") };
    assert_eq!(objects[0].to_string(), "Job nova-bootstrap");
    assert_eq!(
        outcome.text,
        "cannot patch \"nova-bootstrap\" with kind Job: spec.template: Invalid value: …: field is immutable: [redacted]"
    );
}

#[tokio::test]
async fn bounds_long_output() {
    let script = "cat >/dev/null; yes 'noise' | head -c 3000000 >&2; echo 'Error: context canceled' >&2; exit 1";
    let outcome = fixture(script).await.run(upgrade("nova")).await;
    assert_eq!((outcome.failure, outcome.text.as_str()), (Some(Failure::Cancelled), "context canceled"));
}

#[tokio::test]
async fn survives_a_helm_that_reads_no_input() {
    let fixture = fixture("exec <&-; exit 3").await;
    let mut job = upgrade("nova");
    if let Operation::Upgrade(upgrade) = &mut job.operation {
        upgrade.values = json!("x".repeat(1_000_000));
    }
    assert_eq!(fixture.run(job).await.exit, Exit::Failed(3));
}

#[tokio::test]
async fn distinguishes_signals_from_failures() {
    let outcome = fixture("cat >/dev/null; echo half >&2; kill -9 $$").await.run(upgrade("nova")).await;
    assert_eq!((outcome.exit, outcome.failure), (Exit::Signalled(9), Some(Failure::Other)));
    assert_eq!(outcome.text, "helm was ended by signal 9: half");
}

#[tokio::test]
async fn a_missing_program_is_an_outcome() {
    let mut fixture = fixture("exit 0").await;
    let config = Config { wrapper: Some("/nowhere/osdpl".into()), ..Config::default() };
    let instance = fixture.runner.instance().clone();
    fixture.runner = Runner::new(fixture.runner.program().clone(), config, instance).unwrap();
    let outcome = fixture.run(upgrade("nova")).await;
    assert_eq!(outcome.exit, Exit::NotStarted);
    assert!(outcome.text.starts_with("helm did not start: No such file"), "{}", outcome.text);
}

#[tokio::test]
async fn a_grandchild_with_open_stderr_does_not_block() {
    let fixture =
        fixture("cat >/dev/null; echo 'Error: context canceled' >&2; sleep 1000 & echo $! >\"$home/pid\"; exit 1")
            .await;
    let outcome = fixture.run(upgrade("nova")).await;
    assert_eq!(outcome.failure, Some(Failure::Cancelled));
    let pid = fixture.helm.read_file("pid").trim().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn counts_processes_and_outcomes() {
    let fixture = fixture("cat >\"$home/x\"; case \"$*\" in *bad*) exit 1;; esac").await;
    fixture.run(upgrade("good")).await;
    fixture.run(upgrade("bad")).await;
    let counters = fixture.runner.counters().verbs[&Verb::Upgrade];
    assert_eq!((counters.started, counters.succeeded, counters.failed, counters.stopped), (2, 1, 1, 0));
}

#[tokio::test]
async fn debug_output_hides_values() {
    let mut fixture = fixture("report started; wait_for_ever").await;
    let job = upgrade("nova");
    let printed = format!("{job:?}");
    fixture.runner.start(job).unwrap();
    fixture.helm.receive().await;
    assert!(!format!("{printed} {:?}", fixture.runner).contains("hunter22"));
    fixture.runner.shutdown().await;
}
