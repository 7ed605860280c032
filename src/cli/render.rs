//! `osdpl render`: the values of each release, no cluster needed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::Value;

use super::common::{CatalogOption, read_deployment};
use super::output;
use crate::catalog::Level;
use crate::desired::{Desired, Selection, redacted, select};
use crate::rule::{self, made_up};
use crate::{api::OpenStackDeployment, catalog::Catalog, yaml};

#[derive(Args)]
pub struct Arguments {
    /// The resource's file; `-` for standard input.
    #[arg(long, short)]
    file: PathBuf,
    /// Only these releases.
    releases: Vec<String>,
    /// Put made-up credentials in place of `<redacted>`, the same at each call: for `helm template`.
    #[arg(long)]
    placeholders: bool,
    /// Write `<release>.yaml` files into this folder instead of printing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    #[allow(clippy::disallowed_methods, reason = "the command line writes into the folder that its user names")]
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let catalog = self.catalog.load_for(&self.file)?;
        let deployment = read_deployment(&self.file)?;
        let (_, desired) = offline(&deployment, &catalog)?;
        if let Some(wanted) = self.releases.iter().find(|name| !desired.releases.contains_key(*name)) {
            let names = desired.releases.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            bail!("there is no release {wanted:?} in this cloud; there are {names}");
        }
        for (name, release) in &desired.releases {
            if !self.releases.is_empty() && !self.releases.contains(name) {
                continue;
            }
            if let Some(blocked) = &release.blocked {
                bail!("release {name}: {}", blocked.message);
            }
            let shown =
                if self.placeholders { release.values.clone() } else { redacted(&release.values, &release.secret) };
            let text = yaml::write(&Value::Object(shown));
            match &self.out {
                Some(folder) => {
                    std::fs::create_dir_all(folder)?;
                    std::fs::write(folder.join(format!("{name}.yaml")), text)?;
                }
                None => {
                    output::print(format_args!("---\n# {} ({}, chart {})\n{text}", name, release.key, release.chart));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What a resource means, with made-up credentials and no charts. Errors list every finding.
pub fn offline(deployment: &OpenStackDeployment, catalog: &Catalog) -> anyhow::Result<(Selection, Desired)> {
    let name = deployment.metadata.name.clone().unwrap_or_default();
    let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
    let selection = select(&name, &namespace, &deployment.spec, catalog);
    let desired = if selection.is_refused() {
        Desired { findings: selection.findings.clone(), ..Desired::default() }
    } else {
        rule::resolve(&deployment.spec, catalog, &selection, &made_up(catalog, &selection))
    };
    for finding in &desired.findings {
        eprintln!("{}: {finding}", finding.level.word());
    }
    let errors = desired.findings.iter().filter(|finding| finding.level == Level::Error).count();
    if errors > 0 {
        bail!("the resource is refused: {errors} error(s), each said above");
    }
    Ok((selection, desired))
}
