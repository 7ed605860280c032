//! Where the command line takes charts from.

#![allow(clippy::disallowed_methods, reason = "the command line reads what its user names")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::common::Unread;
use osdpl_operator::charts::pull::NoPull;
use osdpl_operator::charts::{Lock, Pull, Source, Store};
use osdpl_operator::helm::Program;
use osdpl_operator::helm::pull::Puller;

/// Where charts come from, and what is needed to get them.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// A folder of chart archives or chart directories, or a repository (https://…, oci://…); OpenStack-Helm's where unset
    #[arg(long = "charts", value_name = "FOLDER|URL", env = "OSDPL_CHARTS")]
    source: Option<Source>,
    /// The lock; the built-in one where unset
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Where pulled charts are kept
    #[arg(long, value_name = "FOLDER", env = "OSDPL_CHART_CACHE")]
    cache: Option<PathBuf>,
    /// The helm program, for repositories; `helm` on PATH where unset
    #[arg(long, value_name = "PROGRAM", env = "OSDPL_HELM")]
    helm: Option<PathBuf>,
}

impl Place {
    /// Where charts come from, where it was said.
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The store of this source, by the lock that was named.
    pub async fn open(&self) -> anyhow::Result<Store> {
        Ok(self.store(self.lock()?, self.puller().await?))
    }

    /// A store that says what would be pulled, and pulls nothing.
    pub fn still(&self) -> anyhow::Result<Store> {
        Ok(self.store(self.lock()?, Arc::new(NoPull)))
    }

    fn lock(&self) -> anyhow::Result<Lock> {
        match &self.lock {
            Some(file) => read_lock(file),
            None => Ok(Lock::built_in()?),
        }
    }

    /// The helm program.
    pub async fn program(&self) -> anyhow::Result<Program> {
        Ok(Program::find(self.helm.clone(), self.cache().join("helm")).await?)
    }

    /// The store of this source, by another lock.
    pub fn store(&self, lock: Lock, pull: Arc<dyn Pull>) -> Store {
        Store::new(self.cache(), self.source.clone().unwrap_or_default(), lock, pull)
    }

    /// What pulls from a repository; a folder needs no helm.
    pub async fn puller(&self) -> anyhow::Result<Arc<dyn Pull>> {
        if let Some(Source::Folder(_)) = self.source {
            return Ok(Arc::new(NoPull));
        }
        let program = self.program().await?;
        Ok(Arc::new(Puller::new(move |slot| program.command(slot))))
    }

    fn cache(&self) -> PathBuf {
        let below = |name: &str, path: &str| std::env::var_os(name).map(|folder| Path::new(&folder).join(path));
        let default = || below("XDG_CACHE_HOME", "osdpl/charts").or_else(|| below("HOME", ".cache/osdpl/charts"));
        self.cache.clone().or_else(default).unwrap_or_else(|| std::env::temp_dir().join("osdpl-charts"))
    }
}

/// A lock out of a file.
pub fn read_lock(file: &Path) -> anyhow::Result<Lock> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| Unread::new(format_args!("the lock {shown}"), &error))?;
    Ok(Lock::parse(&shown, &text)?)
}
