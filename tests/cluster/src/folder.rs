//! Where everything of one cluster lies: a single folder, removable as a whole.

use std::path::{Path, PathBuf};

use crate::Error;

/// The folder of one cluster. All paths in it are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// Names a folder; nothing is created.
    ///
    /// # Errors
    /// When the working directory is unknown.
    pub fn new(path: &Path) -> Result<Self, Error> {
        std::path::absolute(path).map(Self).map_err(Error::file("resolve", path))
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What was asked for: written before anything starts, and the mark that a folder is a cluster's.
    pub fn spec(&self) -> PathBuf {
        self.0.join("cluster.json")
    }

    /// What runs: process ids with their start times, ports.
    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// The supervisor's socket. Bound and reached through `/proc/PID/cwd`, because a
    /// socket's path may have only 107 bytes.
    pub fn socket(&self) -> PathBuf {
        self.0.join(SOCKET)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    /// A component's kubeconfig.
    pub fn kubeconfig_of(&self, component: &str) -> PathBuf {
        self.0.join("pki").join(format!("{component}.kubeconfig"))
    }

    /// A file of certificates and keys.
    pub fn pki(&self, file: &str) -> PathBuf {
        self.0.join("pki").join(file)
    }

    /// A component's log.
    pub fn log(&self, component: &str) -> PathBuf {
        self.0.join("logs").join(format!("{component}.log"))
    }

    /// The API server's audit log, one JSON object a line.
    pub fn audit_log(&self) -> PathBuf {
        self.0.join("audit.log")
    }

    /// The audit policy given to the API server.
    pub fn audit_policy(&self) -> PathBuf {
        self.0.join("audit-policy.yaml")
    }

    /// kwok's configuration: all stages.
    pub fn stages(&self) -> PathBuf {
        self.0.join("stages.yaml")
    }

    /// etcd's data.
    pub fn etcd(&self) -> PathBuf {
        self.0.join("etcd")
    }

    /// Links to kubectl and helm, to be put on PATH.
    pub fn bin(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// Tokens and kubeconfigs of service accounts.
    pub fn identities(&self) -> PathBuf {
        self.0.join("identities")
    }

    /// Makes the folder and what is in it; refuses one that holds anything else.
    pub(crate) fn create(&self) -> Result<(), Error> {
        if self.0.exists() && !self.spec().exists() && !is_empty(&self.0)? {
            return Err(Error::Foreign { path: self.0.clone() });
        }
        self.wipe()?;
        for part in ["pki", "logs", "bin", "identities", "etcd"] {
            let path = self.0.join(part);
            std::fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        }
        // etcd warns about data that others may read, and keys lie here too.
        for part in [self.0.clone(), self.etcd(), self.0.join("pki"), self.identities()] {
            private(&part)?;
        }
        Ok(())
    }

    /// Removes what a cluster leaves, logs included; a folder without our mark is left alone.
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

/// The socket's name in the folder.
pub(crate) const SOCKET: &str = "control.sock";

fn is_empty(path: &Path) -> Result<bool, Error> {
    Ok(std::fs::read_dir(path).map_err(Error::file("read", path))?.next().is_none())
}

fn private(path: &Path) -> Result<(), Error> {
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

/// The last `lines` lines of a file, for error messages; empty when it cannot be read.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
