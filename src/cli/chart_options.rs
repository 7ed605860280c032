//! Defines the command line options that select charts, and opens the chart store with the selected charts.

#![allow(clippy::disallowed_methods, reason = "the user names these files on the command line")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::duration;
use super::input::ReadError;
use super::limited_pull::LimitedPull;
use osdpl_operator::charts::pull::NoPull;
use osdpl_operator::charts::{Lock, Pull, Source, Store};
use osdpl_operator::helm::Program;
use osdpl_operator::helm::pull::Puller;

/// The options that select charts, and that control how osdpl pulls charts.
#[derive(Debug, clap::Args)]
pub(crate) struct ChartOptions {
    /// A folder of chart archives or chart directories, or a repository (https://…, oci://…); default: the repository
    /// of OpenStack-Helm
    #[arg(long = "charts", value_name = "FOLDER|URL", env = "OSDPL_CHARTS")]
    source: Option<Source>,
    /// Accept http:// addresses in --charts and in the lock. Anyone on the network can then replace the charts that have
    /// no digest in the lock
    #[arg(long, env = "OSDPL_ALLOW_HTTP_CHARTS")]
    allow_http_charts: bool,
    /// The lock file, which lists the version and digest of each chart; default: the built-in lock
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// The folder in which osdpl caches the charts that it pulls
    #[arg(long, value_name = "FOLDER", env = "OSDPL_CHART_CACHE")]
    cache: Option<PathBuf>,
    /// The helm program, which pulls charts from a repository; default: `helm` on PATH
    #[arg(long, value_name = "PROGRAM", env = "OSDPL_HELM")]
    helm: Option<PathBuf>,
    /// The time to wait for each chart from a repository: a span such as 1m or 30s, or a number of seconds. 0 and every
    /// span above 3m mean 3m
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = duration::parse_limit)]
    pull_timeout: Duration,
}

impl ChartOptions {
    /// Returns the folder or repository that the user named with `--charts`; `None` without this option.
    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Opens the chart store with the selected source of charts and the selected lock.
    pub(crate) async fn open(&self) -> anyhow::Result<Store> {
        self.store(self.lock()?, self.puller().await?)
    }

    /// Opens a chart store that never pulls charts, but can say which charts it would pull.
    pub(crate) fn open_without_pull(&self) -> anyhow::Result<Store> {
        self.store(self.lock()?, Arc::new(NoPull))
    }

    /// Reads the selected lock file. If the user selected no file, returns the built-in lock.
    fn lock(&self) -> anyhow::Result<Lock> {
        match &self.lock {
            Some(file) => self.read_lock(file),
            None => Ok(Lock::built_in()?),
        }
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, is invalid, or contains an `http://` address that the options do not
    /// allow.
    pub(crate) fn read_lock(&self, file: &Path) -> anyhow::Result<Lock> {
        let name = file.display().to_string();
        let text =
            std::fs::read_to_string(file).map_err(|error| ReadError::new(format_args!("the lock {name}"), &error))?;
        let lock = Lock::parse(&name, &text)?;
        if !self.allow_http_charts {
            lock.check_encrypted(&name)?;
        }
        Ok(lock)
    }

    /// Returns the selected folder or repository.
    ///
    /// # Errors
    /// Returns an error if it is a repository with an `http://` address that the options do not allow.
    fn checked_source(&self) -> anyhow::Result<Source> {
        let source = self.source.clone().unwrap_or_default();
        if !self.allow_http_charts {
            source.check_encrypted()?;
        }
        Ok(source)
    }

    /// Finds the helm program with which osdpl pulls and renders charts.
    pub(crate) async fn program(&self) -> anyhow::Result<Program> {
        Ok(Program::find(self.helm.clone(), self.cache().join("helm")).await?)
    }

    /// Opens the chart store with the selected source of charts. Uses `lock` and ignores the lock file that the options
    /// select.
    pub(crate) fn store(&self, lock: Lock, pull: Arc<dyn Pull>) -> anyhow::Result<Store> {
        Ok(Store::new(self.cache(), self.checked_source()?, lock, pull))
    }

    /// Returns the puller, with which the chart store pulls charts. The puller runs helm. If the source is a folder,
    /// there is nothing to pull, so the function returns a puller that needs no helm.
    pub(crate) async fn puller(&self) -> anyhow::Result<Arc<dyn Pull>> {
        if let Source::Folder(_) = self.checked_source()? {
            return Ok(Arc::new(NoPull));
        }
        let program = self.program().await?;
        let puller = Puller::new(move |slot| program.command(slot));
        Ok(Arc::new(LimitedPull::new(puller, self.pull_timeout)))
    }

    fn cache(&self) -> PathBuf {
        let subfolder =
            |variable: &str, path: &str| std::env::var_os(variable).map(|folder| Path::new(&folder).join(path));
        let default =
            || subfolder("XDG_CACHE_HOME", "osdpl/charts").or_else(|| subfolder("HOME", ".cache/osdpl/charts"));
        self.cache.clone().or_else(default).unwrap_or_else(|| std::env::temp_dir().join("osdpl-charts"))
    }
}
