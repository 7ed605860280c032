//! Finds the helm program, checks its version, and sets its environment.
//!
//! helm receives only the environment variables that this module lists. It does not inherit other variables of the
//! operator, because some of them, such as `HELM_NAMESPACE` or `HELM_KUBEAPISERVER`, could make helm install a release
//! in another namespace or cluster.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::{Error, Version};

/// The oldest version of helm 3 that osdpl supports. It has all flags that osdpl uses; the newest of them, `--labels`,
/// came with helm 3.13.
const OLDEST: Version = Version { major: 3, minor: 17 };

/// The newest major version that osdpl supports. A newer major version may have renamed flags.
const NEWEST_MAJOR: u32 = 4;

/// The timeout of `helm version`, which needs no cluster and takes well under a second.
const VERSION_DEADLINE: Duration = Duration::from_secs(20);

/// The environment variable and its value with which helm stores release records in Secrets. The operator watches these
/// Secrets.
pub const STORAGE_DRIVER: (&str, &str) = ("HELM_DRIVER", "secret");

/// The environment variables that helm inherits from the operator. They say where helm finds programs, temporary files,
/// proxies and trusted certificates.
const PASSED_ON: [&str; 12] = [
    "PATH",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The environment variables that make helm's Go runtime collect garbage less often, up to a memory limit.
///
/// They save 15 % of helm's processor time (nova 1.25 → 1.07 s, keystone 0.80 → 0.69 s, helm 4.3.1). In return, the
/// peak memory of a helm process grows from 80 MB to 120 MB. Up to twelve helm processes share a few cores, so
/// processor time is scarcer than memory.
const GARBAGE_COLLECTION: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "160MiB")];

/// A helm program with a supported version.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    version: Version,
    home: PathBuf,
    kubeconfig: Option<PathBuf>,
}

impl Program {
    /// Finds the helm program, and checks its version: helm 3 from version 3.17 on, or helm 4.
    ///
    /// If `path` is `None`, the function looks for `helm` on `PATH`.
    ///
    /// `home` is a writable folder of the operator. It contains a folder with helm's files (`HELM_*_HOME`) for each
    /// slot. helm processes that run at the same time use different slots, so that they do not overwrite each other's
    /// files.
    ///
    /// # Errors
    /// Returns an error if helm is missing, cannot run, or has an unsupported version.
    pub async fn find(path: Option<PathBuf>, home: PathBuf) -> Result<Self, Error> {
        let path = path.unwrap_or_else(|| PathBuf::from("helm"));
        let mut program = Self { path, version: OLDEST, home, kubeconfig: None };
        let output = program.read_version().await?;
        program.version =
            output.parse().map_err(|()| Error::NotHelm { path: program.path.clone(), output: first_line(&output) })?;
        if program.version < OLDEST || program.version.major > NEWEST_MAJOR {
            return Err(Error::WrongVersion { path: program.path, version: program.version, oldest: OLDEST });
        }
        Ok(program)
    }

    /// Returns this program with a kubeconfig: all commands of the result use the cluster that the file `kubeconfig`
    /// names.
    #[must_use]
    pub fn with_kubeconfig(self, kubeconfig: PathBuf) -> Self {
        Self { kubeconfig: Some(kubeconfig), ..self }
    }

    /// Returns the version of the helm program.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the path that the caller gave to [`Program::find`]. Without such a path, returns the name `helm`, which
    /// the system looks up on `PATH`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a command of this program without arguments. Its stdin is empty, and its stdout and stderr are
    /// discarded.
    ///
    /// `slot` is the name of the folder that contains helm's caches. Concurrent commands need different slots, so that
    /// they do not overwrite each other's files.
    pub fn command(&self, slot: &str) -> Command {
        let mut command = new_command(self.path.as_os_str());
        self.set_environment(&mut command, slot);
        command
    }

    /// Returns a command that starts helm through the program `wrapper`, so that helm ends when the operator ends.
    ///
    /// The wrapper is usually the operator's own program, see [`super::exec`].
    pub(super) fn command_through(&self, wrapper: &Path, slot: &str) -> Command {
        let mut command = new_command(wrapper.as_os_str());
        self.set_environment(&mut command, slot);
        command.arg(super::exec::SUBCOMMAND).arg(std::process::id().to_string()).arg(&self.path);
        command
    }

    fn set_environment(&self, command: &mut Command, slot: &str) {
        let own = self.home.join(slot);
        let kubeconfig = self.kubeconfig.as_deref().unwrap_or(Path::new("/dev/null"));
        command
            .env_clear()
            .envs(PASSED_ON.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value))))
            .env("HOME", &own)
            .env("HELM_CACHE_HOME", own.join("cache"))
            .env("HELM_CONFIG_HOME", own.join("config"))
            .env("HELM_DATA_HOME", own.join("data"))
            .env(STORAGE_DRIVER.0, STORAGE_DRIVER.1)
            .env("HELM_NO_PLUGINS", "1")
            .env("NO_COLOR", "1")
            .envs(GARBAGE_COLLECTION)
            // Set this variable even if the program has no kubeconfig: otherwise, helm would use the kubeconfig in HOME
            // or the pod's token.
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }

    async fn read_version(&self) -> Result<String, Error> {
        let start = |why| Error::Start { path: self.path.clone(), why };
        let mut command = self.command("version");
        command.args(["version", "--template", "{{.Version}}"]).stdout(Stdio::piped()).kill_on_drop(true);
        let output = tokio::time::timeout(VERSION_DEADLINE, command.output())
            .await
            .map_err(|_| start(std::io::ErrorKind::TimedOut.into()))?
            .map_err(start)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[allow(clippy::disallowed_methods, reason = "the only place that creates helm processes")]
fn new_command(program: &OsStr) -> Command {
    Command::new(program)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(80).collect()
}

#[cfg(test)]
mod tests;
