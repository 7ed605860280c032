//! Finds and reads charts in the user's folder of charts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use osdpl_values::CollectSorted;

use super::archive;
use super::contents::Contents;
use super::directory::{self, inside};
use super::error::Error;
use super::file_states::FileStates;
use super::lock::LockEntry;
use super::metadata::{Metadata, is_name, is_version};
use super::problem::ChartProblem;

/// A folder of archives `<name>-<version>.tgz`, chart directories `<name>/Chart.yaml`, or both.
#[derive(Debug)]
pub(crate) struct Folder<'a> {
    /// The path of the folder as the user has named it. Messages contain this path.
    shown: &'a Path,
    /// The path of the folder with all links resolved. osdpl reads no file outside of this folder.
    root: PathBuf,
}

/// An archive or a directory in the folder of charts. Its name says that it contains the requested chart.
#[derive(Clone, Debug)]
struct Candidate {
    path: PathBuf,
    version: String,
    is_directory: bool,
}

impl<'a> Folder<'a> {
    /// Opens a folder of charts, and resolves the links in its path.
    pub(super) fn open(folder: &'a Path) -> Result<Self, Error> {
        let unreadable = |why: String| Error::FolderUnreadable { folder: folder.display().to_string(), why };
        let root = folder.canonicalize().map_err(|error| unreadable(error.to_string()))?;
        if !root.is_dir() {
            return Err(unreadable("it is not a folder".to_owned()));
        }
        Ok(Self { shown: folder, root })
    }

    /// Reads the chart `name`.
    ///
    /// The first of these rules that applies decides which version the function reads:
    ///
    /// 1. If `version` is set, it reads this version.
    /// 2. If the folder contains the locked version, it reads the locked version.
    /// 3. Otherwise, it reads any version.
    ///
    /// Returns the metadata, the content and the path of the chart. Adds the states of the read files to `states`.
    ///
    /// Fails if the rule allows several archives or directories, for example an archive and a directory of the same
    /// version.
    pub(super) fn read(
        &self,
        name: &str,
        version: Option<&str>,
        pinned: Option<&LockEntry>,
        states: &mut FileStates,
    ) -> Result<(Metadata, Contents, PathBuf), Error> {
        let candidate = self.choose(name, version, pinned, states)?;
        let unreadable = |problem| Error::Unreadable {
            name: name.to_owned(),
            location: candidate.path.display().to_string(),
            problem,
        };
        let contents = self.contents(&candidate, states).map_err(unreadable)?;
        let metadata = Metadata::of(&contents).map_err(unreadable)?;
        metadata.check_identity(name, &candidate.version).map_err(unreadable)?;
        Ok((metadata, contents, candidate.path))
    }

    fn contents(&self, candidate: &Candidate, states: &mut FileStates) -> Result<Contents, ChartProblem> {
        if candidate.is_directory {
            return directory::read(&candidate.path, &self.root, states);
        }
        let path = inside(&candidate.path, &self.root)?;
        states.record(&path);
        let failed = |error: std::io::Error| ChartProblem::io(&path.display().to_string(), &error);
        // Do not open a named pipe: the call would block until another process writes into the pipe.
        if !fs::metadata(&path).map_err(failed)?.is_file() {
            let path = candidate.path.display().to_string();
            return Err(ChartProblem::NotAFile { path, what: "not a regular file, but named like a chart archive" });
        }
        archive::read(BufReader::new(File::open(&path).map_err(failed)?))
    }

    fn choose(
        &self,
        name: &str,
        version: Option<&str>,
        pinned: Option<&LockEntry>,
        states: &mut FileStates,
    ) -> Result<Candidate, Error> {
        let location = self.shown.display().to_string();
        let mut candidates = self.candidates(name, states)?;
        if candidates.is_empty() {
            let looked_for = format!(": looked for {name}-<version>.tgz and {name}/Chart.yaml");
            return Err(Error::Missing { name: name.to_owned(), location, looked_for });
        }
        let wanted = version.or_else(|| {
            let locked = pinned.map(|pinned| pinned.version.as_str())?;
            candidates.iter().any(|candidate| candidate.version == locked).then_some(locked)
        });
        if let Some(version) = wanted {
            let versions: BTreeSet<_> = candidates.iter().map(|candidate| candidate.version.clone()).collect_set();
            candidates.retain(|candidate| candidate.version == version);
            if candidates.is_empty() {
                let found = format!("it has {}", Vec::from_iter(versions).join(", "));
                return Err(Error::VersionMissing {
                    name: name.to_owned(),
                    version: version.to_owned(),
                    location,
                    found,
                });
            }
        }
        match candidates.as_slice() {
            [one] => Ok(one.clone()),
            several => {
                let shown =
                    |candidate: &Candidate| format!("{} ({})", self.relative(&candidate.path), candidate.version);
                let candidates = several.iter().map(shown).collect::<Vec<_>>().join(", ");
                Err(Error::Ambiguous { name: name.to_owned(), location, candidates })
            }
        }
    }

    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(self.shown).unwrap_or(path).display().to_string()
    }

    /// Returns all candidates for the chart `name`: the chart's archives, sorted, and then its directory if it exists.
    fn candidates(&self, name: &str, states: &mut FileStates) -> Result<Vec<Candidate>, Error> {
        states.record(&self.root);
        let mut candidates: Vec<_> = self
            .entries()?
            .into_iter()
            .filter_map(|file| {
                let version = version_in(&file, name)?;
                Some(Candidate { path: self.shown.join(&file), version: version.to_owned(), is_directory: false })
            })
            .collect();
        let directory = self.shown.join(name);
        let chart_yaml = directory.join("Chart.yaml");
        if chart_yaml.exists() {
            states.record(&chart_yaml);
            let metadata = self.metadata(&chart_yaml).map_err(|problem| Error::Unreadable {
                name: name.to_owned(),
                location: directory.display().to_string(),
                problem,
            })?;
            candidates.push(Candidate { path: directory, version: metadata.version, is_directory: true });
        }
        Ok(candidates)
    }

    fn metadata(&self, chart_yaml: &Path) -> Result<Metadata, ChartProblem> {
        let path = inside(chart_yaml, &self.root)?;
        let mut contents = Contents::default();
        let failed = |error: std::io::Error| ChartProblem::io("Chart.yaml", &error);
        if !fs::metadata(&path).map_err(failed)?.is_file() {
            return Err(ChartProblem::NotAFile { path: "Chart.yaml".to_owned(), what: "not a regular file" });
        }
        contents.read("Chart.yaml".to_owned(), 0, File::open(&path).map_err(failed)?)?;
        Metadata::of(&contents)
    }

    fn entries(&self) -> Result<BTreeSet<String>, Error> {
        let unreadable = |error: std::io::Error| Error::FolderUnreadable {
            folder: self.shown.display().to_string(),
            why: error.to_string(),
        };
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.root).map_err(unreadable)? {
            names.extend(entry.map_err(unreadable)?.file_name().into_string());
        }
        Ok(names)
    }

    /// Returns the name of each chart in the folder, and whether helm can install the chart.
    ///
    /// helm cannot install a library chart, or a directory whose `Chart.yaml` is invalid. The function does not unpack
    /// archives, so each archive counts as installable.
    pub(crate) fn names(&self) -> Result<BTreeMap<String, bool>, Error> {
        let mut names = BTreeMap::new();
        for file in self.entries()? {
            let chart_yaml = self.shown.join(&file).join("Chart.yaml");
            if chart_yaml.exists() {
                let installable = self.metadata(&chart_yaml).is_ok_and(|metadata| !metadata.is_library());
                names.insert(file, installable);
            } else if let Some(name) = name_in(&file) {
                names.entry(name.to_owned()).or_insert(true);
            }
        }
        Ok(names)
    }
}

/// Returns the version in the file name of an archive of the chart `name`; `None` for any other file.
///
/// For example, `mariadb-backup-1.0.0.tgz` is not an archive of the chart mariadb.
fn version_in<'f>(file: &'f str, name: &str) -> Option<&'f str> {
    file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".tgz").filter(|version| is_version(version))
}

/// Returns the name of the chart in an archive's file name; `None` if the file name is not that of a chart archive.
fn name_in(file: &str) -> Option<&str> {
    name_before_version(file.strip_suffix(".tgz")?)
}

/// Returns the name of the chart in a text `<name>-<version>`; `None` if the text does not have this form.
pub(super) fn name_before_version(text: &str) -> Option<&str> {
    let mut splits = text.match_indices('-').map(|(end, _)| (&text[..end], &text[end + 1..]));
    splits.find(|(name, version)| is_name(name) && is_version(version)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::{name_in, version_in};

    #[test]
    fn parses_names_of_archives() {
        for (file, name, version) in [
            ("mariadb-2026.1.0.tgz", "mariadb", "2026.1.0"),
            ("mariadb-backup-2026.1.7+0ee5ade.tgz", "mariadb-backup", "2026.1.7+0ee5ade"),
            ("a-1.0.0-rc-1.tgz", "a", "1.0.0-rc-1"),
        ] {
            assert_eq!((name_in(file), version_in(file, name)), (Some(name), Some(version)), "{file}");
        }
        assert_eq!(version_in("mariadb-backup-2026.1.0.tgz", "mariadb"), None);
        assert_eq!(name_in("README.md"), None);
    }
}
