//! The cache folder: verified archives, the records of first pulls, and room for pulls under way.
//!
//! ```text
//! archives/<name>-<version>-<digest>.tgz    what helm is given; written by us from checked content, the same bytes every time
//! trusted/<name>-<version>-<address>.json   the digest of a repository's first pull of that version
//! incoming/                                 helm writes here; nothing in it counts, and leftovers are removed
//! ```
//!
//! Files appear by rename, whole or not at all, and an archive counts only when its content has the digest expected. The folder
//! may be removed at any time: what is lost is the memory of first pulls. Several processes may share it.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use tempfile::{NamedTempFile, TempDir};

use super::archive;
use super::contents::Contents;
use super::digest::{Digest, Hexadecimal};
use super::error::Error;
use super::metadata::Metadata;
use super::pull::Request;

/// How old something in `incoming` must be to be left over from a process that was killed: far longer than any pull takes.
pub(super) const LEFT_OVER: Duration = Duration::from_hours(1);

/// The cache in one folder.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(super) folder: PathBuf,
}

/// The first pull of a chart.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trusted {
    repository: String,
    pub(super) chart: String,
    pub(super) version: String,
    pub(super) digest: Digest,
}

impl Trusted {
    pub(super) fn read(path: &Path, chart: &str, text: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(text).map_err(|error| Error::RecordDamaged {
            name: chart.to_owned(),
            path: path.display().to_string(),
            why: error.to_string(),
        })
    }
}

impl Cache {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where the archive of this chart is, or would be.
    pub(super) fn archive(&self, chart: &Metadata, digest: &Digest) -> PathBuf {
        let Metadata { name, version, .. } = chart;
        self.folder.join("archives").join(Self::file_name(name, version, digest))
    }

    pub(super) fn file_name(chart: &str, version: &str, digest: &Digest) -> String {
        format!("{chart}-{version}-{}.tgz", digest.short())
    }

    /// Writes the archive that helm is given.
    pub(super) fn keep(&self, chart: &Metadata, digest: &Digest, contents: &Contents) -> Result<PathBuf, Error> {
        let path = self.archive(chart, digest);
        write(&path, |file| archive::write(&chart.name, contents, io::BufWriter::new(file)))?;
        Ok(path)
    }

    /// What the archive of this version with this digest holds; nothing when it is not there, or damaged.
    pub(super) fn kept(&self, request: &Request, digest: &Digest) -> Option<Contents> {
        let name = Self::file_name(&request.chart, &request.version, digest);
        let file = File::open(self.folder.join("archives").join(name)).ok()?;
        let contents = archive::read(BufReader::new(file)).ok()?;
        (Digest::of(&contents) == *digest).then_some(contents)
    }

    /// The digest of the first pull, if there was one.
    pub(super) fn trusted(&self, request: &Request) -> Result<Option<Digest>, Error> {
        let path = self.record(request);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::cache(&path, &error)),
        };
        Trusted::read(&path, &request.chart, &text).map(|trusted| Some(trusted.digest))
    }

    /// Keeps the digest of a first pull.
    pub(super) fn trust(&self, request: &Request, digest: &Digest) -> Result<(), Error> {
        let Request { repository, chart, version } = request.clone();
        let record = Trusted { repository, chart, version, digest: digest.clone() };
        write(&self.record(request), |file| {
            file.write_all(&serde_json::to_vec_pretty(&record)?)?;
            // A record that a power cut left empty would stand in the way of every later pull.
            file.sync_all()
        })
    }

    /// The file that holds the record of a first pull.
    pub(super) fn record(&self, request: &Request) -> PathBuf {
        let Request { repository, chart, version } = request;
        let address = sha2::Sha256::digest(repository);
        let address = format!("{:x}", Hexadecimal(&address[..6]));
        self.folder.join("trusted").join(format!("{chart}-{version}-{address}.json"))
    }

    /// An empty folder for one pull, gone when dropped; what killed processes left is removed on the way.
    pub(super) fn incoming(&self) -> Result<TempDir, Error> {
        let folder = self.folder.join("incoming");
        let failed = |error: io::Error| Error::cache(&folder, &error);
        fs::create_dir_all(&folder).map_err(failed)?;
        for entry in fs::read_dir(&folder).map_err(failed)?.flatten() {
            let modified = entry.metadata().and_then(|found| found.modified());
            if modified.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > LEFT_OVER)) {
                // Another process may be removing it as well; whoever comes late has nothing to do.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        TempDir::new_in(&folder).map_err(failed)
    }
}

fn write(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
    write_whole(path, content).map_err(|error| Error::cache(path, &error))
}

/// Writes a file under another name and renames it: at `path` it is there whole or not at all.
///
/// # Errors
/// What the file system said; nothing is left at `path` then.
pub fn write_whole(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    content(file.as_file_mut())?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    }
    file.persist(path)?;
    Ok(())
}
