//! A chart directory (of a checkout, or one being written) as the chart that `helm package` would make of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::archive;
use super::contents::Contents;
use super::ignore::Rules;
use super::metadata::{Dependency, Metadata};
use super::problem::Problem;
use super::seen::Seen;

/// Reads the chart in `folder`: its files without those that `.helmignore` names, links followed as helm does but only
/// inside `root`, and each dependency that is not in `charts/` but next door (`file://…`) put into it. Version ranges of such
/// neighbours are not looked at: there is just the one to take.
///
/// `root` must be canonical. What was looked at is noted in `seen`.
pub fn read(folder: &Path, root: &Path, seen: &mut Seen) -> Result<Contents, Problem> {
    Reader { root, seen, charts: Vec::new() }.chart(folder)
}

struct Reader<'a> {
    root: &'a Path,
    seen: &'a mut Seen,
    /// The charts being read, outermost first: a dependency on one of them is a circle.
    charts: Vec<PathBuf>,
}

impl Reader<'_> {
    fn chart(&mut self, folder: &Path) -> Result<Contents, Problem> {
        let folder = inside(folder, self.root)?;
        if self.charts.contains(&folder) {
            return Err(Problem::Circle { path: folder.display().to_string() });
        }
        let ignore = folder.join(".helmignore");
        let rules = if ignore.is_file() {
            let text = fs::read(inside(&ignore, self.root)?).map_err(|error| Problem::io(".helmignore", &error))?;
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

    /// `folders` are the canonical folders from the chart down to the one to read, whose path in the chart is `path`.
    fn files(
        &mut self,
        folders: &mut Vec<PathBuf>,
        path: &str,
        rules: &Rules,
        contents: &mut Contents,
    ) -> Result<(), Problem> {
        let Some(folder) = folders.last().cloned() else { return Ok(()) };
        self.seen.note(&folder);
        let failed = |error: std::io::Error| Problem::io(&folder.display().to_string(), &error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_str().ok_or_else(|| Problem::NotUnicode(name.to_string_lossy().into_owned()))?;
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
    ) -> Result<(), Problem> {
        let failed = |error: std::io::Error| Problem::io(&path, &error);
        let is_link = file.symlink_metadata().map_err(failed)?.is_symlink();
        let kind = if is_link { fs::metadata(file) } else { file.symlink_metadata() };
        let is_folder = kind.as_ref().is_ok_and(fs::Metadata::is_dir);
        if rules.leaves_out(&path, is_folder) {
            return Ok(());
        }
        let kind = kind.map_err(failed)?;
        if path.contains('\\') || path.chars().any(char::is_control) {
            return Err(Problem::Path { path, why: "has a backslash or a control character in its path" });
        }
        let file = inside(file, self.root)?;
        if is_folder {
            if folders.contains(&file) {
                return Err(Problem::Circle { path });
            }
            folders.push(file);
            self.files(folders, &path, rules, contents)?;
            folders.pop();
            return Ok(());
        }
        if !kind.is_file() {
            return Err(Problem::NotAFile { path, what: "a device, a socket or a named pipe" });
        }
        self.seen.note(&file);
        let mut opened = File::open(&file).map_err(failed)?;
        if archive::is_packed_chart(&path) {
            return archive::nested(&path, &mut opened, archive::DEEPEST, contents);
        }
        contents.read(path, kind.len(), opened)
    }

    fn dependency(&mut self, chart: &Path, dependency: &Dependency, contents: &mut Contents) -> Result<(), Problem> {
        let Dependency { name, repository } = dependency;
        if contents.dependencies().any(|there| there == name) {
            return Ok(());
        }
        let Some(path) = repository.strip_prefix("file://") else {
            return Err(Problem::NoDependency { name: name.clone(), repository: repository.clone() });
        };
        let neighbour = self.chart(&chart.join(path)).map_err(|problem| match problem {
            Problem::Circle { .. } | Problem::Outside { .. } | Problem::Within { .. } => problem,
            other => Problem::Within { path: repository.clone(), problem: Box::new(other) },
        })?;
        let found = Metadata::of(&neighbour)?.name;
        if found != *name {
            return Err(Problem::OtherName { expected: name.clone(), found });
        }
        contents.vendor("", name, neighbour)
    }
}

/// The canonical path, if it lies inside `root`.
pub(super) fn inside(path: &Path, root: &Path) -> Result<PathBuf, Problem> {
    let shown = || path.display().to_string();
    let canonical = path.canonicalize().map_err(|error| Problem::io(&shown(), &error))?;
    if canonical.starts_with(root) {
        return Ok(canonical);
    }
    Err(Problem::Outside { path: shown(), root: root.display().to_string() })
}
