//! Removing archives from the cache that nothing names any more: of an older lock, of a folder's chart before it was edited.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::cache::{Cache, Trusted};
use super::digest::Digest;
use super::error::Error;
use super::lock::Lock;

impl Cache {
    /// Removes archives that neither the lock nor the record of a first pull names, and files that killed processes left half written,
    /// where they were not written within `age`; returns their names. A folder's charts are written anew when they are asked for, so that
    /// what is removed here costs no pull.
    ///
    /// # Errors
    /// When a folder or a record can't be read; nothing is removed then, since what the record names is not known.
    pub(super) fn prune(&self, lock: &Lock, age: Duration) -> Result<Vec<String>, Error> {
        let mut named = self.first_pulls()?;
        for (chart, pinned) in &lock.charts {
            named.extend(pinned.digest.as_ref().map(|digest| Self::file_name(chart, &pinned.version, digest)));
        }
        let mut removed = Vec::new();
        for (name, metadata) in files(&self.folder.join("archives"))? {
            let old =
                metadata.modified().is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|is| is >= age));
            // Another process may be removing it as well; what can't be removed is in nobody's way.
            if old
                && !named.contains(&name)
                && ours(&name)
                && fs::remove_file(self.folder.join("archives").join(&name)).is_ok()
            {
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// The archives that the records of first pulls name.
    fn first_pulls(&self) -> Result<BTreeSet<String>, Error> {
        let folder = self.folder.join("trusted");
        let mut named = BTreeSet::new();
        for (name, _) in files(&folder)?.into_iter().filter(|(name, _)| !half_written(name)) {
            let path = folder.join(&name);
            let text = fs::read(&path).map_err(|error| Error::cache(&path, &error))?;
            let Trusted { chart, version, digest, .. } = Trusted::read(&path, &name, &text)?;
            named.insert(Self::file_name(&chart, &version, &digest));
        }
        Ok(named)
    }
}

/// What `tempfile` calls a file before it is renamed.
fn half_written(name: &str) -> bool {
    name.starts_with(".tmp")
}

/// Whether the cache gives files such names: what a person put there is left alone.
fn ours(name: &str) -> bool {
    let digits = name.strip_suffix(".tgz").and_then(|stem| stem.rsplit_once('-')).map(|(_, digits)| digits);
    let archive = digits.is_some_and(|digits| {
        digits.len() == Digest::SHORT && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    });
    archive || half_written(name)
}

/// The regular files of a folder; none where there is no such folder yet.
fn files(folder: &Path) -> Result<Vec<(String, Metadata)>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| Error::cache(folder, &error))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::cache(folder, &error))?;
        // What went away meanwhile counts no more.
        let Ok(metadata) = entry.metadata() else { continue };
        if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
            files.push((name, metadata));
        }
    }
    Ok(files)
}
