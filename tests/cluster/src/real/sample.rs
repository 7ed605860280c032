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
        self.spec().and_then(|spec| release(&spec)).with_context(|| self.failed())
    }

    /// Whether the cloud stores its data in an external Ceph cluster.
    pub(super) fn needs_ceph(&self) -> anyhow::Result<bool> {
        Ok(self.features()?["storage"]["ceph"]["mode"] == "external")
    }

    /// Whether an issuer of cert-manager creates certificates for the cloud.
    pub(super) fn has_issuer(&self) -> anyhow::Result<bool> {
        Ok(self.features()?["tls"]["issuer"].is_object())
    }

    fn features(&self) -> anyhow::Result<Value> {
        Ok(self.spec().with_context(|| self.failed())?["features"].take())
    }

    fn spec(&self) -> anyhow::Result<Value> {
        spec(&std::fs::read_to_string(&self.path).context("name the file of the cloud with --sample")?)
    }

    fn failed(&self) -> String {
        format!("cannot read the cloud in {}", self.path.display())
    }
}

/// Returns the spec of the `OpenStackDeployment` in a YAML file.
fn spec(text: &str) -> anyhow::Result<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("the file is not valid YAML")?;
    let cloud = documents.into_iter().find(|document| document["kind"] == "OpenStackDeployment");
    Ok(cloud.context("the file has no OpenStackDeployment: add one")?["spec"].take())
}

fn release(spec: &Value) -> anyhow::Result<String> {
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
        assert_eq!(release(&spec(text).unwrap()).unwrap(), "2025.1");
    }

    #[test]
    fn only_some_samples_need_ceph_or_an_issuer() {
        let sample =
            |name| Sample { path: format!("{}/../../deploy/samples/{name}", env!("CARGO_MANIFEST_DIR")).into() };
        for (name, needs_ceph, has_issuer) in
            [("real.yaml", false, false), ("real-ceph.yaml", true, false), ("real-tls.yaml", false, true)]
        {
            let sample = sample(name);
            assert_eq!(
                (sample.needs_ceph().unwrap(), sample.has_issuer().unwrap()),
                (needs_ceph, has_issuer),
                "{name}"
            );
        }
    }

    #[test]
    fn error_says_how_to_set_the_release() {
        let message = |text| format!("{:#}", spec(text).and_then(|spec| release(&spec)).unwrap_err());
        assert!(message("kind: Namespace\n").contains("no OpenStackDeployment"));
        let number = "kind: OpenStackDeployment\nspec: {openstackRelease: 2025.1}\n";
        assert!(message(number).contains("write a release in quotes"), "{}", message(number));
    }
}
