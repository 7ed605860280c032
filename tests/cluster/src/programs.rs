//! The programs of a control plane: found in the cache, found in PATH with a suitable version, or built from their
//! published Go modules.
//!
//! The cache is outside of any clone (`$OSDPL_CACHE`, else `$XDG_CACHE_HOME/osdpl`, else `~/.cache/osdpl`), with one
//! folder per program. A folder's name contains a key of `go.mod`, `go.sum`, the build flags and Go's version. It is
//! renamed into place when the program is complete, so interrupted builds are ignored and concurrent builds do not mix.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::folder::Folder;

mod build;
mod path;
pub mod python;
mod recipe;

pub use build::Progress;
pub(crate) use recipe::Recipe;

/// A program of the control plane, or one of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// The API server's store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers of Kubernetes: Deployments, Jobs, the garbage collector …
    KubeControllerManager,
    /// Assigns pods to nodes.
    KubeScheduler,
    /// Simulates the kubelets.
    Kwok,
    /// The command line of Kubernetes.
    Kubectl,
    /// helm 4.
    #[value(name = "helm4")]
    #[serde(rename = "helm4")]
    Helm4,
    /// helm 3.
    #[value(name = "helm3")]
    #[serde(rename = "helm3")]
    Helm3,
}

impl Program {
    /// The programs of a control plane, without helm.
    pub const CONTROL_PLANE: [Self; 6] =
        [Self::Etcd, Self::KubeApiserver, Self::KubeControllerManager, Self::KubeScheduler, Self::Kwok, Self::Kubectl];

    /// Every program.
    pub const ALL: [Self; 8] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kwok,
        Self::Kubectl,
        Self::Helm4,
        Self::Helm3,
    ];

    /// Returns the name of its executable file. Both versions of helm are called `helm`, as users and scripts expect.
    pub fn executable(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Kubectl => "kubectl",
            Self::Helm4 | Self::Helm3 => "helm",
        }
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Helm4 => "helm 4",
            Self::Helm3 => "helm 3",
            other => other.executable(),
        })
    }
}

/// The paths of the requested programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs(BTreeMap<Program, PathBuf>);

impl Programs {
    /// Returns the path of a program.
    ///
    /// # Errors
    /// If it was not requested.
    pub fn path(&self, program: Program) -> Result<&Path, Error> {
        let path = self.0.get(&program).map(PathBuf::as_path);
        path.ok_or_else(|| Error::NotAskedFor { program: program.to_string() })
    }

    /// Returns every program with its path.
    pub fn iter(&self) -> impl Iterator<Item = (Program, &Path)> {
        self.0.iter().map(|(program, path)| (*program, path.as_path()))
    }
}

impl Programs {
    /// Links kubectl and helm into the folder's `bin` under their usual names; helm is helm 4 if both are requested.
    pub(crate) fn link(&self, folder: &Folder) -> Result<(), Error> {
        let has_helm4 = self.0.contains_key(&Program::Helm4);
        for (program, path) in self.iter() {
            let names: &[&str] = match program {
                Program::Kubectl => &["kubectl"],
                Program::Helm4 => &["helm", "helm4"],
                Program::Helm3 if has_helm4 => &["helm3"],
                Program::Helm3 => &["helm", "helm3"],
                _ => &[],
            };
            for name in names {
                let link = folder.bin().join(name);
                // Replaces an older link.
                let _ = std::fs::remove_file(&link);
                std::os::unix::fs::symlink(path, &link).map_err(Error::file("create", &link))?;
            }
        }
        Ok(())
    }
}

/// Finds or builds `wanted` and reports every build with `report`. Blocks, for minutes on a new machine, otherwise for
/// milliseconds. A second caller waits for the builds of the first one.
///
/// The cache comes first, because it has exactly the tested version; then PATH, with the same minor version (etcd:
/// 3.5.13 or newer, older ones have no watch progress). Go is only needed if something must be built.
///
/// # Errors
/// If the toolchain is missing or a build fails.
pub fn ensure(wanted: &[Program], report: &mut dyn FnMut(&Progress)) -> Result<Programs, Error> {
    let go = build::Go::find();
    let mut found = BTreeMap::new();
    let mut missing = Vec::new();
    for program in wanted {
        let recipe = Recipe::of(*program);
        let cached = go.as_ref().ok().map(|go| build::target(&recipe, go)).transpose()?;
        match cached.filter(|path| path.is_file()).or_else(|| path::find(&recipe)) {
            Some(path) => drop(found.insert(*program, path)),
            None if missing.contains(program) => {}
            None => missing.push(*program),
        }
    }
    if let Some(first) = missing.first() {
        let go = go.map_err(|reason| build::no_go(&Recipe::of(*first), reason))?;
        for (index, program) in missing.iter().enumerate() {
            let position = build::Position { number: index + 1, of: missing.len() };
            found.insert(*program, build::build(&Recipe::of(*program), &go, position, report)?);
        }
    }
    Ok(Programs(found))
}

/// Prints progress on standard error, one line per step.
pub fn print_progress(progress: &Progress) {
    eprintln!("{progress}");
}
