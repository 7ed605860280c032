//! `osdpl plan`: what would be done now and why, from a file offline or as the operator in the cluster sees it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use kube::ResourceExt;

use super::common::{CatalogOption, Target, client, read_deployment};
use super::render::offline;
use crate::desired::{Desired, Provider};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Plan a new cloud from this file, without a cluster; `-` for standard input.
    #[arg(long, short)]
    file: Option<PathBuf>,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub async fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.file {
            Some(file) => {
                let catalog = self.catalog.load()?;
                let (_, desired) = offline(&read_deployment(file)?, &catalog)?;
                print!("{}", new_cloud(&desired));
            }
            None => self.cluster().await?,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn cluster(&self) -> anyhow::Result<()> {
        let deployment = self.target.find(&client().await?).await?;
        let status = deployment.status.clone().unwrap_or_default();
        let (mut steps, mut ready) = (0, 0);
        for (name, child) in &status.children {
            if child.ready {
                ready += 1;
            } else {
                steps += 1;
                println!("{name:<14} {:<16} {}", child.status, child.message);
                for path in &child.changes {
                    println!("{:<31} changes {path}", "");
                }
            }
        }
        println!("{ready} releases are ready, {steps} are not.");
        if let Some(hash) = &status.approval {
            let namespace = deployment.namespace().unwrap_or_default();
            println!("Changes wait for approval: osdpl approve -n {namespace} {} {hash}", deployment.name_any());
        }
        Ok(())
    }
}

/// The order in which a new cloud comes up.
fn new_cloud(desired: &Desired) -> String {
    let mut text = String::new();
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..=desired.releases.len() {
        for (name, release) in &desired.releases {
            let below = release.needs.values().filter_map(|provider| match provider {
                Provider::Release(name) => Some(depths.get(name.as_str()).copied().unwrap_or_default() + 1),
                Provider::External(_) => None,
            });
            depths.insert(name, below.max().unwrap_or_default());
        }
    }
    let mut names: Vec<_> = desired.releases.keys().map(String::as_str).collect();
    names.sort_by_key(|name| depths[name]);
    for name in names {
        let release = &desired.releases[name];
        let needs = release.needs.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let when = if needs.is_empty() { "at once".to_owned() } else { format!("as soon as {needs} are available") };
        text.push_str(&format!("{name:<14} helm upgrade --install in {}, {when}\n", release.key.namespace));
    }
    text.push_str(&format!("{} releases would be installed.\n", desired.releases.len()));
    text
}
