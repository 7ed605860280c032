//! The catalogue told to people and programs: lists, descriptions of one thing, and the reference documentation.
//!
//! Pure room: what stands in the files is told as it stands there, with the expressions in it, for every spec at once. What a single spec comes
//! to is `render`'s and `explain`'s to say.

mod feature;
mod openstack;
mod pages;
mod preset;
mod schema;
mod service;
mod table;
mod written;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use pages::pages;

use osdpl_core::catalog::{Files, did_you_mean, file};
use osdpl_values::yaml;

/// What kinds of things a catalogue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Services with their releases.
    Services,
    /// Presets.
    Presets,
    /// Features.
    Features,
    /// Releases of OpenStack.
    Releases,
}

impl Kind {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 4] = [Self::Services, Self::Presets, Self::Features, Self::Releases];

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Presets => "presets",
            Self::Features => "features",
            Self::Releases => "releases",
        }
    }

    /// Of one thing.
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

/// One thing of the catalogue, in a line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
}

/// One thing of the catalogue, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// For programs.
    pub facts: Value,
    /// For people, as Markdown.
    pub page: String,
}

/// Why something can't be told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is not of its schema.
    #[error("{0}; correct the file")]
    Yaml(#[from] yaml::Error),
    /// Nothing has that name.
    #[error("there is no {kind} {name:?}{hint}; there are {known}")]
    Unknown {
        /// What was asked for.
        kind: &'static str,
        /// The name.
        name: String,
        /// `, did you mean …?`, or nothing.
        hint: String,
        /// The names that exist.
        known: String,
    },
}

/// A catalogue's files, read for telling.
pub struct Reference {
    services: BTreeMap<String, file::Service>,
    presets: BTreeMap<String, file::Preset>,
    features: BTreeMap<String, file::Feature>,
    releases: BTreeMap<String, file::OpenStackRelease>,
    lock: BTreeMap<String, file::Pin>,
}

impl Reference {
    /// Reads the files of a catalogue.
    ///
    /// # Errors
    /// For the first file that is not of its schema.
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

    /// Everything of a kind, by name.
    pub fn list(&self, kind: Kind) -> Vec<Line> {
        let line = |name: &String, description: &String| Line { name: name.clone(), description: description.clone() };
        match kind {
            Kind::Services => self.services.iter().map(|(name, entry)| line(name, &entry.description)).collect(),
            Kind::Presets => self.presets.iter().map(|(name, entry)| line(name, &entry.description)).collect(),
            Kind::Features => self.features.iter().map(|(name, entry)| line(name, &entry.description)).collect(),
            Kind::Releases => self.releases.iter().map(|(name, entry)| line(name, &entry.description)).collect(),
        }
    }

    /// One thing, whole.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn describe(&self, kind: Kind, name: &str) -> Result<Described, Error> {
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

    /// The service that provides a component.
    fn provider(&self, component: &str) -> Option<&str> {
        let has = |entry: &file::Service| entry.releases.values().any(|own| own.components.contains_key(component));
        self.services.iter().find_map(|(name, entry)| has(entry).then_some(name.as_str()))
    }
}

fn folder<T: DeserializeOwned>(files: &Files, kind: Kind) -> Result<BTreeMap<String, T>, Error> {
    let named = files.iter().filter_map(|(path, text)| {
        let name = path.strip_prefix(kind.folder())?.strip_suffix(".yaml")?;
        (!name.contains('/')).then_some((name, path, text))
    });
    named.map(|(name, path, text)| Ok((name.to_owned(), text.read(path)?))).collect()
}

#[cfg(test)]
mod tests;
