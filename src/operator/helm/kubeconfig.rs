//! Provides the kubeconfig for helm.
//!
//! In a pod, osdpl generates a kubeconfig, because osdpl does not pass the pod's `KUBE*` variables on to helm. The
//! kubeconfig contains the path of the *file* with the service account's token, and helm's Kubernetes client reads this
//! file again when needed. A copy of the token in the kubeconfig would expire, because the kubelet replaces the token
//! about every hour.

#![allow(clippy::disallowed_methods, reason = "writes the kubeconfig for helm")]

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Error;

/// The folder in which the kubelet mounts the token and the CA certificate of a pod's service account.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The environment variables and flags that decide which kubeconfig helm uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The path of the kubeconfig that the user named in `KUBECONFIG` or with a flag. helm gets the path unchanged.
    pub given: Option<PathBuf>,
    /// The value of `KUBERNETES_SERVICE_HOST`, which Kubernetes sets in each pod.
    pub host: Option<String>,
    /// The value of `KUBERNETES_SERVICE_PORT`, which Kubernetes sets in each pod.
    pub port: Option<String>,
    /// The home folder of the user, which may contain `.kube/config`.
    pub home: Option<PathBuf>,
}

impl Environment {
    /// Reads the settings from the process environment. `given` is the path from a flag and takes precedence over
    /// `KUBECONFIG`.
    pub fn from_environment(given: Option<PathBuf>) -> Self {
        let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            given: given.or_else(|| path("KUBECONFIG")),
            host: text("KUBERNETES_SERVICE_HOST"),
            port: text("KUBERNETES_SERVICE_PORT"),
            home: path("HOME"),
        }
    }
}

/// Returns the path of the kubeconfig for helm.
///
/// If the user named a kubeconfig, returns its path. Otherwise, in a pod, writes a kubeconfig to `folder`: it names the
/// service account's token and CA certificate in the folder `mount`. Outside of a pod, returns the path of the user's
/// `.kube/config`.
///
/// # Errors
/// Returns an error if there is no kubeconfig, or the kubeconfig for the service account cannot be written.
pub fn find_kubeconfig(surroundings: &Environment, mount: &Path, folder: &Path) -> Result<PathBuf, Error> {
    if let Some(given) = &surroundings.given {
        return Ok(given.clone());
    }
    if let Some(host) = &surroundings.host {
        let port = surroundings.port.as_deref().unwrap_or("443");
        return write_for_service_account(host, port, mount, folder);
    }
    match surroundings.home.as_ref().map(|home| home.join(".kube/config")) {
        Some(own) if own.is_file() => Ok(own),
        _ => Err(Error::NoKubeconfig),
    }
}

/// Writes the file `folder/kubeconfig` for the API server at `host`:`port`. It names the service account's token and CA
/// certificate in the folder `mount`.
///
/// Only the Unix user of the operator process can read the file.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn write_for_service_account(host: &str, port: &str, mount: &Path, folder: &Path) -> Result<PathBuf, Error> {
    // An IPv6 address needs brackets in a URL.
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "in-cluster",
        "clusters": [{"name": "in-cluster", "cluster": {
            "server": format!("https://{host}:{port}"),
            "certificate-authority": mount.join("ca.crt"),
        }}],
        "users": [{"name": "in-cluster", "user": {"tokenFile": mount.join("token")}}],
        "contexts": [{"name": "in-cluster", "context": {"cluster": "in-cluster", "user": "in-cluster"}}],
    });
    let path = folder.join("kubeconfig");
    write_private(&path, content.to_string().as_bytes())
        .map_err(|why| Error::WriteKubeconfig { path: path.clone(), why })?;
    Ok(path)
}

/// Writes a file that only the Unix user of this process can read. The function writes a temporary file and renames it,
/// so that no helm process reads a partial file.
fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_given_kubeconfig_takes_precedence_in_a_pod() {
        let surroundings =
            Environment { given: Some("/given".into()), host: Some("10.96.0.1".into()), ..Environment::default() };
        let path = find_kubeconfig(&surroundings, Path::new("/mount"), Path::new("/nowhere")).unwrap();
        assert_eq!(path, Path::new("/given"));
    }

    #[test]
    fn a_pods_kubeconfig_is_private_and_names_the_token_file() {
        let folder = tempfile::tempdir().unwrap();
        let surroundings = Environment { host: Some("fd00::1".into()), ..Environment::default() };
        let path = find_kubeconfig(&surroundings, Path::new("/mount"), folder.path()).unwrap();
        let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(written["clusters"][0]["cluster"]["server"], "https://[fd00::1]:443");
        assert_eq!(written["clusters"][0]["cluster"]["certificate-authority"], "/mount/ca.crt");
        assert_eq!(written["users"][0]["user"], json!({"tokenFile": "/mount/token"}));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_missing_kubeconfig_error_says_what_to_do() {
        let error = find_kubeconfig(&Environment::default(), Path::new("/mount"), Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("set KUBECONFIG"), "{error}");
    }
}
