//! Removes unused archives from the cache, such as the archive of a chart version that only an older lock contained.
//! Keeps the archives with a digest that the lock contains, or that the cache has stored at the first pull of a chart
//! version.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::cache::{Cache, FirstPullRecord};
use super::digest::Digest;
use super::error::Error;
use super::folder::name_before_version;
use super::lock::Lock;

impl Cache {
    /// Removes the old archives whose digest is neither in the lock nor in the record of a first pull. Also removes the
    /// incomplete files of killed processes. Returns the names of the removed files.
    ///
    /// The function keeps files younger than `age`. A removed archive is not lost: when a release needs it again, the
    /// store packs the chart from the folder again, or pulls it again.
    ///
    /// # Errors
    /// Returns an error if a folder or the record of a first pull cannot be read. Then the function removes nothing,
    /// because it does not know which archives are in use.
    pub(super) fn prune(&self, lock: &Lock, age: Duration) -> Result<Vec<String>, Error> {
        let mut referenced = self.first_pulls()?;
        for (chart, pinned) in &lock.charts {
            referenced.extend(pinned.digest.as_ref().map(|digest| Self::file_name(chart, &pinned.version, digest)));
        }
        let mut removed = Vec::new();
        for (name, metadata) in files(&self.folder.join("archives"))? {
            let old = metadata
                .modified()
                .is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|elapsed| elapsed >= age));
            // Ignore an error, for example because another process has removed the file at the same time. A file that
            // stays in the cache does no harm.
            if old
                && !referenced.contains(&name)
                && is_cache_file(&name)
                && fs::remove_file(self.folder.join("archives").join(&name)).is_ok()
            {
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// Returns the file name of the archive to which each record of a first pull refers.
    fn first_pulls(&self) -> Result<BTreeSet<String>, Error> {
        let folder = self.folder.join("trusted");
        let mut referenced = BTreeSet::new();
        for (name, _) in files(&folder)?.into_iter().filter(|(name, _)| !is_temporary(name)) {
            let path = folder.join(&name);
            let text = fs::read(&path).map_err(|error| Error::cache(&path, &error))?;
            let record = FirstPullRecord::read(&path, chart_of_record(&name), &text)?;
            let FirstPullRecord { chart, version, digest, .. } = record;
            referenced.insert(Self::file_name(&chart, &version, &digest));
        }
        Ok(referenced)
    }
}

/// Returns the chart's name in `<name>-<version>-<hash>.json`, the file name of the record of a first pull. Returns a
/// file name of another form unchanged.
fn chart_of_record(file: &str) -> &str {
    file.rsplit_once('-').and_then(|(stem, _)| name_before_version(stem)).unwrap_or(file)
}

/// Whether `name` is the name of a temporary file. The cache renames a temporary file as soon as the file is complete.
fn is_temporary(name: &str) -> bool {
    name.starts_with(".tmp")
}

/// Whether the store wrote the file `name` to the cache, judging by the form of the name. All other files belong to the
/// user, so osdpl keeps them.
fn is_cache_file(name: &str) -> bool {
    let digits = name.strip_suffix(".tgz").and_then(|stem| stem.rsplit_once('-')).map(|(_, digits)| digits);
    let archive = digits.is_some_and(|digits| {
        digits.len() == Digest::SHORT && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    });
    archive || is_temporary(name)
}

/// Returns the regular files in a folder, each with its metadata; none if the folder does not exist yet.
fn files(folder: &Path) -> Result<Vec<(String, Metadata)>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| Error::cache(folder, &error))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::cache(folder, &error))?;
        // Skip a file without metadata: someone has deleted the file since `read_dir` listed it.
        let Ok(metadata) = entry.metadata() else { continue };
        if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
            files.push((name, metadata));
        }
    }
    Ok(files)
}
