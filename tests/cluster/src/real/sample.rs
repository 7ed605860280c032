//! Reads the file with the cloud to install.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;

/// The file with the cloud to install.
#[derive(Clone, Debug, clap::Args)]
pub struct Sample {
    /// The cloud to install.
    #[arg(long = "sample", value_name = "FILE", default_value = "deploy/samples/real.yaml")]
    pub(super) path: PathBuf,
}

impl Sample {
    /// Returns the OpenStack release of the cloud.
    pub(super) fn release(&self) -> anyhow::Result<String> {
        let path = self.path.display();
        release(&self.text()?).with_context(|| format!("cannot find the OpenStack release of the cloud in {path}"))
    }

    /// Whether an issuer of cert-manager creates certificates for the cloud.
    pub(super) fn has_issuer(&self) -> anyhow::Result<bool> {
        let spec = spec(&self.text()?).with_context(|| format!("cannot read the cloud in {}", self.path.display()))?;
        Ok(spec["features"]["tls"]["issuer"].is_object())
    }

    fn text(&self) -> anyhow::Result<String> {
        std::fs::read_to_string(&self.path)
            .with_context(|| format!("cannot read {}: name the file of the cloud with --sample", self.path.display()))
    }
}

/// Returns the spec of the `OpenStackDeployment` in a YAML file.
fn spec(text: &str) -> anyhow::Result<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("the file is not valid YAML")?;
    let cloud = documents.iter().find(|document| document["kind"] == "OpenStackDeployment");
    Ok(cloud.context("the file has no OpenStackDeployment: add one")?["spec"].clone())
}

/// Returns the OpenStack release of the `OpenStackDeployment` in a YAML file.
fn release(text: &str) -> anyhow::Result<String> {
    let spec = spec(text)?;
    let release = spec["openstackRelease"].as_str();
    Ok(release.context("spec.openstackRelease is not a string: write a release in quotes, such as \"2026.1\"")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_release_among_several_documents() {
        let text =
            "apiVersion: v1\nkind: Namespace\n---\nkind: OpenStackDeployment\nspec: {openstackRelease: \"2025.1\"}\n";
        assert_eq!(release(text).unwrap(), "2025.1");
    }

    #[test]
    fn error_says_how_to_set_the_release() {
        let message = |text| format!("{:#}", release(text).unwrap_err());
        assert!(message("kind: Namespace\n").contains("no OpenStackDeployment"));
        let number = "kind: OpenStackDeployment\nspec: {openstackRelease: 2025.1}\n";
        assert!(message(number).contains("write a release in quotes"), "{}", message(number));
    }
}
