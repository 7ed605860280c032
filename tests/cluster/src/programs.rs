//! Provides the programs of a control plane and of a real node: from the cache, from PATH if the version is suitable,
//! or by building them from their published Go modules.
//!
//! The cache is a folder outside of the repository: `$OSDPL_CACHE`, else `$XDG_CACHE_HOME/osdpl`, else
//! `~/.cache/osdpl`, else (without a home) `osdpl` in the folder for temporary files. Its subfolder `programs` contains
//! one folder for each built program. The name of a program's folder contains a digest of all inputs of the build, such
//! as `go.mod`, the build flags and Go's version. A folder gets this name only when the build is complete, so that no
//! process uses the result of an interrupted build.

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
pub(crate) use build::{lock, remove_leftovers, root};
pub(crate) use recipe::Recipe;

/// A program of the control plane or of a real node, or a client of the API server (kubectl, helm).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// etcd, the store of the API server.
    Etcd,
    /// kube-apiserver, the API server.
    KubeApiserver,
    /// kube-controller-manager, with the controllers of Kubernetes: Deployments, Jobs, the garbage collector …
    KubeControllerManager,
    /// kube-scheduler, which assigns pods to nodes.
    KubeScheduler,
    /// kwok, which simulates the kubelets.
    Kwok,
    /// kubectl, the command line of Kubernetes.
    Kubectl,
    /// helm, major version 4.
    #[value(name = "helm4")]
    #[serde(rename = "helm4")]
    Helm4,
    /// helm, major version 3.
    #[value(name = "helm3")]
    #[serde(rename = "helm3")]
    Helm3,
    /// The kubelet, which runs the pods of a real node.
    Kubelet,
    /// kube-proxy, which implements Services on a real node.
    KubeProxy,
    /// containerd, which runs the containers of a real node.
    Containerd,
    /// containerd's shim, the parent process of each container.
    ContainerdShim,
    /// ctr, the command line of containerd.
    Ctr,
    /// `CoreDNS`, the DNS server of a real cluster.
    Coredns,
    /// This repository's replacement for kubernetes-entrypoint, which waits until a pod's dependencies are available.
    /// It is also the program of the pause container.
    Entrypoint,
    /// cert-manager: its controllers, its webhook and its CA injector in one program.
    CertManager,
}

impl Program {
    /// The programs of every control plane, and kubectl.
    pub const CONTROL_PLANE: [Self; 6] =
        [Self::Etcd, Self::KubeApiserver, Self::KubeControllerManager, Self::KubeScheduler, Self::Kwok, Self::Kubectl];

    /// The programs that every real cluster needs in addition to [`Self::CONTROL_PLANE`]. They run on the root file
    /// system of its node, or in the containers there.
    pub const NODE: [Self; 7] = [
        Self::Kubelet,
        Self::KubeProxy,
        Self::Containerd,
        Self::ContainerdShim,
        Self::Ctr,
        Self::Coredns,
        Self::Entrypoint,
    ];

    /// Every program that this crate can provide.
    pub const ALL: [Self; 16] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kwok,
        Self::Kubectl,
        Self::Helm4,
        Self::Helm3,
        Self::Kubelet,
        Self::KubeProxy,
        Self::Containerd,
        Self::ContainerdShim,
        Self::Ctr,
        Self::Coredns,
        Self::Entrypoint,
        Self::CertManager,
    ];

    /// Returns the name of the program's executable file, which is `helm` for both versions of helm.
    pub fn executable(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Kubectl => "kubectl",
            Self::Helm4 | Self::Helm3 => "helm",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Containerd => "containerd",
            Self::ContainerdShim => "containerd-shim-runc-v2",
            Self::Ctr => "ctr",
            Self::Coredns => "coredns",
            Self::Entrypoint => "kubernetes-entrypoint",
            Self::CertManager => "cert-manager",
        }
    }

    /// Whether the program runs on the root file system of a real node or of a container.
    pub(crate) fn runs_on_a_node(self) -> bool {
        Self::NODE.contains(&self) || self == Self::CertManager
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

/// The path of each program that the caller of [`ensure`] requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs(BTreeMap<Program, PathBuf>);

impl FromIterator<(Program, PathBuf)> for Programs {
    fn from_iter<T: IntoIterator<Item = (Program, PathBuf)>>(programs: T) -> Self {
        Self(programs.into_iter().collect())
    }
}

impl Programs {
    /// Returns the path of a program.
    ///
    /// # Errors
    /// Returns an error if the caller did not request the program.
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
    /// Creates links to kubectl and helm in the subfolder `bin` of a cluster's folder. The link `helm` leads to helm 4
    /// if the caller requested both helm 3 and helm 4.
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
                // Remove the link of an earlier call, which may lead to another version of the program.
                let _ = std::fs::remove_file(&link);
                std::os::unix::fs::symlink(path, &link).map_err(Error::file("create", &link))?;
            }
        }
        Ok(())
    }
}

/// Finds the programs `wanted`, and builds each program that it does not find. Calls `report` with the progress of each
/// build. A build blocks the thread for minutes. If another process is already building the program, this function
/// waits for the result of that build.
///
/// A program in the cache takes precedence over one in PATH, because the cached program has exactly the tested version.
/// A program in PATH must have the same minor version as the tested one (etcd: 3.5.13 or newer, because older versions
/// report no watch progress). Go is needed for a build, and also to find a program in the cache, because the folder
/// names in the cache depend on Go's version.
///
/// # Errors
/// Returns an error if a program must be built and Go is missing or too old, or if a build fails.
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

/// Returns the folder with the source of a program's module: its folder in Go's module cache. Downloads the module if it
/// is missing.
///
/// # Errors
/// Returns an error if Go cannot download the module.
pub(crate) fn module(program: Program) -> Result<PathBuf, Error> {
    build::module(&Recipe::of(program))
}

/// Prints the progress of a build as one line to standard error. Callers can pass this function to [`ensure`].
pub fn print_progress(progress: &Progress) {
    eprintln!("{progress}");
}
