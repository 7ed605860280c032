//! The files of one chart in memory, checked, and the bounds they must keep.

use std::collections::BTreeMap;
use std::io::Read;

use super::problem::Problem;

/// The most files a chart may have: the largest of OpenStack-Helm has under 200, with its library.
pub const MOST_ENTRIES: usize = 10_000;
/// The largest single file, in bytes: the bound helm itself had (`MaxDecompressedFileSize`).
pub const LARGEST_FILE: u64 = 5 << 20;
/// The most bytes a chart may unpack to, in all. helm allows 100 MiB, but a release record (chart included, compressed)
/// must fit into a Secret of 1 MiB anyway, and this much is held in memory at once.
pub const LARGEST_CHART: u64 = 20 << 20;

/// What helm strips from the start of every file it loads.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The files of a chart by their path below its top folder; every path is relative, clean and UTF-8.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    files: BTreeMap<String, Vec<u8>>,
    bytes: u64,
}

impl Contents {
    /// All files, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, content)| (path.as_str(), content.as_slice()))
    }

    /// One file's content.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Reads one file of `size` bytes to its end and adds it, within the bounds.
    pub(super) fn read(&mut self, path: String, size: u64, from: impl Read) -> Result<(), Problem> {
        if size > LARGEST_FILE {
            return Err(Problem::FileTooLarge { path });
        }
        let mut content = Vec::new();
        from.take(LARGEST_FILE + 1).read_to_end(&mut content).map_err(|error| Problem::io(&path, &error))?;
        self.add(path, content)
    }

    /// Adds one file; the files that packaging makes anew each time (`Chart.lock`) and those that helm does not load from
    /// `charts/` are left out.
    pub(super) fn add(&mut self, path: String, mut content: Vec<u8>) -> Result<(), Problem> {
        let size = content.len() as u64;
        if size > LARGEST_FILE {
            return Err(Problem::FileTooLarge { path });
        }
        self.bytes += size;
        if self.bytes > LARGEST_CHART {
            return Err(Problem::TooLarge);
        }
        if self.files.len() == MOST_ENTRIES {
            return Err(Problem::TooManyEntries);
        }
        if is_left_out(&path) {
            return Ok(());
        }
        if content.starts_with(BYTE_ORDER_MARK) {
            content.drain(..BYTE_ORDER_MARK.len());
        }
        match self.files.insert(path.clone(), content) {
            None => Ok(()),
            Some(_) => Err(Problem::Duplicate { path }),
        }
    }

    /// Adds all files of a dependency below `charts/<name>/` (behind `prefix`).
    pub(super) fn vendor(&mut self, prefix: &str, name: &str, dependency: Self) -> Result<(), Problem> {
        dependency
            .files
            .into_iter()
            .try_for_each(|(path, content)| self.add(format!("{prefix}charts/{name}/{path}"), content))
    }

    /// The names of the charts that stand in `charts/`.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = &str> {
        self.files
            .keys()
            .filter_map(|path| path.strip_prefix("charts/")?.strip_suffix("/Chart.yaml"))
            .filter(|name| !name.contains('/'))
    }
}

/// The path within the innermost chart that holds it: what stands behind `charts/<name>/`, repeatedly.
pub(super) fn within_chart(path: &str) -> &str {
    let mut rest = path;
    while let Some((_, inner)) = rest.strip_prefix("charts/").and_then(|behind| behind.split_once('/')) {
        rest = inner;
    }
    rest
}

/// `_…` and `.…` in `charts/` are not loaded by helm (`loader.LoadFiles`).
fn is_left_out(path: &str) -> bool {
    let mut rest = path;
    while let Some(behind) = rest.strip_prefix("charts/") {
        if behind.starts_with(['_', '.']) {
            return true;
        }
        match behind.split_once('/') {
            Some((_, inner)) => rest = inner,
            None => return false,
        }
    }
    matches!(rest, "Chart.lock" | "requirements.lock")
}
