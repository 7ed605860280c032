//! The helm program itself: finding it, judging its version, and the environment it is started in.
//!
//! Nothing of the operator's own environment reaches helm by accident: the list of variables that pass is written down
//! here, everything else is dropped. A stray `HELM_NAMESPACE` or `HELM_KUBEAPISERVER` would otherwise redirect a release.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use tokio::process::Command;

use super::Error;

/// The oldest helm 3 that has every flag we pass (`--take-ownership` came with 3.17, `--labels` with 3.13).
const OLDEST: Version = Version { major: 3, minor: 17 };

/// The newest major whose command line is known; a later one may have renamed what we pass.
const NEWEST_MAJOR: u32 = 4;

/// `helm version` needs no cluster and answers in well under a second; a program that does not is not helm.
const VERSION_DEADLINE: Duration = Duration::from_secs(20);

/// Where helm keeps its records, whatever the environment says: we watch Secrets.
pub const DRIVER: (&str, &str) = ("HELM_DRIVER", "secret");

/// What of the operator's environment helm may see: where programs are, how to reach the outside, whom to trust.
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

/// Go collects garbage less often, up to a bound: 15 % less processor time (nova 1.25 → 1.07 s, keystone 0.80 → 0.69 s, helm
/// 4.3.1), for 120 MB instead of 80 MB at the peak. Twelve slots share few cores, so time is what is short.
const GARBAGE_COLLECTION: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "160MiB")];

/// Major and minor version of a helm program; patch levels never changed the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 3 or 4; part of every release's input digest, because the two render and apply differently.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = ();

    /// Reads `v4.3.1`, `v4.3`, `3.22.0+gabcdef` and the like; anything without a major and a minor number is refused.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.trim().trim_start_matches('v').splitn(3, ['.', '+', '-']);
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or(());
        Ok(Self { major: number()?, minor: number()? })
    }
}

/// A helm program that was found, asked for its version and accepted.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    version: Version,
    home: PathBuf,
    kubeconfig: Option<PathBuf>,
}

impl Program {
    /// Finds helm (`path`, else `helm` on `PATH`), asks it for its version and accepts 3.17 and newer, and every 4.x.
    ///
    /// `home` is a writable folder of ours; each slot's `HELM_*_HOME` lies below it.
    ///
    /// # Errors
    /// When there is no helm, it does not run, or it is too old.
    pub async fn find(path: Option<PathBuf>, home: PathBuf) -> Result<Self, Error> {
        let path = path.unwrap_or_else(|| PathBuf::from("helm"));
        let mut program = Self { path, version: OLDEST, home, kubeconfig: None };
        let said = program.ask_version().await?;
        program.version =
            said.parse().map_err(|()| Error::NotHelm { path: program.path.clone(), said: shortened(&said) })?;
        if program.version < OLDEST || program.version.major > NEWEST_MAJOR {
            return Err(Error::WrongVersion { path: program.path, version: program.version, oldest: OLDEST });
        }
        Ok(program)
    }

    /// The same program talking to the cluster that this kubeconfig names.
    #[must_use]
    pub fn with_kubeconfig(self, kubeconfig: PathBuf) -> Self {
        Self { kubeconfig: Some(kubeconfig), ..self }
    }

    /// Which helm it is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where the program lies, as given or as found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command of this program in our environment, no arguments yet; stdin is closed, stdout and stderr go nowhere.
    ///
    /// `slot` names the folder for helm's caches: two commands that run at once need two slots.
    pub fn command(&self, slot: &str) -> Command {
        let mut command = bare(self.path.as_os_str());
        self.dress(&mut command, slot);
        command
    }

    /// The same command, but started by way of `wrapper` (our own program, see [`super::exec`]), which dies with us.
    pub(super) fn command_through(&self, wrapper: &Path, slot: &str) -> Command {
        let mut command = bare(wrapper.as_os_str());
        self.dress(&mut command, slot);
        command.arg(super::exec::SUBCOMMAND).arg(std::process::id().to_string()).arg(&self.path);
        command
    }

    fn dress(&self, command: &mut Command, slot: &str) {
        let own = self.home.join(slot);
        let kubeconfig = self.kubeconfig.as_deref().unwrap_or(Path::new("/dev/null"));
        command
            .env_clear()
            .envs(PASSED_ON.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value))))
            .env("HOME", &own)
            .env("HELM_CACHE_HOME", own.join("cache"))
            .env("HELM_CONFIG_HOME", own.join("config"))
            .env("HELM_DATA_HOME", own.join("data"))
            .env(DRIVER.0, DRIVER.1)
            .env("HELM_NO_PLUGINS", "1")
            .env("NO_COLOR", "1")
            .envs(GARBAGE_COLLECTION)
            // Without a kubeconfig helm would fall back to the one in HOME, or to the pod's own token.
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }

    async fn ask_version(&self) -> Result<String, Error> {
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

#[allow(clippy::disallowed_methods, reason = "the one place where a helm process comes from")]
fn bare(program: &OsStr) -> Command {
    Command::new(program)
}

fn shortened(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(80).collect()
}

#[cfg(test)]
mod tests;
