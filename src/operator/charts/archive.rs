//! Reads chart archives as untrusted input, and writes them reproducibly.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use tar::EntryType;

use super::contents::Contents;
use super::problem::{ChartProblem, MAX_CHART_SIZE, MAX_ENTRIES};

/// The maximum number of levels of archives within archives that osdpl accepts in `charts/` folders. `helm package`
/// never nests archives.
pub(super) const MAX_DEPTH: usize = 4;

/// The maximum size, in bytes, of all headers and padding in a tar stream.
const TAR_OVERHEAD: u64 = 1024 * MAX_ENTRIES as u64;

/// Reads a chart's `.tgz` to its end and checks each entry.
///
/// The function also unpacks the archives in the chart's `charts/` folders, as helm would do later. So osdpl checks the
/// content of these archives, too, and the digest of the chart covers it.
pub(crate) fn read(mut from: impl Read) -> Result<Contents, ChartProblem> {
    let mut contents = Contents::default();
    unpack(&mut from, MAX_DEPTH, &mut contents)?;
    if contents.get("Chart.yaml").is_none() {
        return Err(ChartProblem::NoChartYaml);
    }
    Ok(contents)
}

/// Unpacks a chart's archive, and adds its files to `contents`. `depth` limits how many levels of further archives the
/// archive may contain.
fn unpack(from: &mut dyn Read, depth: usize, contents: &mut Contents) -> Result<(), ChartProblem> {
    // Read all gzip members in the file, as helm does. If osdpl read only the first member, helm could install content
    // that osdpl has not checked.
    let plain = Bounded { from: MultiGzDecoder::new(from), remaining: MAX_CHART_SIZE + TAR_OVERHEAD };
    let mut archive = tar::Archive::new(plain);
    let mut top: Option<String> = None;
    let mut entries = 0;
    for entry in archive.entries().map_err(|error| ChartProblem::broken(&error))? {
        let entry = entry.map_err(|error| ChartProblem::broken(&error))?;
        entries += 1;
        if entries > MAX_ENTRIES {
            return Err(ChartProblem::TooManyEntries);
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let path = check_path(&entry.path_bytes())?;
        if let Some(what) = unsupported_kind(kind) {
            return Err(ChartProblem::NotAFile { path, what });
        }
        let below = below_top(&path, &mut top)?;
        match below {
            _ if kind == EntryType::Directory => {}
            Some(below) => insert(below, entry, depth, contents)?,
            None => return Err(ChartProblem::Path { path, why: "is a file at the top level of the archive" }),
        }
    }
    // The tar reader stops before the end of the compressed stream. Read the rest, so that the decompressor compares
    // the content with the checksum at the end of the stream.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| ChartProblem::broken(&error))?;
    Ok(())
}

fn insert<R: Read>(
    path: String,
    mut entry: tar::Entry<'_, R>,
    depth: usize,
    contents: &mut Contents,
) -> Result<(), ChartProblem> {
    if is_packed_chart(&path) {
        return unpack_nested(&path, &mut entry, depth, contents);
    }
    let size = entry.size();
    contents.read(path, size, entry).map_err(|problem| match problem {
        ChartProblem::Io { why, .. } => ChartProblem::Broken(why),
        other => other,
    })
}

/// Reads the archive of a dependency in `charts/`, and adds its files to `contents`.
///
/// As in helm, the files get paths below `charts/<name>/`, with the name from the dependency's `Chart.yaml`.
pub(super) fn unpack_nested(
    path: &str,
    from: &mut dyn Read,
    depth: usize,
    contents: &mut Contents,
) -> Result<(), ChartProblem> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(ChartProblem::TooDeep { path: path.to_owned(), most: MAX_DEPTH });
    };
    let mut inner = Contents::default();
    let metadata = unpack(from, depth, &mut inner)
        .and_then(|()| super::metadata::Metadata::of(&inner))
        .map_err(|problem| ChartProblem::Dependency { path: path.to_owned(), problem: Box::new(problem) })?;
    let prefix = path.rsplit_once("charts/").map_or("", |(prefix, _)| prefix);
    contents.vendor(prefix, &metadata.name, inner)
}

/// Whether `path` is `charts/<name>.tgz` in the chart or in one of its dependencies, which helm unpacks. The result is
/// false for a name that begins with `_` or `.`, because helm ignores this file.
pub(super) fn is_packed_chart(path: &str) -> bool {
    let name = super::contents::within_chart(path).strip_prefix("charts/").unwrap_or_default();
    std::path::Path::new(name).extension().is_some_and(|extension| extension == "tgz") && !name.starts_with(['_', '.'])
}

fn unsupported_kind(kind: EntryType) -> Option<&'static str> {
    match kind {
        EntryType::Regular | EntryType::Directory => None,
        EntryType::Symlink => Some("a symbolic link"),
        EntryType::Link => Some("a hard link"),
        EntryType::Char | EntryType::Block => Some("a device"),
        EntryType::Fifo => Some("a named pipe"),
        EntryType::GNUSparse => Some("a sparse file"),
        _ => Some("of a kind unknown to helm"),
    }
}

/// Returns the path of an archive entry as text, or the reason why osdpl refuses the entry.
///
/// The path must stay below the folder into which the archive is unpacked, on every operating system.
fn check_path(bytes: &[u8]) -> Result<String, ChartProblem> {
    let path = std::str::from_utf8(bytes)
        .map_err(|_| ChartProblem::NotUnicode(String::from_utf8_lossy(bytes).into_owned()))?;
    let plain = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
    let why = if path.starts_with('/') {
        "has an absolute path"
    } else if plain.split('/').any(|part| part == "..") {
        "points outside of the chart"
    } else if plain.contains('\\') || plain.chars().any(char::is_control) {
        "has a backslash or a control character in its path"
    } else if !plain.is_empty() && plain != "." && plain.split('/').any(|part| part.is_empty() || part == ".") {
        "has an empty or `.` part in its path"
    } else {
        return Ok(plain.to_owned());
    };
    Err(ChartProblem::Path { path: path.to_owned(), why })
}

/// Returns the path of an archive entry, relative to the archive's top folder; `None` for an entry at the top level,
/// such as the top folder itself.
///
/// Stores the name of the top folder in `top`, and fails if an earlier entry had another top folder.
fn below_top(path: &str, top: &mut Option<String>) -> Result<Option<String>, ChartProblem> {
    let (folder, rest) = path.split_once('/').map_or((path, None), |(folder, rest)| (folder, Some(rest)));
    if folder.is_empty() || folder == "." {
        return Ok(None);
    }
    match top {
        Some(first) if first != folder => {
            return Err(ChartProblem::TwoFolders { first: first.clone(), second: folder.to_owned() });
        }
        Some(_) => {}
        None => *top = Some(folder.to_owned()),
    }
    Ok(rest.map(str::to_owned))
}

/// Writes a chart as a `.tgz`. The same content and chart name always result in the same bytes.
pub(crate) fn write(name: &str, contents: &Contents, to: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::fast()));
    for (path, content) in contents.files() {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{name}/{path}"), content)?;
    }
    archive.into_inner()?.finish()?.flush()
}

/// A reader that limits the number of bytes that the decompressor returns (content, headers and padding), because a
/// small archive may unpack to a huge one (a decompression bomb).
struct Bounded<R> {
    from: R,
    remaining: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.remaining = self.remaining.checked_sub(count as u64).ok_or(ChartProblem::TooLarge)?;
        Ok(count)
    }
}
