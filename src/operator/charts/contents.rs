//! Keeps the files of one chart in memory, and limits their number and sizes.

use std::collections::BTreeMap;
use std::io::Read;

use super::problem::{ChartProblem, MAX_CHART_SIZE, MAX_ENTRIES, MAX_FILE_SIZE};

/// The byte order mark of UTF-8. helm removes the mark from the start of each chart file, so osdpl does, too.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The files of a chart, each by its path relative to the chart's folder. Each path is normalized and UTF-8.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    files: BTreeMap<String, Vec<u8>>,
    bytes: u64,
}

impl Contents {
    /// Returns all files, sorted by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, content)| (path.as_str(), content.as_slice()))
    }

    /// Returns the content of the file at `path`; `None` if the chart has no such file.
    pub(crate) fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Reads a file of `size` bytes to its end and adds the file to the chart. Fails if the file or the chart exceeds
    /// its maximum size.
    pub(super) fn read(&mut self, path: String, size: u64, from: impl Read) -> Result<(), ChartProblem> {
        if size > MAX_FILE_SIZE {
            return Err(ChartProblem::FileTooLarge { path });
        }
        let mut content = Vec::new();
        from.take(MAX_FILE_SIZE + 1).read_to_end(&mut content).map_err(|error| ChartProblem::io(&path, &error))?;
        self.add(path, content)
    }

    /// Adds a file to the chart.
    ///
    /// Skips the files in `charts/` that helm does not load. Also skips `Chart.lock` and `requirements.lock`: helm
    /// writes a time into them, so they differ between two packages of the same chart.
    pub(super) fn add(&mut self, path: String, mut content: Vec<u8>) -> Result<(), ChartProblem> {
        let size = content.len() as u64;
        if size > MAX_FILE_SIZE {
            return Err(ChartProblem::FileTooLarge { path });
        }
        self.bytes += size;
        if self.bytes > MAX_CHART_SIZE {
            return Err(ChartProblem::TooLarge);
        }
        if self.files.len() == MAX_ENTRIES {
            return Err(ChartProblem::TooManyEntries);
        }
        if is_skipped(&path) {
            return Ok(());
        }
        if content.starts_with(BYTE_ORDER_MARK) {
            content.drain(..BYTE_ORDER_MARK.len());
        }
        match self.files.insert(path.clone(), content) {
            None => Ok(()),
            Some(_) => Err(ChartProblem::Duplicate { path }),
        }
    }

    /// Adds all files of a dependency below `<prefix>charts/<name>/`. `name` is the name of the dependency.
    ///
    /// `prefix` is the path of the chart that needs the dependency; it is empty for the outermost chart.
    pub(super) fn vendor(&mut self, prefix: &str, name: &str, dependency: Self) -> Result<(), ChartProblem> {
        dependency
            .files
            .into_iter()
            .try_for_each(|(path, content)| self.add(format!("{prefix}charts/{name}/{path}"), content))
    }

    /// Returns the names of the dependencies in the chart's folder `charts/`.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = &str> {
        self.files
            .keys()
            .filter_map(|path| path.strip_prefix("charts/")?.strip_suffix("/Chart.yaml"))
            .filter(|name| !name.contains('/'))
    }
}

/// Returns the path of a file within the innermost chart that contains the file: `path` without the leading
/// `charts/<name>/` folders.
pub(super) fn within_chart(path: &str) -> &str {
    let mut rest = path;
    while let Some((_, inner)) = rest.strip_prefix("charts/").and_then(|after| after.split_once('/')) {
        rest = inner;
    }
    rest
}

/// Whether [`Contents::add`] skips the file: a lock file of dependencies, or a file that helm does not load.
///
/// helm does not load entries of `charts/` whose name begins with `_` or `.` (`loader.LoadFiles`).
fn is_skipped(path: &str) -> bool {
    let mut rest = path;
    while let Some(after) = rest.strip_prefix("charts/") {
        if after.starts_with(['_', '.']) {
            return true;
        }
        match after.split_once('/') {
            Some((_, inner)) => rest = inner,
            None => return false,
        }
    }
    matches!(rest, "Chart.lock" | "requirements.lock")
}
