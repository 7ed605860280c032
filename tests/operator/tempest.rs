//! Tests the service tempest. Its CronJob runs tests of the whole cloud. Checks the schedule of the CronJob, and the
//! test results in the status.

use cluster::Rule;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use osdpl_core::api::{OpenStackDeployment, TestStatus, reason};
use serde_json::json;

use crate::cloud::{BACKENDS, StatusAccess, services};
use crate::world::{World, run_test};

const CRON: &str = "tempest-run-tests";

/// The key of tempest's result in `status.tests`.
const TESTS: &str = "tempest/run-tests";

/// Returns tempest's result from the status; empty if there is none.
fn test_status(cloud: &OpenStackDeployment) -> TestStatus {
    cloud.status().tests.get(TESTS).cloned().unwrap_or_default()
}

impl World {
    /// Starts a Job of tempest's CronJob, and waits until the cloud's status says whether the Job's tests passed.
    async fn run_tests(&self, job: &str, passed: bool) -> OpenStackDeployment {
        self.run_now(CRON, job).await;
        let name = format!("{}/{job}", self.namespace);
        let ended = |cloud: &OpenStackDeployment| {
            let status = test_status(cloud);
            (status.job.as_ref() == Some(&name) && status.passed == Some(passed)).then(|| cloud.clone())
        };
        self.until(&format!("the status contains the result of {job}"), ended).await
    }

    /// Returns the section `Tests` of the output of `osdpl status`, without its title.
    fn status_section(&self) -> String {
        let text = self.osdpl(&["status"]);
        let (_, tests) =
            text.split_once("\nTests:\n").unwrap_or_else(|| panic!("osdpl status printed no section Tests: {text}"));
        tests.split("\n\n").next().unwrap_or_default().trim_end().to_owned() + "\n"
    }
}

async fn delete_jobs(world: &World, names: &[&str]) {
    let jobs = world.api::<Job>();
    for job in names {
        jobs.delete(job, &DeleteParams::background()).await.unwrap();
        world.until_object::<Job>(&format!("{job} is deleted"), job, |found| found.is_none()).await;
    }
}

/// Checks what the status of the cloud and the command `osdpl status` report before the first run of tempest's tests.
async fn check_before_first_run(world: &World, cloud: &OpenStackDeployment, results: &str) {
    assert_eq!(test_status(cloud), TestStatus { results: results.to_owned(), ..TestStatus::default() });
    assert_eq!(world.api::<CronJob>().get(CRON).await.unwrap().spec.schedule, "30 2 * * *");
    assert_eq!(world.status_section(), format!("  {TESTS:<22} has not run yet\n      see {results}\n"));
    let claim = "claim pvc-tempest";
    assert!(results.contains(claim), "{results}");
    world.api::<PersistentVolumeClaim>().get("pvc-tempest").await.unwrap();
}

#[test]
fn keeps_test_results_after_their_jobs_are_deleted() {
    run_test("tempest", async |world| {
        let _operator = world.operator().start().await;
        let mut spec = world.with_external(services(&["keystone", "tempest"]), &BACKENDS).await;
        spec["features"] = json!({"tests": {"schedule": "30 2 * * *"}});
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let results = test_status(&cloud).results;
        check_before_first_run(world, &cloud, &results).await;

        let cloud = world.run_tests("first", true).await;
        let (jobs, job) = (world.api::<Job>(), format!("{}/first", world.namespace));
        // The status must contain the time of the Job's condition. Kubernetes sets the Job's completion time
        // separately, so the completion time can differ.
        let conditions = jobs.get("first").await.unwrap().status.unwrap().conditions.unwrap();
        let ended =
            conditions.into_iter().find(|condition| condition.type_ == "Complete").unwrap().last_transition_time;
        let passed = TestStatus {
            passed: Some(true),
            time: ended,
            job: Some(job),
            reason: String::new(),
            results: results.clone(),
        };
        assert_eq!(test_status(&cloud), passed);
        let time = passed.time.as_ref().unwrap().0;
        let section = |result: &str, job: &str| {
            format!("  {TESTS:<22} {result}\n      see log of Job {}/{job}, {results}\n", world.namespace)
        };
        assert_eq!(world.status_section(), section(&format!("passed at {time:.0}"), "first"));

        let fault = Rule { exit_code: Some(1), ..Rule::new(&world.namespace, "second", "fail") };
        world.cluster().behaviour("tests-fail", &fault).await.unwrap();
        let cloud = world.run_tests("second", false).await;
        let failed_status = test_status(&cloud);
        assert!(
            failed_status.reason.starts_with("BackoffLimitExceeded: ") && failed_status.time.is_some(),
            "{failed_status:?}"
        );
        let failed = section(
            &format!("failed ({}) at {:.0}", failed_status.reason, failed_status.time.as_ref().unwrap().0),
            "second",
        );
        assert_eq!(world.status_section(), failed);
        assert!(cloud.is_ready(), "the cloud must stay Ready when tests fail");
        let is_reported =
            |cloud: &OpenStackDeployment| (cloud.condition("Degraded")?.reason == reason::CRON_JOBS).then_some(());
        world.until("the Degraded condition reports the failed tests", is_reported).await;

        // In a real cluster, the CronJob's controller deletes old Jobs. The status must keep the result of a failed Job
        // after the Job is deleted.
        delete_jobs(world, &["second", "first"]).await;
        let is_not_degraded =
            |cloud: &OpenStackDeployment| (cloud.condition("Degraded")?.status == "False").then(|| cloud.clone());
        let cloud = world.until("the Degraded condition is False", is_not_degraded).await;
        assert_eq!(test_status(&cloud), failed_status, "the status must keep the result after its Job is deleted");
        assert_eq!(world.status_section(), failed);

        world.cluster().remove_rule("tests-fail").await.unwrap();
        let cloud = world.run_tests("third", true).await;
        assert_eq!(test_status(&cloud).reason, "");
    });
}
