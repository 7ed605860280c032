//! The folder that contains all files of a cluster.

use std::path::{Path, PathBuf};

use crate::Error;

/// The folder of a cluster, with methods for the path of each file. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// Returns the cluster folder with this path. Creates no files.
    ///
    /// # Errors
    /// Returns an error if `path` is empty, or if it is relative and the working directory is unknown.
    pub fn new(path: &Path) -> Result<Self, Error> {
        std::path::absolute(path).map(Self).map_err(Error::file("resolve", path))
    }

    /// Returns the absolute path of the cluster's folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the file with the cluster's settings. The file is written before any program starts. So a
    /// folder without this file belongs to no cluster.
    pub fn spec(&self) -> PathBuf {
        self.0.join("cluster.json")
    }

    /// Returns the path of the file with the ports of the cluster, and the ID and start time of each running process.
    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// Returns the path of the supervisor's socket. Clients do not connect to this path, because it may be longer than
    /// 107 bytes, the maximum for the path of a socket. They find the socket in `/proc/PID/cwd`, where PID is the
    /// supervisor's process ID.
    pub fn socket(&self) -> PathBuf {
        self.0.join(SOCKET)
    }

    /// Returns the path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    /// Returns the path of the kubeconfig with which a component connects to the API server.
    pub fn kubeconfig_of(&self, component: &str) -> PathBuf {
        self.0.join("pki").join(format!("{component}.kubeconfig"))
    }

    /// Returns the path of a file with a certificate or a cryptographic key, such as `ca.crt`.
    pub fn pki(&self, file: &str) -> PathBuf {
        self.0.join("pki").join(file)
    }

    /// Returns the path of a component's log.
    pub fn log(&self, component: &str) -> PathBuf {
        self.0.join("logs").join(format!("{component}.log"))
    }

    /// Returns the path of the API server's audit log, which has one JSON object per line.
    pub fn audit_log(&self) -> PathBuf {
        self.0.join("audit.log")
    }

    /// Returns the path of the file with the API server's audit policy.
    pub fn audit_policy(&self) -> PathBuf {
        self.0.join("audit-policy.yaml")
    }

    /// Returns the path of kwok's configuration: the Stages that define how simulated pods and nodes behave.
    pub fn stages(&self) -> PathBuf {
        self.0.join("stages.yaml")
    }

    /// Returns the path of the folder in which etcd stores its data.
    pub fn etcd(&self) -> PathBuf {
        self.0.join("etcd")
    }

    /// Returns the folder with links to kubectl and helm. Users add this folder to PATH.
    pub fn bin(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// Returns the folder with tokens and kubeconfigs of service accounts.
    pub fn identities(&self) -> PathBuf {
        self.0.join("identities")
    }

    /// Creates the folder and its subfolders, and removes the files of an earlier cluster. Refuses a folder that
    /// contains files but no `cluster.json`, because these files belong to no cluster.
    pub(crate) fn create(&self) -> Result<(), Error> {
        if self.0.exists() && !self.spec().exists() && !is_empty(&self.0)? {
            return Err(Error::Foreign { path: self.0.clone() });
        }
        self.wipe()?;
        for part in ["pki", "logs", "bin", "identities", "etcd"] {
            let path = self.0.join(part);
            std::fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        }
        // Only the owner may read folders with keys and tokens. etcd warns if other users may read its data folder.
        for part in [self.0.clone(), self.etcd(), self.0.join("pki"), self.identities()] {
            private(&part)?;
        }
        Ok(())
    }

    /// Removes all files of a cluster, including its logs. A folder without `cluster.json` belongs to no cluster and
    /// stays unchanged.
    pub(crate) fn wipe(&self) -> Result<(), Error> {
        if !self.spec().exists() {
            return Ok(());
        }
        for entry in std::fs::read_dir(&self.0).map_err(Error::file("read", &self.0))?.flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if is_folder { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(Error::file("remove", &path))?;
        }
        Ok(())
    }
}

/// The file name of the supervisor's socket in the cluster's folder.
pub(crate) const SOCKET: &str = "control.sock";

fn is_empty(path: &Path) -> Result<bool, Error> {
    Ok(std::fs::read_dir(path).map_err(Error::file("read", path))?.next().is_none())
}

/// Lets only the owner read a folder.
pub(crate) fn private(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(Error::file("protect", path))
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(contents.as_ref())).map_err(Error::file("write", path))
}

/// Returns the last `lines` lines of a file, for use in an error message. Returns an empty string if the file cannot be
/// read.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
