//! What helm would render of a release, without a cluster: `helm template`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::failure::condense;
use super::runner::document;
use super::{Error, Key, Program};
use osdpl_core::scrub::Scrubber;

/// How long rendering may take: the largest chart takes two seconds.
const DEADLINE: Duration = Duration::from_mins(2);

/// What templates see of the cluster that they are rendered for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Kubernetes' version, `v1.36.2`; helm's own guess where unset.
    pub kubernetes: Option<String>,
    /// The groups and versions that it serves beside Kubernetes' own, `monitoring.coreos.com/v1`.
    pub versions: Vec<String>,
}

/// One `helm template`.
pub struct Template<'a> {
    /// The release.
    pub release: &'a Key,
    /// A packaged chart on disk.
    pub chart: &'a Path,
    /// The values, secrets included: they go to helm's stdin and nowhere else.
    pub values: &'a Value,
    /// Whether it is for a release that is there already.
    pub is_upgrade: bool,
    /// What it is rendered for.
    pub capabilities: &'a Capabilities,
}

impl Template<'_> {
    fn arguments(&self) -> Vec<String> {
        // Tests are never run, and CRDs are applied apart.
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

    /// Renders it: the manifest, hooks included. Secrets inside; `scrubber` knows those that helm's complaints may quote.
    ///
    /// # Errors
    /// When helm does not start, does not end in time, or can't render it.
    pub async fn render(&self, program: &Program, scrubber: &Scrubber) -> Result<String, Error> {
        let failed = |said: String| Error::Template { release: self.release.to_string(), said };
        let start = |why| Error::Start { path: program.path().to_owned(), why };
        let input = document(self.values).map_err(|refused| failed(refused.to_string()))?;
        let mut command = program.command("template");
        command.args(self.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().map_err(start)?;
        let stdin = child.stdin.take();
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A helm that ends before it read everything says why itself.
                drop(stdin.write_all(&input).await);
                drop(stdin.shutdown().await);
            }
        };
        let run = async { tokio::join!(feed, child.wait_with_output()).1 };
        let output = tokio::time::timeout(DEADLINE, run).await;
        let output = output.map_err(|_| failed(format!("no end within {} s", DEADLINE.as_secs())))?.map_err(start)?;
        if !output.status.success() {
            return Err(failed(condense(&scrubber.scrub(&String::from_utf8_lossy(&output.stderr)))));
        }
        String::from_utf8(output.stdout).map_err(|_| failed("what it printed is no UTF-8".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fake::Stage;
    use super::*;

    async fn rendered(play: &str) -> (Result<String, Error>, Stage) {
        let stage = Stage::of(play);
        let capabilities =
            Capabilities { kubernetes: Some("v1.36.2".into()), versions: vec!["monitoring.coreos.com/v1".into()] };
        let template = Template {
            release: &Key::new("cloud", "keystone"),
            chart: Path::new("/charts/keystone.tgz"),
            values: &json!({"password": "hunter22"}),
            is_upgrade: true,
            capabilities: &capabilities,
        };
        let program = stage.program().await;
        (template.render(&program, &Scrubber::new(["hunter22"])).await, stage)
    }

    #[tokio::test]
    async fn values_go_through_stdin_and_the_cluster_is_told_by_flags() {
        let (manifest, stage) = rendered("cat >$home/values\necho \"$@\"").await;
        assert_eq!(
            manifest.unwrap(),
            "template --skip-tests --skip-crds --values - --is-upgrade --kube-version v1.36.2 --api-versions \
             monitoring.coreos.com/v1 --namespace cloud -- keystone /charts/keystone.tgz\n"
        );
        assert_eq!(stage.left("values"), "{\"password\":\"hunter22\"}\n");
    }

    #[tokio::test]
    async fn what_helm_complains_of_is_told_without_secrets() {
        let (refused, _stage) = rendered("echo 'Error: template: x: hunter22 is no number' >&2\nexit 1").await;
        let said = refused.unwrap_err().to_string();
        assert!(said.starts_with("helm can't render cloud/keystone: ") && said.contains("is no number"), "{said}");
        assert!(!said.contains("hunter22"), "{said}");
    }
}
