//! `osdpl crd`: prints the custom resource definitions.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::common::CatalogOption;
use super::output;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Openstackdeployment,
    Nodemaintenance,
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// Print only the definition of this kind.
    #[arg(value_enum, value_name = "KIND")]
    kind: Option<Kind>,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let catalog = self.catalog.load()?;
        if self.kind != Some(Kind::Nodemaintenance) {
            output::print(osdpl_core::schema::crd_yaml(&catalog)?);
        }
        if self.kind.is_none() {
            output::line("---");
        }
        if self.kind != Some(Kind::Openstackdeployment) {
            output::print(osdpl_core::schema::maintenance_crd_yaml()?);
        }
        Ok(ExitCode::SUCCESS)
    }
}
