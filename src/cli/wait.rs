//! `osdpl wait`: waits until the cloud is Ready, and prints the progress. Exits at once with code 2 if the cloud needs
//! manual intervention.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use super::common::{StoredDeployment, Target, content};
use super::connect::{is_timeout, readable};
use super::duration;
use super::output;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentStatus, condition};

/// The exit code of `osdpl wait` if the cloud needs manual intervention.
const STALLED: u8 = 2;

/// The delay before [`follow`] repeats a failed read of the `OpenStackDeployment`.
const RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The time to wait: hours, minutes and seconds such as 1h30m, 5m or 60s, or a number of seconds.
    #[arg(long, value_name = "SPAN", default_value = "30m", value_parser = duration::parse)]
    timeout: Duration,
}

impl Arguments {
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        let client = self.target.cluster.client().await?;
        let deployment = self.target.find(&client).await?;
        let name = deployment.name_any();
        let mut last = String::new();
        let report = |deployment: &OpenStackDeployment| {
            if is_ready(deployment) {
                output::line(format_args!("{name} is Ready"));
                return Some(ExitCode::SUCCESS);
            }
            if let Some(message) = stalled(deployment) {
                output::line(format_args!("{name} needs manual intervention: {message}"));
                return Some(ExitCode::from(STALLED));
            }
            let current = || deployment.status.as_ref().map(|status| status.message.clone()).unwrap_or_default();
            let message = stale_status_message(deployment).unwrap_or_else(current);
            if message != last && !message.is_empty() {
                output::line(&message);
                last = message;
            }
            None
        };
        let following = follow(client, &deployment, self.target.cluster.timeout(), report);
        let result = tokio::time::timeout(self.timeout, following).await;
        result.with_context(|| {
            format!("{name} is not Ready after {}; see `osdpl status`", duration::describe(&self.timeout))
        })?
    }
}

/// Calls `report` with the resource as it is now, and after each change of the resource, until `report` returns an exit
/// code.
///
/// If the watch fails, or reports no change for as long as `limit`, this function reads the resource again. A watch
/// alone would not notice in time that the API server has stopped responding.
///
/// # Errors
/// Returns an error if someone deletes the resource, or if reading it fails for longer than `limit`.
pub(crate) async fn follow(
    client: kube::Client,
    deployment: &OpenStackDeployment,
    limit: Duration,
    mut report: impl FnMut(&OpenStackDeployment) -> Option<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
    let api: Api<StoredDeployment> = Api::namespaced(client, &namespace);
    let mut events = pin!(watcher::watch_object(api.clone(), &name).default_backoff());
    // Do not limit the time until the first event: the watch begins with a list request, whose time the client already
    // limits.
    let mut patience = Duration::MAX;
    loop {
        let found = match tokio::time::timeout(patience, events.next()).await {
            Ok(Some(Ok(found))) => Ok(found),
            Ok(Some(Err(_))) | Err(_) => read(&api, &name, limit).await,
            Ok(None) => bail!("the watch has ended; try again"),
        };
        patience = limit;
        let context = || format!("watching OpenStackDeployment {namespace}/{name}");
        let Some(stored) = found.map_err(readable).with_context(context)? else {
            bail!("OpenStackDeployment {namespace}/{name} does not exist any more: someone deleted it")
        };
        if let Some(code) = report(&content(stored)?) {
            return Ok(code);
        }
    }
}

/// Reads the resource. If the read fails for a reason other than a timeout, repeats it for as long as `limit`, and then
/// returns the error of the first attempt.
async fn read(api: &Api<StoredDeployment>, name: &str, limit: Duration) -> kube::Result<Option<StoredDeployment>> {
    let first = match api.get_opt(name).await {
        Err(error) if !is_timeout(&error) => error,
        found => return found,
    };
    let mut deadline = pin!(tokio::time::sleep(limit));
    loop {
        tokio::select! {
            () = tokio::time::sleep(RETRY_DELAY) => {}
            () = &mut deadline => return Err(first),
        }
        if let Ok(found) = api.get_opt(name).await {
            return Ok(found);
        }
    }
}

/// Whether the cloud is Ready, according to a status that the operator wrote for the current spec.
pub(crate) fn is_ready(deployment: &OpenStackDeployment) -> bool {
    true_condition(deployment, condition::READY).is_some()
}

/// Returns a message for the user if the operator has not observed the current spec yet. Commands print it instead of
/// the message in the status, which is about an older spec.
pub(crate) fn stale_status_message(deployment: &OpenStackDeployment) -> Option<String> {
    if current(deployment).is_some() {
        return None;
    }
    let number = |generation: Option<i64>| generation.map_or_else(|| "none".to_owned(), |number| number.to_string());
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    Some(format!(
        "not yet observed by the operator: generation {}, observed {}",
        number(deployment.metadata.generation),
        number(observed)
    ))
}

/// Returns why the cloud needs manual intervention; `None` if it needs none, or if the status is about an older spec.
fn stalled(deployment: &OpenStackDeployment) -> Option<&str> {
    true_condition(deployment, condition::STALLED).map(|condition| condition.message.as_str())
}

/// Returns the condition of type `kind` if it is `True`, and if the operator wrote the status for the current spec.
fn true_condition<'a>(deployment: &'a OpenStackDeployment, kind: &str) -> Option<&'a Condition> {
    let mut conditions = current(deployment)?.conditions.iter();
    conditions.find(|condition| condition.type_ == kind && condition.status == "True")
}

/// Returns the status of the `OpenStackDeployment` if the operator wrote it for the current spec.
fn current(deployment: &OpenStackDeployment) -> Option<&OpenStackDeploymentStatus> {
    deployment.status.as_ref().filter(|status| status.observed_generation == deployment.metadata.generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cloud(observed: i64, kind: &str, status: &str) -> OpenStackDeployment {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "generation": 2}, "spec": {"openstackRelease": "2026.1"},
            "status": {"observedGeneration": observed, "conditions": [{
                "type": kind, "status": status, "reason": "R", "message": "why", "lastTransitionTime": "2026-11-21T10:00:00Z",
            }]},
        }))
        .unwrap()
    }

    #[test]
    fn stalled_counts_only_for_the_current_spec() {
        assert_eq!(stalled(&cloud(2, "Stalled", "True")), Some("why"));
        assert_eq!(stalled(&cloud(1, "Stalled", "True")), None);
        assert_eq!(stalled(&cloud(2, "Stalled", "False")), None);
        assert!(current(&cloud(1, "Ready", "True")).is_none(), "must ignore a status for an older spec");
        assert!(is_ready(&cloud(2, "Ready", "True")) && !is_ready(&cloud(1, "Ready", "True")));
    }

    #[test]
    fn reports_a_spec_not_yet_observed() {
        assert_eq!(stale_status_message(&cloud(2, "Ready", "True")), None);
        let message_of = |cloud: &OpenStackDeployment| stale_status_message(cloud).unwrap();
        assert_eq!(
            message_of(&cloud(1, "Ready", "True")),
            "not yet observed by the operator: generation 2, observed 1"
        );
        let without_status = OpenStackDeployment { status: None, ..cloud(1, "Ready", "True") };
        assert_eq!(message_of(&without_status), "not yet observed by the operator: generation 2, observed none");
    }
}
