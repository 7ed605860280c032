//! Tests of the whole cloud: when they run, how they ended, and where to look.

use cluster::Rule;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use osdpl_core::api::{OpenStackDeployment, TestStatus, reason};
use serde_json::json;

use crate::cloud::{Told, services};
use crate::world::{World, story};

const CRON: &str = "tempest-run-tests";

/// As `status.tests` calls them.
const TESTS: &str = "tempest/run-tests";

/// What the status says of them.
fn told(cloud: &OpenStackDeployment) -> TestStatus {
    cloud.status().tests.get(TESTS).cloned().unwrap_or_default()
}

impl World {
    /// Has them run once, as a person does, and waits until the status tells how that ended.
    async fn tested(&self, job: &str, passed: bool) -> OpenStackDeployment {
        self.run_now(CRON, job).await;
        let name = format!("{}/{job}", self.namespace);
        let ended = |cloud: &OpenStackDeployment| {
            let told = told(cloud);
            (told.job.as_ref() == Some(&name) && told.passed == Some(passed)).then(|| cloud.clone())
        };
        self.until(&format!("the status tells how {job} ended"), ended).await
    }

    /// What `osdpl status` says of tests.
    fn shown(&self) -> String {
        let text = self.osdpl(&["status"]);
        let (_, tests) = text.split_once("\nTests:\n").unwrap_or_else(|| panic!("no tests in {text}"));
        tests.split("\n\n").next().unwrap_or_default().trim_end().to_owned() + "\n"
    }
}

#[test]
fn how_tempests_runs_ended_is_told_by_the_status_also_when_their_jobs_are_gone() {
    story("tempest", async |world| {
        let _operator = world.operator().start().await;
        let mut spec = services(&["keystone", "mariadb", "memcached", "rabbitmq", "tempest"]);
        spec["features"] = json!({"tests": {"schedule": "30 2 * * *"}});
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let results = told(&cloud).results;
        assert_eq!(told(&cloud), TestStatus { results: results.clone(), ..TestStatus::default() });
        assert_eq!(world.api::<CronJob>().get(CRON).await.unwrap().spec.schedule, "30 2 * * *");
        assert_eq!(world.shown(), format!("  {TESTS:<22} has not run yet\n      see {results}\n"));
        let claim = "claim pvc-tempest";
        assert!(results.contains(claim), "{results}");
        world.api::<PersistentVolumeClaim>().get("pvc-tempest").await.unwrap();

        let cloud = world.tested("first", true).await;
        let (jobs, job) = (world.api::<Job>(), format!("{}/first", world.namespace));
        let ended = jobs.get("first").await.unwrap().status.unwrap().completion_time;
        let good = TestStatus {
            passed: Some(true),
            time: ended,
            job: Some(job),
            reason: String::new(),
            results: results.clone(),
        };
        assert_eq!(told(&cloud), good);
        let time = good.time.as_ref().unwrap().0;
        let shown = |result: &str, job: &str| {
            format!("  {TESTS:<22} {result}\n      see log of Job {}/{job}, {results}\n", world.namespace)
        };
        assert_eq!(world.shown(), shown(&format!("passed at {time:.0}"), "first"));

        let fault = Rule { exit_code: Some(1), ..Rule::new(&world.namespace, "second", "fail") };
        world.cluster().behaviour("tests-fail", &fault).await.unwrap();
        let cloud = world.tested("second", false).await;
        let bad = told(&cloud);
        assert!(bad.reason.starts_with("BackoffLimitExceeded: ") && bad.time.is_some(), "{bad:?}");
        let failed = shown(&format!("failed ({}) at {:.0}", bad.reason, bad.time.as_ref().unwrap().0), "second");
        assert_eq!(world.shown(), failed);
        assert!(cloud.is_ready(), "nothing waits for tests");
        let tells =
            |cloud: &OpenStackDeployment| (cloud.condition("Degraded")?.reason == reason::CRON_JOBS).then_some(());
        world.until("the condition tells it", tells).await;

        // Its Job is collected one day, as that of each run is; an older one's may still be there then.
        for job in ["second", "first"] {
            jobs.delete(job, &DeleteParams::background()).await.unwrap();
            world.until_object::<Job>(&format!("{job} is gone"), job, |found| found.is_none()).await;
        }
        let quiet =
            |cloud: &OpenStackDeployment| (cloud.condition("Degraded")?.status == "False").then(|| cloud.clone());
        let cloud = world.until("nothing fails any more", quiet).await;
        assert_eq!(told(&cloud), bad, "its Job was collected, and it failed all the same");
        assert_eq!(world.shown(), failed);

        world.cluster().mend("tests-fail").await.unwrap();
        let cloud = world.tested("third", true).await;
        assert_eq!(told(&cloud).reason, "");
    });
}
