//! Asking the operator to take releases over: an annotation, which it takes away when that is done.

mod standing;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::bail;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::Arguments;
use crate::common::{Target, readable, unknown};
use crate::output;
use osdpl_core::api::{ADOPT, OpenStackDeployment};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::select;
use osdpl_operator::cluster::Reader;
use standing::{Look, Standing};

impl Arguments {
    pub(super) async fn ask(self) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client().await?;
        let target = Target { name: self.name, namespace: self.namespace, cluster: self.cluster };
        let deployment = target.find(&client).await?;
        let catalog = self.catalog.load_from(&client, &deployment.namespace().unwrap_or_default(), None).await?;
        let asked = if self.all { None } else { Some(self.releases) };
        let (open, refused) = open(&client, &deployment, &catalog, asked.as_deref()).await?;
        let code = if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        if open.is_empty() {
            return Ok(code);
        }
        // By name, and never `all`: one that can't be taken over now must not be taken over by an old word later.
        annotate(client, &deployment, &open).await?;
        output::line(format_args!(
            "the operator takes over {}: what runs as wanted is in sync from then on, and what does not waits for approval; see `osdpl plan`",
            open.join(", ")
        ));
        Ok(code)
    }
}

/// The releases that are still to be taken over, of those asked for or of all that run, and how many of these can't be. Those, and what is osdpl's already,
/// are told.
///
/// # Errors
/// A name that nothing can be done with, all of them at once, before anything is written.
async fn open(
    client: &Client,
    deployment: &OpenStackDeployment,
    catalog: &Catalog,
    asked: Option<&[String]>,
) -> anyhow::Result<(Vec<String>, usize)> {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    let selection = select(&name, &namespace, &deployment.spec, catalog);
    let cluster = Reader::new(client.clone());
    let look = Look::new(&cluster, deployment, &selection).await?;
    let names = asked.map_or_else(|| selection.releases.keys().cloned().collect(), <[String]>::to_vec);
    let (mut open, mut ours, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        if catalog.release(&name).is_none() {
            return Err(unknown(catalog, &name));
        }
        match look.standing(&name).await? {
            Standing::Open => open.push(name),
            Standing::Ours(revision) => ours.push(format!("{name} (revision {revision})")),
            Standing::Absent(_) if asked.is_none() => {}
            Standing::Absent(why) | Standing::Refused(why) => {
                refused.push(format!("{name} can't be taken over: {why}"));
            }
        }
    }
    if asked.is_some() && !refused.is_empty() {
        bail!("{}", refused.join("\n"));
    }
    for why in &refused {
        eprintln!("osdpl: {why}");
    }
    if !ours.is_empty() {
        output::line(format_args!("osdpl's already, nothing to do: {}", ours.join(", ")));
    } else if open.is_empty() && refused.is_empty() {
        output::line("no release of this cloud runs yet: there is nothing to take over");
    }
    Ok((open, refused.len()))
}

/// Adds names to those that are asked for already.
async fn annotate(client: Client, deployment: &OpenStackDeployment, names: &[String]) -> anyhow::Result<()> {
    let before = deployment.annotations().get(ADOPT).into_iter().flat_map(|text| text.split(','));
    let names: BTreeSet<&str> = before.chain(names.iter().map(String::as_str)).collect();
    let value = names.into_iter().collect::<Vec<_>>().join(",");
    let api: Api<OpenStackDeployment> = Api::namespaced(client, &deployment.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {ADOPT: value}}}));
    api.patch(&deployment.name_any(), &PatchParams::default(), &patch).await.map_err(readable)?;
    Ok(())
}
