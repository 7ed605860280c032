//! `osdpl forget`: asks the operator to remove the hosts of permanently deleted nodes from Nova and Neutron.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use osdpl_values::CollectSorted;
use serde_json::json;

use super::common::Target;
use super::connect::{ClusterOption, readable};
use super::output;
use osdpl_core::api::{FORGET_NODES_ANNOTATION, OpenStackDeployment};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Nodes that were deleted and will not come back.
    #[arg(required = true)]
    nodes: Vec<String>,
    /// The resource's name; default: the only resource in the cluster.
    #[arg(long)]
    name: Option<String>,
    /// The resource's namespace; default: osdpl searches all namespaces.
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterOption,
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client().await?;
        let nodes: Api<Node> = Api::all(client.clone());
        for node in &self.nodes {
            let found = nodes.get_metadata_opt(node).await.map_err(readable).context("looking for the node")?;
            if found.is_some() {
                bail!("node {node} still exists in the cluster; delete it first (kubectl delete node {node})");
            }
        }
        let target = Target { name: self.name, namespace: self.namespace, cluster: self.cluster };
        let deployment = target.find(&client).await?;
        let requested =
            deployment.annotations().get(FORGET_NODES_ANNOTATION).into_iter().flat_map(|text| text.split(','));
        let all: BTreeSet<&str> = requested.chain(self.nodes.iter().map(String::as_str)).collect_set();
        let value = all.into_iter().collect::<Vec<_>>().join(",");
        let api: Api<OpenStackDeployment> = Api::namespaced(client, &deployment.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {FORGET_NODES_ANNOTATION: value}}}));
        api.patch(&deployment.name_any(), &PatchParams::default(), &patch).await.map_err(readable)?;
        output::line(format_args!(
            "the operator will remove {} from Nova and Neutron; see the events of {}",
            self.nodes.join(", "),
            deployment.name_any()
        ));
        Ok(ExitCode::SUCCESS)
    }
}
