//! `osdpl crd`.

use std::process::ExitCode;

use clap::Args;

use super::common::CatalogOption;
use super::output;

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        output::print(crate::api::crd_yaml(&self.catalog.load()?)?);
        Ok(ExitCode::SUCCESS)
    }
}
