//! Downloads charts from repositories and registries with `helm pull`, so that osdpl need not implement the protocols
//! of chart repositories and registries.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use tokio::process::Command;

use super::ChartReference;
use crate::charts::Pull;
use crate::charts::pull::{PullFailure, Request};

/// The timeout of one pull. It is long enough for the index of a large repository and the chart's archive on a slow
/// line.
const DEADLINE: Duration = Duration::from_mins(3);

/// The proxy that helm uses for `http://` addresses when it pulls from an `https://` or `oci://` repository. Nothing
/// listens at the proxy's port. So the pull fails if the repository redirects helm to an `http://` address, or has such
/// an address in its index.
///
/// The pull can still use `http://` addresses of loopback and of hosts in `NO_PROXY`, because Go's HTTP client uses no
/// proxy for these addresses (`golang.org/x/net/http/httpproxy`).
const NO_PLAIN_HTTP: &str = "http://127.0.0.1:0";

/// The text in helm's error message with which Go's HTTP client reports that it can't reach the proxy
/// [`NO_PLAIN_HTTP`]. The requested address is before this text.
const PROXY_ERROR: &str = ": proxyconnect tcp: dial tcp 127.0.0.1:0";

/// The maximum number of characters that osdpl copies from helm's error message into a [`PullFailure`].
const MAX_LENGTH: usize = 400;

/// A function that creates a helm command without arguments. Its parameter is the slot: the name of the folder that
/// contains helm's caches.
type Start = Box<dyn Fn(&str) -> Command + Send + Sync>;

/// Downloads charts by running `helm pull`.
pub struct Puller {
    start: Start,
}

impl Puller {
    /// Creates a puller. The function `start`, for example `move |slot| program.command(slot)`, creates the helm
    /// commands that the puller runs.
    pub fn new(start: impl Fn(&str) -> Command + Send + Sync + 'static) -> Self {
        Self { start: Box::new(start) }
    }

    /// Runs helm with `arguments` and returns helm's stdout. helm stores its caches and data in the folder `home`.
    /// `repository` is the address of the repository that the arguments name.
    async fn run(&self, home: &Path, arguments: Vec<String>, repository: &str) -> Result<Vec<u8>, PullFailure> {
        let mut command = (self.start)("pull");
        if !repository.starts_with("http://") {
            command.envs(["HTTP_PROXY", "http_proxy"].map(|name| (name, NO_PLAIN_HTTP)));
        }
        // helm 4 keeps each pulled archive in its cache. So put the cache into the folder `home`, which the caller
        // deletes after the pull.
        for folder in ["HELM_CACHE_HOME", "HELM_DATA_HOME"] {
            command.env(folder, home.join(folder));
        }
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let output = tokio::time::timeout(DEADLINE, command.output())
            .await
            .map_err(|_| {
                PullFailure::Unreachable(format!("helm did not finish within {} seconds", DEADLINE.as_secs()))
            })?
            .map_err(|error| PullFailure::Program(error.to_string()))?;
        if output.status.success() { Ok(output.stdout) } else { Err(classify(&output.stderr)) }
    }
}

impl Pull for Puller {
    fn pull<'a>(&'a self, request: &'a Request, into: &'a Path) -> BoxFuture<'a, Result<PathBuf, PullFailure>> {
        async move {
            let mut arguments = vec!["pull".to_owned()];
            let chart = reference(request);
            arguments.extend([chart.name].into_iter().chain(chart.flags));
            arguments.extend(["--destination".to_owned(), into.display().to_string()]);
            let home = into.join("helm");
            self.run(&home, arguments, &request.repository).await?;
            archive(into).await
        }
        .boxed()
    }

    fn newest<'a>(&'a self, repository: &'a str, name: &'a str) -> BoxFuture<'a, Result<String, PullFailure>> {
        async move {
            #[derive(Deserialize)]
            struct Metadata {
                version: String,
            }
            let home = tempfile::tempdir().map_err(|error| PullFailure::Unwritable(error.to_string()))?;
            let mut arguments = vec!["show".to_owned(), "chart".to_owned()];
            let chart = chart(repository, name);
            arguments.extend([chart.name].into_iter().chain(chart.flags));
            let output = self.run(home.path(), arguments, repository).await?;
            let metadata: Metadata = osdpl_values::yaml::parse("helm show chart", &String::from_utf8_lossy(&output))
                .map_err(|error| PullFailure::Unreachable(error.to_string()))?;
            Ok(metadata.version)
        }
        .boxed()
    }
}

/// Returns the arguments with which helm finds one version of a chart in its repository.
pub fn reference(request: &Request) -> ChartReference {
    let mut chart = chart(&request.repository, &request.chart);
    chart.flags.extend(["--version".to_owned(), request.version.clone()]);
    chart
}

/// Returns the arguments that name a chart on helm's command line: the chart's address in a registry, or the chart's
/// name and the flag `--repo` with the repository.
fn chart(repository: &str, name: &str) -> ChartReference {
    if repository.starts_with("oci://") {
        return ChartReference { name: format!("{repository}/{name}"), flags: Vec::new() };
    }
    ChartReference { name: name.to_owned(), flags: vec!["--repo".to_owned(), repository.to_owned()] }
}

/// Returns the path of the chart archive that `helm pull` has written to `folder`. The function searches the folder,
/// because the repository chooses the archive's name.
async fn archive(folder: &Path) -> Result<PathBuf, PullFailure> {
    let unwritable = |error: std::io::Error| PullFailure::Unwritable(error.to_string());
    let mut entries = tokio::fs::read_dir(folder).await.map_err(unwritable)?;
    while let Some(entry) = entries.next_entry().await.map_err(unwritable)? {
        if entry.file_type().await.map_err(unwritable)?.is_file() {
            return Ok(entry.path());
        }
    }
    Err(PullFailure::Unreachable("helm reported success, but wrote no chart archive".to_owned()))
}

/// Returns the kind of failure that helm's stderr describes, with the message.
///
/// The function looks for phrases from the messages of helm 3.22 and 4.3 (`repo.FindChartInRepoURL`, `registry`, Go's
/// `syscall.Errno`). The function treats any other error as a network error.
fn classify(stderr: &[u8]) -> PullFailure {
    let text = String::from_utf8_lossy(stderr);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("helm printed no error");
    let why: String = last.trim_start_matches("Error: ").chars().take(MAX_LENGTH).collect();
    if let Some((address, _)) = why.split_once(PROXY_ERROR) {
        return PullFailure::Unreachable(format!("the repository sends helm to an unencrypted address ({address})"));
    }
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| why.contains(phrase));
    if has(&["no space left on device", "disk quota exceeded"]) {
        PullFailure::Full
    } else if has(&["permission denied", "read-only file system"]) {
        PullFailure::Unwritable(why)
    } else if has(&["401 ", "403 ", "unauthorized", "Unauthorized", "access to the resource is denied", "Forbidden"]) {
        PullFailure::Forbidden(why)
    } else if (why.starts_with("chart ") && has(&["not found in"])) || why.ends_with(": not found") {
        PullFailure::NotFound(why)
    } else {
        PullFailure::Unreachable(why)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChartReference, PullFailure, Request, classify, reference};

    #[test]
    fn classifies_helms_errors() {
        let unreachable = |text: &str| PullFailure::Unreachable(text.to_owned());
        for (output, expected) in [
            (
                "Error: chart \"nope\" version \"1.0.0\" not found in http://127.0.0.1:1 repository\n",
                PullFailure::NotFound(
                    "chart \"nope\" version \"1.0.0\" not found in http://127.0.0.1:1 repository".to_owned(),
                ),
            ),
            (
                "Error: registry.example/charts/nope:1.0.0: not found\n",
                PullFailure::NotFound("registry.example/charts/nope:1.0.0: not found".to_owned()),
            ),
            ("Error: write /cache/x.tgz1: no space left on device\n", PullFailure::Full),
            (
                "Error: open /cache/x.tgz1: permission denied\n",
                PullFailure::Unwritable("open /cache/x.tgz1: permission denied".to_owned()),
            ),
            (
                "Error: failed to fetch http://127.0.0.1:1/index.yaml : 403 Forbidden\n",
                PullFailure::Forbidden("failed to fetch http://127.0.0.1:1/index.yaml : 403 Forbidden".to_owned()),
            ),
            (
                "warning: x\nError: dial tcp 127.0.0.1:1: connect: connection refused\n\n",
                unreachable("dial tcp 127.0.0.1:1: connect: connection refused"),
            ),
            ("", unreachable("helm printed no error")),
        ] {
            assert_eq!(classify(output.as_bytes()), expected, "{output}");
        }
        assert_eq!(classify("x".repeat(9000).as_bytes()), unreachable(&"x".repeat(400)));
    }

    #[test]
    fn a_registrys_chart_is_one_address() {
        let command_line = |repository: &str| {
            let request = Request { repository: repository.into(), chart: "nova".into(), version: "1.2.3".into() };
            let ChartReference { name, flags } = reference(&request);
            format!("{name} {}", flags.join(" "))
        };
        assert_eq!(command_line("oci://registry.example/charts"), "oci://registry.example/charts/nova --version 1.2.3");
        assert_eq!(command_line("https://charts.example"), "nova --repo https://charts.example --version 1.2.3");
    }
}
