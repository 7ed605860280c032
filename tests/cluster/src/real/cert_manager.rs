//! Installs cert-manager with its own chart, which is part of cert-manager's Go module.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::cloud::User;
use super::run::{logged, output};
use crate::Program;
use crate::programs::{self, Recipe};

/// A self-signed CA, and the issuer `cloud-ca`, which signs certificates with it.
const ISSUER: &str = include_str!("../../node/issuer.yaml");
/// The namespace of cert-manager, and the name of its release.
const NAME: &str = "cert-manager";
/// The values with which the operator trusts this CA.
pub(super) const TRUST: &str = include_str!("../../node/trust.yaml");

/// Returns the rendered manifests of cert-manager's chart.
pub(super) fn render(helm: &Path) -> anyhow::Result<String> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let chart = package(helm, folder.path())?;
    output(Command::new(helm).args(["template", NAME]).arg(chart), "")
}

/// Packages cert-manager's chart into `folder`, and returns the path of the package. In the sources, the chart has no
/// version. The tags of its images are its appVersion.
fn package(helm: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let version = format!("v{}", Recipe::of(Program::CertManager).version);
    let chart = programs::module(Program::CertManager)?.join("deploy/charts/cert-manager");
    let mut command = Command::new(helm);
    command.arg("package").arg(chart).args(["--version", &version, "--app-version", &version, "--destination"]);
    output(command.arg(folder), "")?;
    Ok(folder.join(format!("{NAME}-{version}.tgz")))
}

impl User<'_> {
    /// Installs cert-manager and waits until it works. Then creates the issuer, and waits until it is ready.
    pub fn cert_manager(&self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let helm = self.command("helm");
        let chart = package(Path::new(helm.get_program()), folder.path())?;
        let mut command = self.command("helm");
        command.args(["upgrade", "--install", NAME]).arg(chart).args(["--namespace", NAME, "--create-namespace"]);
        command.args(["--set", "crds.enabled=true", "--history-max", "3", "--wait"]);
        logged(&mut command, "helm", &self.first().log(NAME), "")?;
        self.run("kubectl", &["apply", "--server-side", "-f", "-"], ISSUER)?;
        self.run("kubectl", &["wait", "--for=condition=Ready", "--timeout=120s", "clusterissuer/cloud-ca"], "")
            .map(drop)
    }
}
