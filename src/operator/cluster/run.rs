//! A `CronJob` that is run at once.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::{Cluster, Error, Explain};

/// What kubectl writes on a Job that it makes of a `CronJob` (`kubectl create job --from`).
const INSTANTIATE: &str = "cronjob.kubernetes.io/instantiate";

/// Whether a Job was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Just now.
    Now,
    /// It was there already.
    Before,
    /// There is no such `CronJob`.
    Nothing,
}

impl Cluster {
    /// Makes a Job of a `CronJob`, as its controller would. One of that name that is there already is left as it is.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn run_cron(&self, namespace: &str, cron: &str, name: &str) -> Result<Made, Error> {
        let crons: Api<CronJob> = Api::namespaced(self.client.clone(), namespace);
        let Some(found) = crons.get_opt(cron).await.because(|| format!("reading CronJob {namespace}/{cron}"))? else {
            return Ok(Made::Nothing);
        };
        let what = || format!("making Job {namespace}/{name} of CronJob {cron}");
        let template = found.spec.job_template;
        let mut metadata = template.metadata.unwrap_or_default();
        metadata.name = Some(name.to_owned());
        metadata.annotations.get_or_insert_default().insert(INSTANTIATE.into(), "manual".into());
        // Its history is kept as long as that of the scheduled ones.
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "name": cron, "uid": found.metadata.uid, "controller": true,
        });
        metadata.owner_references = serde_json::from_value(json!([owner])).ok();
        let job = Job { metadata, spec: template.spec, ..Job::default() };
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        match jobs.create(&PostParams::default(), &job).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Made::Before),
            other => other.map(|_| Made::Now).because(what),
        }
    }
}
