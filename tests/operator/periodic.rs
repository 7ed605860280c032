//! Tests the CronJobs of charts. If a run fails, the status reports the failure, but the cloud stays Ready.

use cluster::Rule;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::{DeleteParams, PostParams};
use osdpl_core::api::{ComponentHealth, OpenStackDeployment, reason};
use serde_json::json;

use crate::cloud::StatusAccess;
use crate::world::{World, run_test};

const CRON: &str = "keystone-fernet-rotate";

impl World {
    /// Creates a Job from a CronJob at once, like `kubectl create job --from=cronjob/… NAME`.
    pub async fn run_now(&self, cron: &str, name: &str) {
        let cron = self.api::<CronJob>().get(cron).await.unwrap();
        let spec = cron.spec.job_template.spec.clone();
        let metadata = json!({"name": name, "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": cron.metadata.name, "controller": true,
                "uid": cron.metadata.uid}]});
        let job: Job = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        self.api::<Job>().create(&PostParams::default(), &job).await.unwrap();
    }
}

#[test]
fn failing_cron_job_degrades_but_stays_ready() {
    run_test("cron-fails", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&world.keystone().await).await;
        let cloud = world.until_ready().await;
        let rotate = cloud.status().health["keystone"]["fernet-rotate"].clone();
        assert_eq!((rotate.status, rotate.ready.as_str()), (ComponentHealth::Ready, "0/0"));
        let fault = Rule { exit_code: Some(3), ..Rule::new(&world.namespace, "manual-run", "fail") };
        world.cluster().behaviour("rotate", &fault).await.unwrap();
        world.run_now(CRON, "manual-run").await;
        let cloud = world
            .until("the Degraded condition reports the failing CronJob", |cloud| {
                (cloud.condition("Degraded")?.reason == reason::CRON_JOBS).then(|| cloud.clone())
            })
            .await;
        assert!(cloud.is_ready(), "the cloud must stay Ready when a CronJob fails");
        let rotate = cloud.status().health["keystone"]["fernet-rotate"].clone();
        assert_eq!((rotate.status, rotate.ready.as_str()), (ComponentHealth::Degraded, "0/1"));
        let prefix = format!("CronJob {CRON}: its Job manual-run makes no progress: manual-run-");
        assert!(rotate.reason.starts_with(&prefix) && rotate.reason.contains("exit code 3"), "{}", rotate.reason);
        assert_eq!(cloud.condition("Degraded").unwrap().message, rotate.reason);
        let causes = cloud.status().causes;
        assert_eq!((causes.len(), causes[0].message.as_str()), (1, rotate.reason.as_str()));
        let objects: Vec<_> = causes[0].objects.iter().map(ToString::to_string).collect();
        assert_eq!(
            objects,
            [format!("CronJob {0}/{CRON}", world.namespace), format!("Job {0}/manual-run", world.namespace)]
        );

        world.cluster().remove_rule("rotate").await.unwrap();
        world.api::<Job>().delete("manual-run", &DeleteParams::background()).await.unwrap();
        world.run_now(CRON, "second-run").await;
        let is_healthy = |cloud: &OpenStackDeployment| {
            let rotate = cloud.status().health["keystone"]["fernet-rotate"].clone();
            let has_no_cause = cloud.condition("Degraded")?.status == "False" && cloud.status().causes.is_empty();
            (has_no_cause && rotate.status == ComponentHealth::Ready).then_some(())
        };
        world.until("the CronJob is healthy again", is_healthy).await;
    });
}
