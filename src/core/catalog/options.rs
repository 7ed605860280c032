//! The options of services: which options a service reads from a configuration file that a chart writes, such as
//! `nova.conf`.
//!
//! A chart copies a part of its values, such as `conf.nova`, into the configuration file. The service ignores options
//! that it does not know, so neither helm nor the service reports a misspelled option. osdpl finds such options with
//! the files in `values/options/`.
//!
//! All files together describe thousands of options, and a cloud sets few of them. So osdpl decodes a file only to
//! check values that a user sets below the file's path, and keeps only the compressed text in memory.
//!
//! Many services use the same libraries, and all agents of Neutron have hundreds of options in common. The program
//! contains such options once, in the files of `values/options/shared/`. The field `include` of a file names them.

mod option;
mod patterns;
mod problems;

pub use option::{OptionType, ServiceOption};

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Error, Text, did_you_mean};
use option::Variants;
use osdpl_values::Path;
use patterns::matches;

/// The files in `values/options/`: one file for each configuration file of a service.
#[derive(Debug, Default)]
pub struct OptionFiles {
    files: Vec<OptionFile>,
    /// The files in `values/options/shared/`, by name without the ending: the path and the text of each file.
    shared: BTreeMap<String, (String, Text)>,
}

/// A file in `values/options/`.
///
/// The file's name consists of the chart and the path, such as `nova.conf.nova.json`. So osdpl finds the file for a
/// value without decoding all files.
#[derive(Debug)]
pub struct OptionFile {
    /// The path of the file in the catalogue.
    file: String,
    /// The name of the chart whose values contain the options.
    chart: String,
    /// The path in the chart's values below which each key is a section of the configuration file.
    path: Path,
    text: Text,
}

impl OptionFiles {
    /// Returns the files that describe options in the values of a chart.
    pub fn of_chart<'a>(&'a self, chart: &'a str) -> impl Iterator<Item = &'a OptionFile> {
        self.files.iter().filter(move |file| file.chart == chart)
    }

    /// Returns all files.
    pub fn all(&self) -> impl Iterator<Item = &OptionFile> {
        self.files.iter()
    }

    /// Adds the file at `path`, whose name without the ending is `name`. It contains options that other files include.
    pub(super) fn add_shared(&mut self, name: String, path: String, text: Text) {
        self.shared.insert(name, (path, text));
    }

    /// Adds the file at `path`, whose name without the ending is `name`. Add the files that it includes first.
    ///
    /// # Errors
    /// Returns the errors in the file's name and, if a user provided the text, all errors in the text. osdpl's own
    /// tests check the built-in texts.
    pub(super) fn add(&mut self, name: &str, path: &str, text: &Text) -> Result<(), Vec<Error>> {
        let parsed = name.split_once('.').and_then(|(chart, below)| Some((chart, Path::parse(below).ok()?)));
        let Some((chart, below)) = parsed else {
            let problem = "the name is not CHART.PATH.json, such as nova.conf.nova.json; rename the file".to_owned();
            return Err(vec![Error::Other { file: path.to_owned(), problem }]);
        };
        let added = OptionFile { file: path.to_owned(), chart: chart.to_owned(), path: below, text: text.clone() };
        if matches!(text, Text::UserProvided(_)) {
            let errors = self.check(&added);
            if !errors.is_empty() {
                return Err(errors);
            }
        }
        self.files.push(added);
        Ok(())
    }

    /// Decodes a file, and adds the options that it includes. The caller drops the result after use, because it takes
    /// much memory.
    ///
    /// Returns `None` if the file can't be decoded. This never happens, because tests decode every built-in file, and
    /// the loader decodes every file of a user.
    pub fn read(&self, file: &OptionFile) -> Option<Options> {
        self.decode(file).ok()
    }

    /// Returns all errors in the content of a file.
    pub fn check(&self, file: &OptionFile) -> Vec<Error> {
        let options = match self.decode(file) {
            Ok(options) => options,
            Err(error) => return vec![error],
        };
        let problems = problems::find_problems(&options, &file.chart, &file.path).into_iter();
        problems.map(|problem| Error::Other { file: file.file.clone(), problem }).collect()
    }

    fn decode(&self, file: &OptionFile) -> Result<Options, Error> {
        let mut options: Options = file.text.read(&file.file)?;
        for name in std::mem::take(&mut options.include).iter().rev() {
            let Some((path, text)) = self.shared.get(name) else {
                let hint = did_you_mean(name, self.shared.keys().map(String::as_str));
                let problem = format!("include: osdpl has no shared options {name:?}{hint}; correct the name");
                return Err(Error::Other { file: file.file.clone(), problem });
            };
            let shared: Sections = text.read(path)?;
            for (section, shared) in shared {
                let own = options.sections.entry(section).or_default();
                for (name, variants) in shared {
                    own.entry(name).or_insert(variants);
                }
            }
        }
        Ok(options)
    }
}

impl OptionFile {
    /// Returns the path of the file in the catalogue, such as `values/options/nova.conf.nova.json`.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the name of the chart whose values contain the options.
    pub fn chart(&self) -> &str {
        &self.chart
    }

    /// Returns the path in the chart's values below which each key is a section of the configuration file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Options by section and name: the content of a file in `values/options/shared/`.
type Sections = BTreeMap<String, BTreeMap<String, Variants>>;

/// The content of a file in `values/options/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The name of the chart. The field is named `release`, although several releases can use the chart.
    release: String,
    /// The path in the chart's values, as text.
    path: String,
    /// The OpenStack releases that the file describes, each with the version of the service's Python package.
    pub versions: BTreeMap<String, String>,
    /// The names of files in `values/options/shared/` whose options the service has, too. If several files contain an
    /// option, the last one counts, and an option in `sections` has precedence over all of them. Empty after decoding.
    #[serde(default)]
    include: Vec<String>,
    /// Patterns for the names of sections in which any option is allowed, because drivers or users define the options.
    /// In a pattern, `*` stands for any string.
    #[serde(default)]
    open: Vec<String>,
    /// Sections that have the options of another section: a pattern for the names of these sections, and the name of
    /// the other section. The name of a section can match several patterns.
    #[serde(default)]
    like: BTreeMap<String, String>,
    /// The known options, by section and name.
    sections: Sections,
}

/// Why a section does not have an option in an OpenStack release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence<'a> {
    /// The option exists only in earlier OpenStack releases.
    Removed {
        /// The first OpenStack release without the option.
        release: &'a str,
        /// The section and the name of the new option that replaces the removed one; `None` if no option does.
        new_name: Option<(&'a str, &'a str)>,
    },
    /// The option exists only in later OpenStack releases. Contains the first release with the option.
    Later(&'a str),
    /// The file does not contain the option, but the section may have it: drivers or users define options in the
    /// section, or the file knows the section only by a pattern in `like`.
    Open,
    /// No OpenStack release has the option.
    Unknown,
    /// No OpenStack release has the section.
    UnknownSection,
}

impl Options {
    /// Whether the file describes an OpenStack release. If not, osdpl knows nothing about the options in this release.
    pub fn describes(&self, openstack_release: &str) -> bool {
        self.versions.contains_key(openstack_release)
    }

    /// Returns an option as it is in an OpenStack release; `None` if the release does not have the option.
    pub fn find(&self, section: &str, option: &str, openstack_release: &str) -> Option<&ServiceOption> {
        self.variants(section, option)?.of(openstack_release)
    }

    /// Whether the file knows the options of a section only because the section's name matches a pattern in `like`.
    pub fn is_only_like_others(&self, section: &str) -> bool {
        self.own_section(section).is_none() && !self.is_open(section) && self.similar_sections(section).next().is_some()
    }

    fn is_open(&self, section: &str) -> bool {
        self.open.iter().any(|pattern| matches(pattern, section))
    }

    /// Returns the sections whose options a section has, because the section's name matches a pattern in `like`.
    fn similar_sections(&self, section: &str) -> impl Iterator<Item = &String> {
        self.like.iter().filter(move |(pattern, _)| matches(pattern, section)).map(|(_, other)| other)
    }

    /// Returns why [`Options::find`] does not find an option.
    pub fn absence(&self, section: &str, option: &str, openstack_release: &str) -> Absence<'_> {
        if let Some(variants) = self.variants(section, option) {
            let has = |release: &&String| variants.of(release).is_some();
            let releases = || self.versions.keys();
            if let Some(later) = releases().find(|release| release.as_str() > openstack_release && has(release)) {
                return Absence::Later(later);
            }
            let Some(last) = releases().rfind(has) else { return Absence::Unknown };
            let new_name = variants.of(last).and_then(ServiceOption::new_name);
            let gone = releases().find(|release| *release > last);
            return gone.map_or(Absence::Unknown, |release| Absence::Removed { release, new_name });
        }
        if self.is_open(section) || self.is_only_like_others(section) {
            Absence::Open
        } else if self.own_section(section).is_some() {
            Absence::Unknown
        } else {
            Absence::UnknownSection
        }
    }

    /// Returns the names of the options that a section has in an OpenStack release.
    pub fn names<'a>(&'a self, section: &str, openstack_release: &'a str) -> impl Iterator<Item = &'a str> {
        let options = self.sections_named(section).into_iter().flatten();
        options.filter(|(_, variants)| variants.of(openstack_release).is_some()).map(|(name, _)| name.as_str())
    }

    /// Returns the names of the sections.
    pub fn sections(&self) -> impl Iterator<Item = &str> {
        self.sections.keys().map(String::as_str)
    }

    fn variants(&self, section: &str, option: &str) -> Option<&Variants> {
        self.sections_named(section).into_iter().find_map(|options| options.get(option))
    }

    /// Returns the options of a section. If the file contains no section of this name, returns the options of all
    /// [similar sections](Self::similar_sections).
    ///
    /// Like oslo.config, the method ignores the case of letters in a section's name, except in `DEFAULT`.
    fn sections_named(&self, name: &str) -> Vec<&BTreeMap<String, Variants>> {
        if let Some(own) = self.own_section(name) {
            return vec![own];
        }
        self.similar_sections(name).filter_map(|section| self.sections.get(section)).collect()
    }

    fn own_section(&self, name: &str) -> Option<&BTreeMap<String, Variants>> {
        let is_same = |other: &&String| name != "DEFAULT" && *other != "DEFAULT" && other.eq_ignore_ascii_case(name);
        self.sections.get(name).or_else(|| self.sections.get(self.sections.keys().find(is_same)?))
    }
}

#[cfg(test)]
mod tests;
