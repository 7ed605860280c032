//! `osdpl why`: explains why objects are not ready. Prints the chain from each object to its root cause, and the
//! objects that the user should inspect.

mod explanation;
mod names;
mod report;

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt};

use super::additions::warn_about;
use super::common::{CatalogOption, Target};
use super::connect::readable;
use super::output::{self, Format};
use explanation::Explanation;
use names::Names;
use osdpl_core::catalog::did_you_mean;
use osdpl_operator::controller::{Preview, preview};
use report::WhyReport;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A service, a release, a component (nova/compute), a workload, a Job, a CronJob or a pod; default: everything
    /// that is not ready.
    what: Option<String>,
    /// The output format; the guide's page on health describes the JSON.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        let client = self.target.cluster.client().await?;
        let deployment = self.target.find(&client).await?;
        let (extended, errors) = self.catalog.load_live(&client, &deployment).await?;
        warn_about(&errors);
        let catalog = (std::sync::Arc::new(extended.catalog), errors);
        let limit = self.target.cluster.timeout();
        let preview = preview(&client, &catalog, &deployment, Some(&deployment), None, limit).await?;
        let (catalog, _) = catalog;
        for unknown in &preview.unwatched {
            eprintln!("unknown: {unknown}");
        }
        let names = Names::new(&catalog, &preview);
        let explanation = match &self.what {
            None => Explanation::of_all(&preview),
            Some(name) => match names.find(name) {
                Some(subject) => Explanation::of_subject(&subject, &preview),
                None => match explain_pod(&client, &preview, &names, name).await? {
                    Some(explanation) => explanation,
                    None => bail!(
                        "{}/{} has no service, release, component, workload, Job, CronJob or pod named {name:?}{}; see `osdpl status`",
                        deployment.namespace().unwrap_or_default(),
                        deployment.name_any(),
                        did_you_mean(name, names.all().iter().map(String::as_str))
                    ),
                },
            },
        };
        match self.output {
            Format::Text => output::print(explanation.text()),
            Format::Json => output::line(serde_json::to_string_pretty(&WhyReport::from(&explanation))?),
        }
        Ok(if explanation.is_ready() { ExitCode::SUCCESS } else { ExitCode::from(2) })
    }
}

/// Returns the explanation for the pod with this name in a namespace of the cloud; `None` if there is no such pod.
async fn explain_pod(
    client: &Client,
    preview: &Preview,
    names: &Names<'_>,
    name: &str,
) -> anyhow::Result<Option<Explanation>> {
    for namespace in names.namespaces() {
        if let Some(chain) = preview.tasks.explain_pod(namespace, name) {
            return Ok(Some(Explanation::of_pod(namespace, name, &chain)));
        }
        let resource = ApiResource::erase::<Pod>(&());
        let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        if let Some(pod) = pods.get_opt(name).await.map_err(readable)? {
            let phase = pod.data["status"]["phase"].as_str().unwrap_or_default();
            return Ok(Some(Explanation::of_ready_pod(name, phase)));
        }
    }
    Ok(None)
}
