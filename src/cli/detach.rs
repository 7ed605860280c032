//! `osdpl detach`: let releases go. They run on, and helm goes on with them by hand.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::common::{CatalogOption, ClusterOption, Target, readable};
use super::output;
use crate::api::OpenStackDeployment;

#[derive(Args)]
pub struct Arguments {
    /// Releases to let go, by the catalogue's names.
    #[arg(required_unless_present = "all")]
    releases: Vec<String>,
    /// Let everything go: the resource is deleted, and what it made stays and runs on.
    #[arg(long, conflicts_with = "releases")]
    all: bool,
    /// The resource's name; the only one there is where unset.
    #[arg(long)]
    name: Option<String>,
    /// Its namespace; all are searched where unset.
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterOption,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client().await?;
        let target =
            Target { name: self.name.clone(), namespace: self.namespace.clone(), cluster: self.cluster.clone() };
        let deployment = target.find(&client).await?;
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        let spec = self.spec(&client, &namespace).await?;
        let api: Api<OpenStackDeployment> = Api::namespaced(client, &namespace);
        let patch = Patch::Merge(json!({"spec": spec}));
        api.patch(&name, &PatchParams::default(), &patch).await.map_err(readable)?;
        if self.all {
            api.delete(&name, &DeleteParams::default()).await.map_err(readable).context("deleting the resource")?;
            output::line(format_args!(
                "{name} lets everything go: releases, Secrets and labels of nodes stay as they are"
            ));
        } else {
            let releases = self.releases.join(", ");
            output::line(format_args!(
                "{name} lets {releases} go (managed: false; write it into the resource's file too); `osdpl plan` shows when it has"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What the spec has to say.
    async fn spec(&self, client: &Client, namespace: &str) -> anyhow::Result<Value> {
        if self.all {
            return Ok(json!({"deletionPolicy": "Detach"}));
        }
        let catalog = self.catalog.load_from(client, namespace, None).await?;
        let mut services = json!({});
        for release in &self.releases {
            let Some((service, _)) = catalog.release(release) else {
                bail!(
                    "the catalogue has no release {release:?}; releases go by the catalogue's names, see `osdpl plan`"
                );
            };
            services[service]["releases"][release.as_str()]["managed"] = false.into();
        }
        Ok(json!({"services": services}))
    }
}
