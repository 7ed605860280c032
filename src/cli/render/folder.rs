//! The folder that is written: with real credentials in it, nobody else's business.

#![allow(clippy::disallowed_methods, reason = "the command line writes into the folder that its user names")]

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Rights of everybody else.
const OTHERS: u32 = 0o077;

/// A folder to write into.
pub struct Folder {
    path: PathBuf,
    is_private: bool,
}

impl Folder {
    /// Makes the folder where it is not there. A private one must be a folder of ours that nobody else can look into.
    pub fn open(path: &Path, is_private: bool) -> anyhow::Result<Self> {
        let folder = Self { path: path.to_owned(), is_private };
        if !is_private {
            make(path)?;
            return Ok(folder);
        }
        match fs::symlink_metadata(path) {
            Ok(found) => judge(path, &found)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    make(parent)?;
                }
                // Not where someone made it meanwhile.
                DirBuilder::new().mode(0o700).create(path).with_context(|| format!("making {}", path.display()))?;
            }
            Err(error) => return Err(error).with_context(|| format!("looking at {}", path.display())),
        }
        Ok(folder)
    }

    /// A folder within this one.
    pub fn below(&self, name: &str) -> anyhow::Result<Self> {
        Self::open(&self.path.join(name), self.is_private)
    }

    /// Writes a file, in place of one that is there.
    pub fn write(&self, name: &str, content: &[u8], is_program: bool) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let what = || format!("writing {}", path.display());
        let mode = match (self.is_private, is_program) {
            (true, false) => 0o600,
            (true, true) => 0o700,
            (false, false) => 0o644,
            (false, true) => 0o755,
        };
        // A file that was there would keep its rights, and a link would be followed.
        self.remove(name)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).with_context(what)?;
        file.write_all(content).with_context(what)
    }
}

/// Makes a folder with those above it, where they are not there.
fn make(path: &Path) -> anyhow::Result<()> {
    let made = fs::create_dir_all(path);
    made.map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => "a file stands there; name a folder".to_owned(),
            ErrorKind::PermissionDenied => "you may not write there; name a folder below one of yours".to_owned(),
            _ => format!("{error}; name a folder that can be made"),
        };
        anyhow::anyhow!("making the folder {}: {why}", path.display())
    })
}

impl Folder {
    /// What a file in it says, where it is there and text.
    pub fn read(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Whether there is anything of that name, a link to nowhere too.
    pub fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path.join(name)).is_ok()
    }

    /// Removes a file, where it is there.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", path.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl std::fmt::Display for Folder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.display().fmt(formatter)
    }
}

/// Whether passwords may be put into a folder that is there.
fn judge(path: &Path, found: &fs::Metadata) -> anyhow::Result<()> {
    let shown = path.display();
    if !found.is_dir() {
        bail!(
            "{shown} is no folder, and real credentials are written into none but a folder of your own: name another"
        );
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        bail!(
            "{shown} is someone else's, who could read the credentials in it: name a folder of your own, or one that is not there yet"
        );
    }
    if found.mode() & OTHERS != 0 {
        bail!(
            "others may look into {shown} (its mode is {:o}), and the credentials are real: chmod 700 {shown}",
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
    fn a_private_folder_and_its_files_are_its_owners_alone_whatever_was_there() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep/er");
        let folder = Folder::open(&path, true).unwrap();
        let (stolen, file) = (home.path().join("elsewhere"), path.join("keystone.yaml"));
        std::os::unix::fs::symlink(&stolen, &file).unwrap();
        folder.write("keystone.yaml", b"x", false).unwrap();
        folder.write("install.sh", b"x", true).unwrap();
        folder.write("install.sh", b"y", true).unwrap();
        assert_eq!((mode(&path), mode(&file), mode(&path.join("install.sh"))), (0o700, 0o600, 0o700));
        assert!(!stolen.exists(), "a link is not followed");
        assert_eq!(mode(&folder.below("charts").unwrap().path), 0o700);
    }

    #[test]
    fn real_credentials_go_into_no_folder_that_others_look_into_and_into_no_link() {
        let home = tempfile::tempdir().unwrap();
        let open = |name: &str| Folder::open(&home.path().join(name), true).err().map(|error| format!("{error:#}"));
        fs::create_dir(home.path().join("seen")).unwrap();
        fs::set_permissions(home.path().join("seen"), fs::Permissions::from_mode(0o750)).unwrap();
        let refused = open("seen").unwrap();
        assert!(refused.contains("others may look into") && refused.contains("chmod 700"), "{refused}");
        fs::create_dir(home.path().join("own")).unwrap();
        fs::set_permissions(home.path().join("own"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(open("own"), None);
        std::os::unix::fs::symlink(home.path().join("own"), home.path().join("link")).unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        for name in ["link", "file"] {
            let refused = open(name).unwrap();
            assert!(refused.contains("is no folder"), "{refused}");
        }
        assert!(Folder::open(&home.path().join("seen"), false).is_ok(), "what is redacted is for everybody");
    }
}
