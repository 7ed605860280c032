//! The cache folder of the store. It contains verified archives, the record of each chart version's first pull, and the
//! downloads of running pulls.
//!
//! ```text
//! archives/<name>-<version>-<digest>.tgz    the archives for helm, written reproducibly from checked content
//! trusted/<name>-<version>-<hash>.json      the digest of the first pull of a version from a repository
//! incoming/                                 downloads of running pulls, not checked yet; the store removes old ones
//! ```
//!
//! `<hash>` is a hash of the repository's address.
//!
//! The store writes each file under a temporary name and renames the complete file, so no process sees a partial file.
//! The store uses an archive only if the archive's content has the expected digest. Several processes may share the
//! folder. The user may remove the folder at any time. The store then creates its files again, except the records of
//! first pulls, which are lost.

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

/// The age from which osdpl removes unused files from the cache: folders in `incoming` that killed processes have left
/// behind, and archives that `prune` finds to be unused. No pull takes nearly that long.
pub(super) const STALE_AGE: Duration = Duration::from_hours(1);

/// The cache folder of a chart store, with methods that read and write its files.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    pub(super) folder: PathBuf,
}

/// The record of the first pull of a chart version. Every later pull of the version must return a chart with the digest
/// in this record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FirstPullRecord {
    repository: String,
    pub(super) chart: String,
    pub(super) version: String,
    pub(super) digest: Digest,
}

impl FirstPullRecord {
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

    /// Returns the path that a chart's archive has in the cache. The archive need not exist yet.
    pub(super) fn archive(&self, chart: &Metadata, digest: &Digest) -> PathBuf {
        let Metadata { name, version, .. } = chart;
        self.folder.join("archives").join(Self::file_name(name, version, digest))
    }

    pub(super) fn file_name(chart: &str, version: &str, digest: &Digest) -> String {
        format!("{chart}-{version}-{}.tgz", digest.short())
    }

    /// Writes a chart's archive, from which helm installs the chart, into the cache; returns the path of the archive.
    pub(super) fn write_archive(
        &self,
        chart: &Metadata,
        digest: &Digest,
        contents: &Contents,
    ) -> Result<PathBuf, Error> {
        let path = self.archive(chart, digest);
        write(&path, |file| archive::write(&chart.name, contents, io::BufWriter::new(file)))?;
        Ok(path)
    }

    /// Returns the content of the requested chart, from the archive with this digest; `None` if the archive is missing
    /// or damaged.
    pub(super) fn read_archive(&self, request: &Request, digest: &Digest) -> Option<Contents> {
        let name = Self::file_name(&request.chart, &request.version, digest);
        let file = File::open(self.folder.join("archives").join(name)).ok()?;
        let contents = archive::read(BufReader::new(file)).ok()?;
        (Digest::of(&contents) == *digest).then_some(contents)
    }

    /// Returns the digest that the chart version had at its first pull; `None` if the cache has no record of a first
    /// pull.
    pub(super) fn first_pull(&self, request: &Request) -> Result<Option<Digest>, Error> {
        let path = self.record_path(request);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::cache(&path, &error)),
        };
        FirstPullRecord::read(&path, &request.chart, &text).map(|first_pull| Some(first_pull.digest))
    }

    /// Writes the record of the first pull of a chart version.
    pub(super) fn record_first_pull(&self, request: &Request, digest: &Digest) -> Result<(), Error> {
        let Request { repository, chart, version } = request.clone();
        let record = FirstPullRecord { repository, chart, version, digest: digest.clone() };
        write(&self.record_path(request), |file| {
            file.write_all(&serde_json::to_vec_pretty(&record)?)?;
            // Without `sync_all`, a power failure may leave an empty record. Because of an empty record, osdpl would
            // refuse every later pull of the chart version.
            file.sync_all()
        })
    }

    /// Returns the path of the record of a chart version's first pull.
    pub(super) fn record_path(&self, request: &Request) -> PathBuf {
        let Request { repository, chart, version } = request;
        let address = sha2::Sha256::digest(repository);
        let address = format!("{:x}", Hexadecimal(&address[..6]));
        self.folder.join("trusted").join(format!("{chart}-{version}-{address}.json"))
    }

    /// Creates an empty folder for one pull. Dropping the returned [`TempDir`] removes the folder.
    ///
    /// The function also removes old folders that killed processes left behind.
    pub(super) fn incoming(&self) -> Result<TempDir, Error> {
        let folder = self.folder.join("incoming");
        let failed = |error: io::Error| Error::cache(&folder, &error);
        fs::create_dir_all(&folder).map_err(failed)?;
        for entry in fs::read_dir(&folder).map_err(failed)?.flatten() {
            let modified = entry.metadata().and_then(|found| found.modified());
            if modified.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > STALE_AGE)) {
                // Ignore an error: another process may be removing the same folder at the same time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        TempDir::new_in(&folder).map_err(failed)
    }
}

fn write(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
    write_atomically(path, content).map_err(|error| Error::cache(path, &error))
}

/// Writes a file under a temporary name and renames it. So a reader finds at `path` either a complete file or none.
///
/// # Errors
/// Returns the error of `content` or of the file system. The file at `path` is then unchanged.
pub fn write_atomically(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
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
