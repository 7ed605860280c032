//! Writes the output folder of `osdpl render`. If the folder contains real credentials, only its owner can access it.

#![allow(clippy::disallowed_methods, reason = "the command line writes into the folder that its user names")]

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The permission bits of a file for everyone except its owner.
const GROUP_AND_OTHERS: u32 = 0o077;

/// The folder that `osdpl render --out` writes to.
pub(crate) struct Folder {
    path: PathBuf,
    is_private: bool,
}

impl Folder {
    /// Opens the folder, and creates it if it does not exist. A private folder must belong to the user, and no other
    /// user may have access to it.
    pub(crate) fn open(path: &Path, is_private: bool) -> anyhow::Result<Self> {
        let folder = Self { path: path.to_owned(), is_private };
        if !is_private {
            create_folder(path)?;
            return Ok(folder);
        }
        match fs::symlink_metadata(path) {
            Ok(found) => check_private(path, &found)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    create_folder(parent)?;
                }
                // Another process could have created the folder after `symlink_metadata` did not find it. Then `create`
                // fails, whereas `create_dir_all` would succeed, although the folder might have another owner or mode.
                DirBuilder::new().mode(0o700).create(path).with_context(|| format!("creating {}", path.display()))?;
            }
            Err(error) => return Err(error).with_context(|| format!("inspecting {}", path.display())),
        }
        Ok(folder)
    }

    /// Opens a subfolder of this folder.
    pub(crate) fn below(&self, name: &str) -> anyhow::Result<Self> {
        Self::open(&self.path.join(name), self.is_private)
    }

    /// Writes a file to the folder. Replaces a file or link of this name.
    pub(crate) fn write(&self, name: &str, bytes: &[u8], is_program: bool) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let context = || format!("writing {}", path.display());
        let mode = match (self.is_private, is_program) {
            (true, false) => 0o600,
            (true, true) => 0o700,
            (false, false) => 0o644,
            (false, true) => 0o755,
        };
        // First remove an existing file or link of this name. Otherwise the new text would get the old file's mode, or
        // be written to the file to which the link points.
        self.remove(name)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).with_context(context)?;
        file.write_all(bytes).with_context(context)
    }

    /// Returns the contents of a text file; `None` if the file does not exist or is not UTF-8 text.
    pub(crate) fn read(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Whether a file, a folder or a link of that name exists, even a broken link.
    pub(crate) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path.join(name)).is_ok()
    }

    /// Removes a file if it exists.
    pub(crate) fn remove(&self, name: &str) -> anyhow::Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", path.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Creates a folder and its parents.
fn create_folder(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => "a file is in the way; name a folder".to_owned(),
            ErrorKind::PermissionDenied => "permission denied; name a folder to which you may write".to_owned(),
            _ => format!("{error}; name a folder that can be created"),
        };
        anyhow::anyhow!("creating the folder {}: {why}", path.display())
    })
}

impl std::fmt::Display for Folder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.display().fmt(formatter)
    }
}

/// Checks that osdpl may write passwords to an existing folder: the user owns it, and its mode gives no other user
/// access.
fn check_private(path: &Path, found: &fs::Metadata) -> anyhow::Result<()> {
    let name = path.display();
    if !found.is_dir() {
        bail!(
            "{name} is not a folder, but a file or a link; osdpl writes real credentials only to a folder of your own, so name one"
        );
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        bail!(
            "{name} belongs to another user, who could read the credentials; name a folder of your own, or one that does not exist yet"
        );
    }
    if found.mode() & GROUP_AND_OTHERS != 0 {
        bail!(
            "{name} is accessible to others, who could read the credentials (its mode is {:o}); run chmod 700 {name}",
            found.mode() & 0o777
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn private_folders_and_files_are_accessible_to_their_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("nested/folder");
        let folder = Folder::open(&path, true).unwrap();
        let (target, file) = (home.path().join("elsewhere"), path.join("keystone.yaml"));
        std::os::unix::fs::symlink(&target, &file).unwrap();
        folder.write("keystone.yaml", b"x", false).unwrap();
        folder.write("install.sh", b"x", true).unwrap();
        folder.write("install.sh", b"y", true).unwrap();
        assert_eq!((mode(&path), mode(&file), mode(&path.join("install.sh"))), (0o700, 0o600, 0o700));
        assert!(!target.exists(), "osdpl must replace a link, and not write to its target");
        assert_eq!(mode(&folder.below("charts").unwrap().path), 0o700);
    }

    #[test]
    fn refuses_accessible_folders_and_links_for_real_credentials() {
        let home = tempfile::tempdir().unwrap();
        let open = |name: &str| Folder::open(&home.path().join(name), true).err().map(|error| format!("{error:#}"));
        fs::create_dir(home.path().join("accessible")).unwrap();
        fs::set_permissions(home.path().join("accessible"), fs::Permissions::from_mode(0o750)).unwrap();
        let error = open("accessible").unwrap();
        assert!(error.contains("is accessible to others") && error.contains("chmod 700"), "{error}");
        fs::create_dir(home.path().join("own")).unwrap();
        fs::set_permissions(home.path().join("own"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(open("own"), None);
        std::os::unix::fs::symlink(home.path().join("own"), home.path().join("link")).unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        for name in ["link", "file"] {
            let error = open(name).unwrap();
            assert!(error.contains("is not a folder"), "{error}");
        }
        assert!(
            Folder::open(&home.path().join("accessible"), false).is_ok(),
            "a folder for redacted values may be accessible to others"
        );
    }
}
