//! Renders the manifest of a release with `helm template`, which needs no cluster.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::failure::condense;
use super::runner::document;
use super::{Error, Program, ReleaseKey};
use osdpl_core::scrub::Scrubber;

/// The timeout of `helm template`. The limit has a large reserve: helm renders the largest chart in two seconds.
const DEADLINE: Duration = Duration::from_mins(2);

/// The properties of a cluster that templates can query (`.Capabilities`): its Kubernetes version and its API groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of Kubernetes, such as `v1.36.2`. With `None`, helm uses its default version.
    pub kubernetes: Option<String>,
    /// The API groups and versions that the cluster has in addition to helm's defaults, such as
    /// `monitoring.coreos.com/v1`.
    pub versions: Vec<String>,
}

/// One run of `helm template`.
pub struct Template<'a> {
    /// The name and namespace of the release to render.
    pub release: &'a ReleaseKey,
    /// The path of the packaged chart.
    pub chart: &'a Path,
    /// The values. They contain secrets, so helm gets them only on its stdin.
    pub values: &'a Value,
    /// Whether the release already exists. If it exists, helm renders the templates for an upgrade, otherwise for an
    /// install.
    pub is_upgrade: bool,
    /// The cluster's capabilities, which templates can query.
    pub capabilities: &'a Capabilities,
}

impl Template<'_> {
    fn arguments(&self) -> Vec<String> {
        // Leave out test hooks, because helm does not run them during an upgrade. Leave out CRDs, because osdpl applies
        // CRDs separately.
        let mut arguments = vec!["template", "--skip-tests", "--skip-crds", "--values", "-"];
        arguments.extend(self.is_upgrade.then_some("--is-upgrade"));
        let Capabilities { kubernetes, versions } = self.capabilities;
        arguments.extend(kubernetes.iter().flat_map(|version| ["--kube-version", version]));
        arguments.extend(versions.iter().flat_map(|version| ["--api-versions", version]));
        arguments.extend(["--namespace", &self.release.namespace, "--", &self.release.name]);
        let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        arguments.push(self.chart.display().to_string());
        arguments
    }

    /// Returns the rendered manifest, including hooks. The manifest contains secrets.
    ///
    /// `scrubber` removes secrets from helm's error messages.
    ///
    /// # Errors
    /// Returns an error if helm cannot be started, exceeds the timeout, or fails.
    pub async fn render(&self, program: &Program, scrubber: &Scrubber) -> Result<String, Error> {
        let failed = |output: String| Error::Template { release: self.release.to_string(), output };
        let start = |why| Error::Start { path: program.path().to_owned(), why };
        let input = document(self.values).map_err(|refused| failed(refused.to_string()))?;
        let mut command = program.command("template");
        command.args(self.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().map_err(start)?;
        let stdin = child.stdin.take();
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // Ignore a failed write: it means that helm ended before it read all values, and helm's error message
                // says why.
                drop(stdin.write_all(&input).await);
                drop(stdin.shutdown().await);
            }
        };
        let run = async { tokio::join!(feed, child.wait_with_output()).1 };
        let output = tokio::time::timeout(DEADLINE, run).await;
        let output =
            output.map_err(|_| failed(format!("no result within {} s", DEADLINE.as_secs())))?.map_err(start)?;
        if !output.status.success() {
            return Err(failed(condense(&scrubber.scrub(&String::from_utf8_lossy(&output.stderr)))));
        }
        String::from_utf8(output.stdout).map_err(|_| failed("its output is not UTF-8".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fake::FakeHelm;
    use super::*;

    async fn rendered(script: &str) -> (Result<String, Error>, FakeHelm) {
        let helm = FakeHelm::with_script(script);
        let capabilities =
            Capabilities { kubernetes: Some("v1.36.2".into()), versions: vec!["monitoring.coreos.com/v1".into()] };
        let template = Template {
            release: &ReleaseKey::new("cloud", "keystone"),
            chart: Path::new("/charts/keystone.tgz"),
            values: &json!({"password": "hunter22"}),
            is_upgrade: true,
            capabilities: &capabilities,
        };
        let program = helm.program().await;
        (template.render(&program, &Scrubber::new(["hunter22"])).await, helm)
    }

    #[tokio::test]
    async fn passes_values_on_stdin_and_capabilities_as_flags() {
        let (manifest, helm) = rendered("cat >$home/values\necho \"$@\"").await;
        assert_eq!(
            manifest.unwrap(),
            "template --skip-tests --skip-crds --values - --is-upgrade --kube-version v1.36.2 --api-versions \
             monitoring.coreos.com/v1 --namespace cloud -- keystone /charts/keystone.tgz\n"
        );
        assert_eq!(helm.read_file("values"), "{\"password\":\"hunter22\"}\n");
    }

    #[tokio::test]
    async fn errors_contain_no_secrets() {
        let (refused, _helm) = rendered("echo 'Error: template: x: hunter22 is no number' >&2\nexit 1").await;
        let output = refused.unwrap_err().to_string();
        assert!(
            output.starts_with("helm cannot render cloud/keystone: ") && output.contains("is no number"),
            "{output}"
        );
        assert!(!output.contains("hunter22"), "{output}");
    }
}
