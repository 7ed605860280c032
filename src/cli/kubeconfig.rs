//! Reads kubeconfig files.
//!
//! Do not call the functions of the crate `kube` that read kubeconfig files. They parse YAML directly into kube's
//! types, and the compiler generates another copy of the YAML parser for each type. A single call would make the
//! program 0.3 MB larger. This module first converts the YAML to JSON, as osdpl does with all YAML of users.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use osdpl_values::yaml::{self, LocatedNode};

/// The reason why a kubeconfig can't be read or used. The error never quotes the file, which may contain tokens.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}: {error}", file.display())]
    Read { file: PathBuf, error: std::io::Error },
    #[error("{0}")]
    Parse(yaml::Error),
    #[error(transparent)]
    Select(#[from] KubeconfigError),
}

/// Reads one kubeconfig file. Resolves its relative paths against the file's folder, like kubectl.
#[allow(clippy::disallowed_methods, reason = "the command line reads the file that its user names")]
pub(crate) fn read_from(file: &Path) -> Result<Kubeconfig, Error> {
    let text = std::fs::read_to_string(file).map_err(|error| Error::Read { file: file.to_owned(), error })?;
    let name = file.display().to_string();
    let node: LocatedNode = yaml::parse(&name, &text).map_err(Error::Parse)?;
    if node.value().is_null() {
        return Ok(Kubeconfig::default());
    }
    let mut kubeconfig: Kubeconfig = node.deserialize(&name).map_err(Error::Parse)?;
    if let Some(folder) = file.parent() {
        resolve_paths(&mut kubeconfig, folder);
    }
    Ok(kubeconfig)
}

/// Reads the files that KUBECONFIG names, or `~/.kube/config`. If several files set a value, the first file wins.
///
/// Like kubectl, skips files that do not exist.
///
/// # Errors
/// Returns an error if a file can't be read or is not a kubeconfig, or if none of the files exists.
pub(crate) fn read() -> Result<Kubeconfig, Error> {
    merge(&files().0)
}

fn merge(files: &[PathBuf]) -> Result<Kubeconfig, Error> {
    // An error of `try_exists` means that the file can't be accessed. `read_from` then reports the error.
    let is_missing = |file: &PathBuf| matches!(file.try_exists(), Ok(false));
    let none_exists = files.iter().all(is_missing);
    let mut files = files.iter().filter(|file| none_exists || !is_missing(file));
    files.try_fold(Kubeconfig::default(), |merged, file| Ok(merged.merge(read_from(file)?)?))
}

/// Returns the settings with which a client connects to the cluster that the user's kubeconfig files select.
pub(crate) async fn from_files(options: &KubeConfigOptions) -> Result<Config, Error> {
    Ok(Config::from_custom_kubeconfig(read()?, options).await?)
}

/// Returns the settings with which a client connects to the cluster that the user's kubeconfig files select. If the
/// files select no cluster, uses the cluster in which this process runs as a pod.
pub(crate) async fn infer() -> anyhow::Result<Config> {
    let mut config = match from_files(&KubeConfigOptions::default()).await {
        Ok(config) => config,
        Err(error) => Config::incluster().map_err(|pod| anyhow::anyhow!("this is not a pod ({pod}), and {error}"))?,
    };
    config.apply_debug_overrides();
    Ok(config)
}

/// Returns the value of the environment variable KUBECONFIG. Like kubectl, treats an empty value as unset.
pub(crate) fn from_environment() -> Option<OsString> {
    std::env::var_os("KUBECONFIG").filter(|text| !text.is_empty())
}

/// Returns the kubeconfig files that kubectl would read. Also returns the reason for this choice, for error messages:
/// whether the variable KUBECONFIG names the files.
pub(crate) fn files() -> (Vec<PathBuf>, &'static str) {
    if let Some(text) = from_environment() {
        let files = std::env::split_paths(&text).filter(|path| path.as_os_str() != "").collect();
        return (files, "KUBECONFIG names it");
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    (vec![home.join(".kube/config")], "KUBECONFIG is not set")
}

/// Resolves the relative paths in a kubeconfig against `folder`, the folder of the kubeconfig file, as kubectl does.
/// Leaves the command of a credential plugin unchanged if it has no slash: the system searches `PATH` for such a
/// command.
fn resolve_paths(kubeconfig: &mut Kubeconfig, folder: &Path) {
    let resolve = |path: &mut Option<String>| {
        // An absolute path stays as it is, because `join` returns it unchanged.
        let joined = path.as_ref().and_then(|path| folder.join(path).to_str().map(str::to_owned));
        if joined.is_some() {
            *path = joined;
        }
    };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority);
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        resolve(&mut user.client_certificate);
        resolve(&mut user.client_key);
        resolve(&mut user.token_file);
        if let Some(exec) = &mut user.exec
            && exec.command.as_deref().is_some_and(|command| command.contains('/'))
        {
            resolve(&mut exec.command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_missing_files_unless_none_exists() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, existing) = (folder.path().join("missing"), folder.path().join("existing"));
        std::fs::write(&existing, "current-context: lab\n").unwrap();
        let merged = merge(&[missing.clone(), existing]).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("lab"));
        assert!(matches!(merge(&[missing]), Err(Error::Read { .. })));
    }
}
