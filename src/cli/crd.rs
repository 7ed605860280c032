//! `osdpl crd`.

use std::process::ExitCode;

use clap::Args;
use kube::CustomResourceExt;

use crate::api::OpenStackDeployment;

#[derive(Args)]
pub struct Arguments {}

impl Arguments {
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        print!("{}", crate::yaml::write(&OpenStackDeployment::crd()));
        Ok(ExitCode::SUCCESS)
    }
}
