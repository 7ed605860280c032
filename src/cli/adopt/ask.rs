//! Asking the operator to take releases over: an annotation, which it takes away when that is done.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::bail;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::Arguments;
use crate::api::{ADOPT, OpenStackDeployment};
use crate::cli::common::{Target, readable};
use crate::cli::output;

impl Arguments {
    pub(super) async fn ask(self) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client().await?;
        let target = Target { name: self.name, namespace: self.namespace, cluster: self.cluster };
        let deployment = target.find(&client).await?;
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        let catalog = self.catalog.load_from(&client, &namespace, None).await?;
        if let Some(unknown) = self.releases.iter().find(|name| catalog.release(name).is_none()) {
            bail!("the catalogue has no release {unknown:?}; releases go by the catalogue's names, see `osdpl plan`");
        }
        let asked = if self.all { vec!["all".to_owned()] } else { self.releases };
        let before = deployment.annotations().get(ADOPT).into_iter().flat_map(|text| text.split(','));
        let names: BTreeSet<&str> = before.chain(asked.iter().map(String::as_str)).collect();
        let value = names.into_iter().collect::<Vec<_>>().join(",");
        let api: Api<OpenStackDeployment> = Api::namespaced(client, &namespace);
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ADOPT: value}}}));
        api.patch(&name, &PatchParams::default(), &patch).await.map_err(readable)?;
        output::line(format_args!(
            "the operator takes over {}: what runs as wanted is in sync from then on, and what does not waits for approval; see `osdpl plan`",
            asked.join(", ")
        ));
        Ok(ExitCode::SUCCESS)
    }
}
