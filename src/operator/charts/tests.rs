//! Tests of the store with generated folders and repositories of charts.

mod archives;
mod bad_folders;
mod contents;
mod folders;
mod locks;
mod prune;
mod pulls;
mod repository;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::EntryType;
use tempfile::TempDir;

use super::pull::NoPull;
use super::{Chart, ChartRequest, Error, Lock, Source, Store};

const CHART_YAML: &str = "apiVersion: v2\nname: demo\nversion: 1.0.0\nappVersion: 29.0.0\n";

/// A temporary folder of charts, and a temporary folder for the cache of the store.
struct Fixture {
    folder: TempDir,
    cache: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), cache: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into the folder of charts, and creates its parent folders.
    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) -> &Self {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
        self
    }

    fn store(&self, lock: &str) -> Store {
        let lock = Lock::parse("values/lock.yaml", lock).unwrap();
        Store::new(self.cache.path(), Source::Folder(self.folder.path().to_owned()), lock, Arc::new(NoPull))
    }

    /// Returns the message of an error, with placeholders instead of the paths of the fixture's folders.
    fn message(&self, error: &Error) -> String {
        let folder = self.folder.path().canonicalize().unwrap().display().to_string();
        let cache = self.cache.path().display().to_string();
        error.to_string().replace(&folder, "CHARTS").replace(&cache, "CACHE")
    }
}

async fn demo(store: &Store) -> Result<Chart, Error> {
    store.obtain(&ChartRequest::locked("demo")).await
}

/// Returns a `.tgz` archive that contains `files`.
fn tgz(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = Tarball::new();
    for (path, content) in files {
        archive.file(path, content);
    }
    archive.finish()
}

/// Returns the archive of the chart `demo` in the given version. Its `values.yaml` sets `key` to `value`.
fn chart(version: &str, value: &str) -> Vec<u8> {
    let chart_yaml = CHART_YAML.replace("1.0.0", version);
    tgz(&[("demo/Chart.yaml", &chart_yaml), ("demo/values.yaml", &format!("key: {value}\n"))])
}

/// A writer of chart archives that accepts every tar entry, including malicious entries.
struct Tarball(tar::Builder<GzEncoder<Vec<u8>>>);

impl Tarball {
    fn new() -> Self {
        Self(tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast())))
    }

    fn with_chart() -> Self {
        let mut archive = Self::new();
        archive.file("demo/Chart.yaml", CHART_YAML);
        archive
    }

    fn file(&mut self, path: &str, content: impl AsRef<[u8]>) -> &mut Self {
        self.entry(path.as_bytes(), EntryType::Regular, content.as_ref())
    }

    fn entry(&mut self, path: &[u8], kind: EntryType, content: &[u8]) -> &mut Self {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path);
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap().finish().unwrap()
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(content).unwrap();
    gzip.finish().unwrap()
}

fn with(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = Tarball::with_chart();
    for (path, content) in files {
        archive.file(path, content);
    }
    archive.finish()
}

/// A function that writes files into the folder of charts of a fixture.
type Setup = fn(&Fixture);

/// Discards the fixture that a chain of method calls returns, because a [`Setup`] must return nothing.
fn done(_: &Fixture) {}

/// Returns a `Chart.yaml` with a dependency on the chart `library` in `repository`.
fn depends(repository: &str) -> String {
    format!("{CHART_YAML}dependencies:\n- name: library\n  version: '>= 0.1.0'\n  repository: {repository}\n")
}
