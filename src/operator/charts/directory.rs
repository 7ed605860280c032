//! Reads a chart directory, such as one in a checkout of OpenStack-Helm, and returns the chart that `helm package`
//! would create from the directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::archive;
use super::contents::Contents;
use super::file_states::FileStates;
use super::ignore::Rules;
use super::metadata::{Dependency, Metadata};
use super::problem::ChartProblem;

/// Reads the chart in `folder`.
///
/// Skips files that `.helmignore` names. Follows symbolic links as helm does, but only inside `root`, the canonical
/// path of the user's folder of charts. If `charts/` lacks a dependency, the function reads the dependency from the
/// `file://…` repository that `Chart.yaml` names. It ignores the version range of the dependency, because such a
/// repository has only one version.
///
/// Records each file and folder that it reads in `states`, so that osdpl can detect a later change.
pub(crate) fn read(folder: &Path, root: &Path, states: &mut FileStates) -> Result<Contents, ChartProblem> {
    Reader { root, states, charts: Vec::new() }.chart(folder)
}

struct Reader<'a> {
    root: &'a Path,
    states: &'a mut FileStates,
    /// The folders of the charts that are being read, outermost first. With this list, the reader detects a chart that
    /// depends on itself.
    charts: Vec<PathBuf>,
}

impl Reader<'_> {
    fn chart(&mut self, folder: &Path) -> Result<Contents, ChartProblem> {
        let folder = inside(folder, self.root)?;
        if self.charts.contains(&folder) {
            return Err(ChartProblem::Cycle { path: folder.display().to_string() });
        }
        let ignore = folder.join(".helmignore");
        let rules = if ignore.is_file() {
            // Record the file here, because its own rules may ignore it, so that `files` skips it.
            self.states.record(&ignore);
            let text =
                fs::read(inside(&ignore, self.root)?).map_err(|error| ChartProblem::io(".helmignore", &error))?;
            Rules::parse(&String::from_utf8_lossy(&text))?
        } else {
            Rules::parse("")?
        };
        let mut contents = Contents::default();
        self.files(&mut vec![folder.clone()], "", &rules, &mut contents)?;
        let metadata = Metadata::of(&contents)?;
        self.charts.push(folder.clone());
        for dependency in &metadata.dependencies {
            self.dependency(&folder, dependency, &mut contents)?;
        }
        self.charts.pop();
        Ok(contents)
    }

    /// Adds the files of one folder of a chart to `contents`.
    ///
    /// `path` is the path of the folder to read, relative to the chart's folder. `folders` contains the canonical path
    /// of each folder from the chart's folder down to the folder to read. With this list, the reader detects symbolic
    /// links that form a cycle.
    fn files(
        &mut self,
        folders: &mut Vec<PathBuf>,
        path: &str,
        rules: &Rules,
        contents: &mut Contents,
    ) -> Result<(), ChartProblem> {
        let Some(folder) = folders.last().cloned() else { return Ok(()) };
        self.states.record(&folder);
        let failed = |error: std::io::Error| ChartProblem::io(&folder.display().to_string(), &error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_str().ok_or_else(|| ChartProblem::NotUnicode(name.to_string_lossy().into_owned()))?;
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            self.entry(folders, &folder.join(name), path, rules, contents)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        folders: &mut Vec<PathBuf>,
        file: &Path,
        path: String,
        rules: &Rules,
        contents: &mut Contents,
    ) -> Result<(), ChartProblem> {
        let failed = |error: std::io::Error| ChartProblem::io(&path, &error);
        let is_link = file.symlink_metadata().map_err(failed)?.is_symlink();
        let kind = if is_link { fs::metadata(file) } else { file.symlink_metadata() };
        let is_folder = kind.as_ref().is_ok_and(fs::Metadata::is_dir);
        if rules.ignores(&path, is_folder) {
            return Ok(());
        }
        let kind = kind.map_err(failed)?;
        if path.contains('\\') || path.chars().any(char::is_control) {
            return Err(ChartProblem::Path { path, why: "has a backslash or a control character in its path" });
        }
        let file = inside(file, self.root)?;
        if is_folder {
            if folders.contains(&file) {
                return Err(ChartProblem::Cycle { path });
            }
            folders.push(file);
            self.files(folders, &path, rules, contents)?;
            folders.pop();
            return Ok(());
        }
        if !kind.is_file() {
            return Err(ChartProblem::NotAFile { path, what: "a device, a socket or a named pipe" });
        }
        self.states.record(&file);
        let mut opened = File::open(&file).map_err(failed)?;
        if archive::is_packed_chart(&path) {
            return archive::unpack_nested(&path, &mut opened, archive::MAX_DEPTH, contents);
        }
        contents.read(path, kind.len(), opened)
    }

    fn dependency(
        &mut self,
        chart: &Path,
        dependency: &Dependency,
        contents: &mut Contents,
    ) -> Result<(), ChartProblem> {
        let Dependency { name, repository } = dependency;
        if contents.dependencies().any(|present| present == name) {
            return Ok(());
        }
        let Some(path) = repository.strip_prefix("file://") else {
            return Err(ChartProblem::NoDependency { name: name.clone(), repository: repository.clone() });
        };
        let chart_contents = self.chart(&chart.join(path)).map_err(|problem| match problem {
            ChartProblem::Cycle { .. } | ChartProblem::Outside { .. } | ChartProblem::Dependency { .. } => problem,
            other => ChartProblem::Dependency { path: repository.clone(), problem: Box::new(other) },
        })?;
        let found = Metadata::of(&chart_contents)?.name;
        if found != *name {
            return Err(ChartProblem::OtherName { expected: name.clone(), found });
        }
        contents.vendor("", name, chart_contents)
    }
}

/// Returns the canonical form of a path. Fails if the path is outside of `root` or cannot be read.
pub(super) fn inside(path: &Path, root: &Path) -> Result<PathBuf, ChartProblem> {
    let shown = || path.display().to_string();
    let canonical = path.canonicalize().map_err(|error| ChartProblem::io(&shown(), &error))?;
    if canonical.starts_with(root) {
        return Ok(canonical);
    }
    Err(ChartProblem::Outside { path: shown(), root: root.display().to_string() })
}
