use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::super::fake::{self, Stage};
use super::super::{Apply, Uninstall, Upgrade};
use super::*;

mod endings;

const LONG: Duration = Duration::from_hours(1);

struct Theatre {
    stage: Stage,
    runner: Runner,
}

async fn theatre(play: &str) -> Theatre {
    theatre_with(play, Config { wrapper: None, ..Config::default() }).await
}

async fn theatre_with(play: &str, config: Config) -> Theatre {
    let stage = Stage::of(play);
    let instance = Instance::of_this_process(None).unwrap();
    let runner = Runner::new(stage.program().await, config, instance).unwrap();
    Theatre { stage, runner }
}

fn key(name: &str) -> Key {
    Key::new("cloud", name)
}

fn upgrade(name: &str) -> Job {
    let upgrade = Upgrade {
        chart: format!("/charts/{name}.tgz").into(),
        values: json!({"password": "hunter22", "replicas": 3, "gone": null}),
        hook_timeout: Duration::from_mins(10),
        apply: Apply::Server,
        inputs: "0a1b".into(),
        catalog: "c0de".into(),
        images: "1ma9e5".into(),
        guests: None,
        split: None,
        catalog_name: "identity".into(),
    };
    Job {
        release: key(name),
        verb: Verb::Upgrade(upgrade),
        revision: 4,
        deadline: LONG,
        scrubber: Arc::new(Scrubber::new(["hunter22"])),
    }
}

/// The next run that ends.
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

impl Theatre {
    /// The next run that ends.
    async fn outcome(&self) -> Outcome {
        next_outcome(&self.runner).await
    }

    async fn run(&self, job: Job) -> Outcome {
        self.runner.start(job).unwrap();
        self.outcome().await
    }
}

#[tokio::test]
async fn values_reach_helm_on_stdin_alone_as_json_with_a_final_newline() {
    let theatre = theatre("cat >\"$home/stdin\"; printf '%s\\n' \"$@\" >\"$home/argv\"; env >\"$home/env\"").await;
    let attempt = theatre.runner.start(upgrade("keystone")).unwrap();
    let outcome = theatre.outcome().await;
    assert!(outcome.succeeded());
    assert_eq!((outcome.text.as_str(), &outcome.failure, &outcome.attempt), ("", &None, &attempt));
    assert_eq!((attempt.revision(), attempt.instance()), (4, theatre.runner.instance().as_str()));
    assert_eq!(theatre.stage.left("stdin"), "{\"gone\":null,\"password\":\"hunter22\",\"replicas\":3}\n");
    let arguments = theatre.stage.left("argv");
    assert!(arguments.starts_with("upgrade\n--install\n"), "{arguments}");
    assert!(arguments.contains(&format!("osdpl.dev/attempt={attempt}\n")), "{arguments}");
    let environment = theatre.stage.left("env");
    assert!(environment.contains(&format!("OSDPL_INSTANCE={}\n", attempt.instance())), "{environment}");
    assert!(!arguments.contains("hunter22") && !environment.contains("hunter22"));
}

#[tokio::test]
async fn an_uninstall_has_nothing_to_read() {
    let theatre = theatre("cat >\"$home/stdin\"; printf '%s ' \"$@\" >\"$home/argv\"").await;
    let uninstall = Uninstall { timeout: LONG, hooks: false };
    let outcome = theatre.run(Job { verb: Verb::Uninstall(uninstall), ..upgrade("keystone") }).await;
    assert!(outcome.succeeded());
    assert_eq!(theatre.stage.left("stdin"), "");
    assert!(theatre.stage.left("argv").starts_with("uninstall --timeout 3600s --no-hooks "));
}

#[tokio::test]
async fn a_release_has_one_child_and_the_table_shows_it() {
    let mut theatre = theatre("say started; wait_for_go").await;
    let attempt = theatre.runner.start(upgrade("keystone")).unwrap();
    assert_eq!(theatre.runner.start(upgrade("keystone")), Err(Refused::Busy));
    theatre.stage.hear().await;
    let table = theatre.runner.table();
    let running = &table[&key("keystone")];
    assert_eq!((running.verb, &running.attempt, running.stopping), ("upgrade", &attempt, None));
    assert_eq!(running.inputs.as_deref(), Some("0a1b"));
    theatre.stage.go().await;
    assert!(theatre.outcome().await.succeeded());
    assert!(theatre.runner.table().is_empty());
    theatre.stage.go().await;
    let next = theatre.run(upgrade("keystone")).await;
    assert_eq!(next.attempt.number(), attempt.number() + 1);
}

#[tokio::test]
async fn slots_are_bounded_and_the_end_of_one_child_frees_its_place() {
    let config = Config { slots: 2, wrapper: None, ..Config::default() };
    let mut theatre = theatre_with("say \"${HOME##*/}\"; wait_for_go", config).await;
    theatre.runner.start(upgrade("a")).unwrap();
    theatre.runner.start(upgrade("b")).unwrap();
    assert_eq!(theatre.runner.start(upgrade("c")), Err(Refused::Full));
    let mut slots = [theatre.stage.hear().await, theatre.stage.hear().await];
    slots.sort();
    assert_eq!(slots, ["slot-0", "slot-1"]);
    assert_eq!(theatre.runner.free_slots(), 0);
    theatre.stage.go().await;
    theatre.outcome().await;
    assert_eq!(theatre.runner.free_slots(), 1);
    theatre.runner.start(upgrade("c")).unwrap();
    assert!(slots.contains(&theatre.stage.hear().await));
    theatre.runner.shutdown().await;
}

#[tokio::test]
async fn a_helm_that_fails_is_understood_and_its_words_are_clean_and_short() {
    let play = "cat >/dev/null; echo 'level=WARN noise' >&2; printf 'Error: UPGRADE FAILED: cannot patch \"nova-bootstrap\" with kind Job: \
                spec.template: Invalid value: {\"x\":\"' >&2; i=0; while [ $i -lt 800 ]; do printf 'hunter22,' >&2; i=$((i+1)); done; \
                echo '\"}: field is immutable: hunter22' >&2; exit 1";
    let outcome = theatre(play).await.run(upgrade("nova")).await;
    assert_eq!(outcome.exit, Exit::Failed(1));
    let Some(Failure::Immutable(objects)) = &outcome.failure else { panic!("{outcome:?}") };
    assert_eq!(objects[0].to_string(), "Job nova-bootstrap");
    assert_eq!(
        outcome.text,
        "cannot patch \"nova-bootstrap\" with kind Job: spec.template: Invalid value: …: field is immutable: [redacted]"
    );
}

#[tokio::test]
async fn endless_words_are_bounded() {
    let play = "cat >/dev/null; yes 'noise' | head -c 3000000 >&2; echo 'Error: context canceled' >&2; exit 1";
    let outcome = theatre(play).await.run(upgrade("nova")).await;
    assert_eq!((outcome.failure, outcome.text.as_str()), (Some(Failure::Cancelled), "context canceled"));
}

#[tokio::test]
async fn a_helm_that_reads_no_values_is_no_reason_to_hang_or_fail() {
    let theatre = theatre("exec <&-; exit 3").await;
    let mut job = upgrade("nova");
    if let Verb::Upgrade(upgrade) = &mut job.verb {
        upgrade.values = json!("x".repeat(1_000_000));
    }
    assert_eq!(theatre.run(job).await.exit, Exit::Failed(3));
}

#[tokio::test]
async fn a_helm_that_dies_half_way_is_told_from_one_that_fails() {
    let outcome = theatre("cat >/dev/null; echo half >&2; kill -9 $$").await.run(upgrade("nova")).await;
    assert_eq!((outcome.exit, outcome.failure), (Exit::Signalled(9), Some(Failure::Other)));
    assert_eq!(outcome.text, "helm was ended by signal 9: half");
}

#[tokio::test]
async fn a_program_that_vanished_is_an_outcome_and_no_panic() {
    let mut theatre = theatre("exit 0").await;
    let config = Config { wrapper: Some("/nowhere/osdpl".into()), ..Config::default() };
    let instance = theatre.runner.instance().clone();
    theatre.runner = Runner::new(theatre.runner.program().clone(), config, instance).unwrap();
    let outcome = theatre.run(upgrade("nova")).await;
    assert_eq!(outcome.exit, Exit::NotStarted);
    assert!(outcome.text.starts_with("helm did not start: No such file"), "{}", outcome.text);
}

#[tokio::test]
async fn a_grandchild_that_keeps_stderr_open_does_not_keep_the_release() {
    let theatre =
        theatre("cat >/dev/null; echo 'Error: context canceled' >&2; sleep 1000 & echo $! >\"$home/pid\"; exit 1")
            .await;
    let outcome = theatre.run(upgrade("nova")).await;
    assert_eq!(outcome.failure, Some(Failure::Cancelled));
    let pid = theatre.stage.left("pid").trim().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn the_tally_counts_what_was_started_and_how_it_ended() {
    let theatre = theatre("cat >\"$home/x\"; case \"$*\" in *bad*) exit 1;; esac").await;
    theatre.run(upgrade("good")).await;
    theatre.run(upgrade("bad")).await;
    let tally = theatre.runner.tally().verbs["upgrade"];
    assert_eq!((tally.started, tally.succeeded, tally.failed, tally.stopped), (2, 1, 1, 0));
}

#[tokio::test]
async fn nothing_that_can_be_printed_holds_the_values() {
    let mut theatre = theatre("say started; wait_for_ever").await;
    let job = upgrade("nova");
    let printed = format!("{job:?}");
    theatre.runner.start(job).unwrap();
    theatre.stage.hear().await;
    assert!(!format!("{printed} {:?}", theatre.runner).contains("hunter22"));
    theatre.runner.shutdown().await;
}
