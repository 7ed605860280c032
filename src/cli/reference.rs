//! Describes the catalogue, for `osdpl catalog` and the reference documentation: lists of entries, and a page for each
//! entry. An entry is a service, a preset, a feature or an OpenStack release.
//!
//! This module does no I/O. A page shows a file of the catalogue as written, with its expressions. In contrast, `osdpl
//! render` and `osdpl explain` show the values that result from a spec.

mod feature;
mod fragments;
mod openstack;
mod pages;
mod preset;
mod schema;
mod service;
mod table;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use pages::pages;

use osdpl_core::catalog::{Files, did_you_mean, file};
use osdpl_values::yaml;

/// The kinds of entries in a catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Services with their releases.
    Services,
    /// Presets.
    Presets,
    /// Features.
    Features,
    /// OpenStack releases.
    Releases,
}

impl Kind {
    /// All kinds, in display order.
    pub const ALL: [Self; 4] = [Self::Services, Self::Presets, Self::Features, Self::Releases];

    /// Returns the kind's name in the plural, such as `services`. Users write this name after `osdpl catalog`, and the
    /// folder with the kind's pages has this name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Presets => "presets",
            Self::Features => "features",
            Self::Releases => "releases",
        }
    }

    /// Returns the kind's name in the singular, such as `service`, for messages.
    fn one(self) -> &'static str {
        match self {
            Self::Services => "service",
            Self::Presets => "preset",
            Self::Features => "feature",
            Self::Releases => "OpenStack release",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Services => "values/services/",
            Self::Presets => "presets/",
            Self::Features => "values/features/",
            Self::Releases => "values/openstack/",
        }
    }
}

/// The name and description of an entry, for a list of entries.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ListEntry {
    /// The name of the entry.
    pub name: String,
    /// The description of the entry in one line.
    pub description: String,
}

/// The full description of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The description as JSON, for programs.
    pub data: Value,
    /// The description as a Markdown page, for users.
    pub page: String,
}

/// Why osdpl can't parse the catalogue, or can't describe an entry.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the catalogue is not valid YAML, or does not match its schema.
    #[error("{0}; correct the file")]
    Yaml(#[from] yaml::Error),
    /// There is no entry of the requested kind and name.
    #[error("there is no {kind} {name:?}{hint}; choose from {known}")]
    Unknown {
        /// The requested kind.
        kind: &'static str,
        /// The name that was requested.
        name: String,
        /// A similar name, in the form ` (did you mean …?)`; empty if no name is similar.
        hint: String,
        /// The names of all entries of this kind, separated by commas.
        known: String,
    },
}

/// The parsed files of a catalogue, from which osdpl writes the reference documentation.
pub struct Reference {
    services: BTreeMap<String, file::Service>,
    presets: BTreeMap<String, file::Preset>,
    features: BTreeMap<String, file::Feature>,
    releases: BTreeMap<String, file::OpenStackRelease>,
    lock: BTreeMap<String, file::Pin>,
}

impl Reference {
    /// Parses the files of a catalogue.
    ///
    /// # Errors
    /// Returns an error if a file does not match its schema. The error describes the first such file.
    pub fn read(files: &Files) -> Result<Self, Error> {
        let lock: Option<file::Lock> =
            files.get("values/lock.yaml").map(|text| text.read("values/lock.yaml")).transpose()?;
        Ok(Self {
            services: folder(files, Kind::Services)?,
            presets: folder(files, Kind::Presets)?,
            features: folder(files, Kind::Features)?,
            releases: folder(files, Kind::Releases)?,
            lock: lock.map(|lock| lock.charts).unwrap_or_default(),
        })
    }

    /// Returns all entries of a kind, sorted by name.
    pub fn list(&self, kind: Kind) -> Vec<ListEntry> {
        let line =
            |name: &String, description: &String| ListEntry { name: name.clone(), description: description.clone() };
        match kind {
            Kind::Services => self.services.iter().map(|(name, entry)| line(name, &entry.description)).collect(),
            Kind::Presets => self.presets.iter().map(|(name, entry)| line(name, &entry.description)).collect(),
            Kind::Features => self.features.iter().map(|(name, entry)| line(name, &entry.description)).collect(),
            Kind::Releases => self.releases.iter().map(|(name, entry)| line(name, &entry.description)).collect(),
        }
    }

    /// Describes one entry.
    ///
    /// # Errors
    /// Returns an error if there is no entry of this kind and name.
    pub fn describe(&self, kind: Kind, name: &str) -> Result<Description, Error> {
        let found = match kind {
            Kind::Services => self.services.get(name).map(|entry| self.service(entry)),
            Kind::Presets => self.presets.get(name).map(|entry| self.preset(entry)),
            Kind::Features => self.features.get(name).map(feature::describe),
            Kind::Releases => self.releases.get(name).map(openstack::describe),
        };
        found.ok_or_else(|| {
            let known: Vec<String> = self.list(kind).into_iter().map(|line| line.name).collect();
            let hint = did_you_mean(name, known.iter().map(String::as_str));
            Error::Unknown { kind: kind.one(), name: name.to_owned(), hint, known: known.join(", ") }
        })
    }

    /// Returns the name of the service that has a release with this component.
    fn provider(&self, component: &str) -> Option<&str> {
        let has = |entry: &file::Service| entry.releases.values().any(|own| own.components.contains_key(component));
        self.services.iter().find_map(|(name, entry)| has(entry).then_some(name.as_str()))
    }
}

fn folder<T: DeserializeOwned>(files: &Files, kind: Kind) -> Result<BTreeMap<String, T>, Error> {
    let entries = files.iter().filter_map(|(path, text)| {
        let name = path.strip_prefix(kind.folder())?.strip_suffix(".yaml")?;
        (!name.contains('/')).then_some((name, path, text))
    });
    entries.map(|(name, path, text)| Ok((name.to_owned(), text.read(path)?))).collect()
}

#[cfg(test)]
mod tests;
