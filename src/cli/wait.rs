//! `osdpl wait`: wait until the cloud is Ready, saying what it waits for.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use super::common::Target;
use super::output;
use crate::api::{OpenStackDeployment, condition};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How long to wait, in seconds.
    #[arg(long, default_value_t = 1800)]
    timeout: u64,
}

impl Arguments {
    pub async fn run(&self) -> anyhow::Result<ExitCode> {
        let client = self.target.cluster.client().await?;
        let deployment = self.target.find(&client).await?;
        let api: Api<OpenStackDeployment> = Api::namespaced(client, &deployment.namespace().unwrap_or_default());
        let name = deployment.name_any();
        let mut last = String::new();
        let follow = async {
            let mut seen = std::pin::pin!(watcher::watch_object(api, &name).default_backoff());
            while let Some(event) = seen.next().await {
                let Ok(Some(deployment)) = event else { continue };
                if is_ready(&deployment) {
                    return true;
                }
                let message = deployment.status.map(|status| status.message).unwrap_or_default();
                if message != last {
                    output::line(&message);
                    last = message;
                }
            }
            false
        };
        let ready = tokio::time::timeout(Duration::from_secs(self.timeout), follow).await;
        let ready =
            ready.with_context(|| format!("{name} is not Ready after {} s; see `osdpl status`", self.timeout))?;
        if ready {
            output::line(format_args!("{name} is Ready"));
        }
        Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Whether the status speaks of the current spec and says Ready.
pub fn is_ready(deployment: &OpenStackDeployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    status.observed_generation == deployment.metadata.generation
        && status.conditions.iter().any(|condition| condition.type_ == condition::READY && condition.status == "True")
}
