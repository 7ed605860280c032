//! `osdpl approve`: approves the changes that the operator makes only after a person's approval.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::common::Target;
use super::connect::readable;
use super::output;
use osdpl_core::api::{APPROVE, OpenStackDeployment};
use osdpl_core::plan::HASH_DIGITS;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The hash that `osdpl plan` printed. If the pending changes differ from that plan by now, osdpl approves nothing.
    /// Default: approve the changes that are pending now.
    hash: Option<String>,
}

impl Arguments {
    pub(crate) async fn run(mut self) -> anyhow::Result<ExitCode> {
        // In `osdpl approve HASH`, clap stores the hash as the resource's name, because the name is the first argument
        // of the command. So move the hash to the field `hash`.
        let is_hash = |text: &String| text.len() == HASH_DIGITS && text.chars().all(|c| c.is_ascii_hexdigit());
        if self.hash.is_none() && self.target.name.as_ref().is_some_and(is_hash) {
            self.hash = self.target.name.take();
        }
        let client = self.target.cluster.client().await?;
        let deployment = self.target.find(&client).await?;
        let status = deployment.status.clone().unwrap_or_default();
        let Some(pending) = status.approval else { bail!("nothing waits for approval") };
        if self.hash.as_ref().is_some_and(|hash| *hash != pending) {
            bail!(
                "the given hash is outdated: other changes are pending by now ({pending}); review them with `osdpl plan` first"
            );
        }
        let api: Api<OpenStackDeployment> = Api::namespaced(client, &deployment.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {APPROVE: pending}}}));
        api.patch(&deployment.name_any(), &PatchParams::default(), &patch).await.map_err(readable)?;
        output::line(format_args!("approved {pending}"));
        Ok(ExitCode::SUCCESS)
    }
}
