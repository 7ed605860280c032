//! `osdpl wait`: waits until the cloud is Ready and prints its progress; exits at once with code 2 if manual
//! intervention is needed.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use super::common::Target;
use super::connect::readable;
use super::duration;
use super::output;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentStatus, condition};

/// The exit code of `osdpl wait` if the cloud needs manual intervention.
const STALLED: u8 = 2;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How long to wait: hours, minutes and seconds such as 1h30m, 5m or 60s, or a number of seconds.
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

/// Calls `report` with the current resource, and again after each change of the resource, until `report` returns an
/// exit code.
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
    let api: Api<OpenStackDeployment> = Api::namespaced(client, &namespace);
    let mut events = pin!(watcher::watch_object(api.clone(), &name).default_backoff());
    let (mut failure, mut deadline) = (None, pin!(tokio::time::sleep(Duration::MAX)));
    loop {
        let event = tokio::select! {
            event = events.next() => event.context("the watch has ended; try again")?,
            () = &mut deadline => {
                let Err(last) = api.get_opt(&name).await else {
                    failure = None;
                    deadline.set(tokio::time::sleep(Duration::MAX));
                    continue;
                };
                let error = readable(failure.unwrap_or(last));
                return Err(error.context(format!("watching OpenStackDeployment {namespace}/{name}")));
            }
        };
        // After a failure, the watch starts again, but reports nothing until the resource changes. So read the
        // resource, to find out whether the API server still fails.
        let found = match event {
            Ok(found) => Ok(found),
            Err(_) => api.get_opt(&name).await,
        };
        match found {
            Ok(None) => bail!("OpenStackDeployment {namespace}/{name} does not exist any more: someone deleted it"),
            Ok(Some(deployment)) => {
                failure = None;
                deadline.set(tokio::time::sleep(Duration::MAX));
                if let Some(code) = report(&deployment) {
                    return Ok(code);
                }
            }
            Err(error) if failure.is_none() => {
                failure = Some(error);
                deadline.set(tokio::time::sleep(limit));
            }
            Err(_) => {}
        }
    }
}

/// Whether the status is for the current spec, and says that the cloud is Ready.
pub(crate) fn is_ready(deployment: &OpenStackDeployment) -> bool {
    true_condition(deployment, condition::READY).is_some()
}

/// Returns a message if the operator has not observed the current spec yet, so that the status is outdated. Commands
/// show this message instead of the message in the status.
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

/// Returns the reason why the cloud needs manual intervention. Returns `None` if the status reports no such need, or
/// describes an older spec.
fn stalled(deployment: &OpenStackDeployment) -> Option<&str> {
    true_condition(deployment, condition::STALLED).map(|condition| condition.message.as_str())
}

/// Returns the condition of this kind if it is true, and if the status is for the current spec.
fn true_condition<'a>(deployment: &'a OpenStackDeployment, kind: &str) -> Option<&'a Condition> {
    let mut conditions = current(deployment)?.conditions.iter();
    conditions.find(|condition| condition.type_ == kind && condition.status == "True")
}

/// Returns the resource's status if the operator wrote it for the current spec.
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
