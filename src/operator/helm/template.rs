//! Renders the manifest of a release with `helm template`, which needs no cluster.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdout, Command};

use super::child::feed;
use super::failure::condense;
use super::limits::{limit_memory, limit_processor_time, memory_error};
use super::runner::document;
use super::tail::Tail;
use super::{Error, Program, ReleaseKey};
use osdpl_core::scrub::Scrubber;

/// The timeout of `helm template`. The limit has a large reserve: helm renders the largest chart in two seconds.
/// The operator waits less long, see `render_crds`.
const DEADLINE: Duration = Duration::from_mins(2);

/// The maximum length of a manifest, in bytes. osdpl reads no release record with a longer content.
const MANIFEST_MAX: u64 = 16 << 20;

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
    /// `scrubber` removes secrets from helm's error messages. If the caller drops the future, helm is killed.
    ///
    /// # Errors
    /// Returns an error if helm cannot be started, exceeds the timeout or a limit, or fails.
    pub async fn render(&self, program: &Program, scrubber: &Scrubber) -> Result<String, Error> {
        let failed = |output: String| Error::Template { release: self.release.to_string(), output };
        let start = |why| Error::Start { path: program.path().to_owned(), why };
        let input = document(self.values).map_err(|refused| failed(refused.to_string()))?;
        let mut command = program.command("template");
        command.args(self.arguments());
        let ended = tokio::time::timeout(DEADLINE, run(command, input)).await;
        let ended = ended.map_err(|_| failed(format!("no result within {} s", DEADLINE.as_secs())))?;
        let Ended { manifest, errors, status } = ended.map_err(start)?;
        let Some(manifest) = manifest else {
            let limit = MANIFEST_MAX >> 20;
            return Err(failed(format!("its manifest is longer than {limit} MiB, more than any release needs")));
        };
        if !status.success() {
            let text = errors.text(scrubber);
            let message = memory_error(&text).unwrap_or_else(|| condense(&text));
            return Err(failed(if message.is_empty() { format!("helm ended with {status}") } else { message }));
        }
        String::from_utf8(manifest).map_err(|_| failed("its output is not UTF-8".to_owned()))
    }
}

/// The output and the exit status of a process of `helm template`.
struct Ended {
    /// The content of stdout; `None` if it was longer than [`MANIFEST_MAX`].
    manifest: Option<Vec<u8>>,
    /// The beginning and the end of stderr.
    errors: Tail,
    status: ExitStatus,
}

/// Runs a command of helm that gets `input` on its stdin. If the caller drops the future, the process is killed.
async fn run(mut command: Command, input: Vec<u8>) -> io::Result<Ended> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    limit_memory(&child);
    // If someone kills the operator, nobody kills this process, which could then run for ever.
    limit_processor_time(&child, DEADLINE);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let fed = async {
        if let Some(stdin) = stdin {
            feed(stdin, input).await;
        }
    };
    let (manifest, errors, ()) = tokio::join!(read_manifest(stdout), read_errors(stderr), fed);
    Ok(Ended { manifest: manifest?, errors, status: child.wait().await? })
}

/// Reads helm's stdout; returns `None` if it is longer than [`MANIFEST_MAX`]. The function then closes the pipe, and
/// helm ends at its next write.
async fn read_manifest(stdout: Option<ChildStdout>) -> io::Result<Option<Vec<u8>>> {
    let mut manifest = Vec::new();
    let Some(stdout) = stdout else { return Ok(Some(manifest)) };
    let mut limited = stdout.take(MANIFEST_MAX + 1);
    limited.read_to_end(&mut manifest).await?;
    Ok((limited.limit() > 0).then_some(manifest))
}

async fn read_errors(stderr: Option<ChildStderr>) -> Tail {
    let mut errors = Tail::default();
    let Some(mut stderr) = stderr else { return errors };
    let mut buffer = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        errors.push(&buffer[..length]);
    }
    errors
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

    #[tokio::test]
    async fn limits_the_memory_and_the_processor_time() {
        // The operator sets the limits shortly after the start of helm.
        let script = "until grep -q '^Max cpu time *120 ' /proc/$$/limits; do sleep 0.01; done; cat /proc/$$/limits";
        let (limits, _helm) = rendered(script).await;
        let limits = limits.unwrap();
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max data size")).unwrap();
        assert_eq!(limit.split_whitespace().collect::<Vec<_>>(), ["536870912", "536870912", "bytes"]);
    }

    #[tokio::test]
    async fn stops_helm_if_the_manifest_is_too_long() {
        let (refused, _helm) = rendered("exec yes").await;
        let output = refused.unwrap_err().to_string();
        assert!(output.contains("its manifest is longer than 16 MiB"), "{output}");
    }

    #[tokio::test]
    async fn says_that_helm_needs_too_much_memory() {
        let script = "printf 'fatal error: runtime: out of memory\\n\\ngoroutine 1 [running]:\\n' >&2\nexit 2";
        let (refused, _helm) = rendered(script).await;
        let output = refused.unwrap_err().to_string();
        assert!(output.contains("helm needed more than 512 MiB of memory"), "{output}");
        assert!(!output.contains("goroutine"), "{output}");
        let (refused, _helm) = rendered("kill -KILL $$").await;
        let output = refused.unwrap_err().to_string();
        assert!(output.contains("helm ended with signal: 9 (SIGKILL)"), "{output}");
    }
}
