//! What is wanted of the store, and what it gives.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::archive;
use super::contents::{Contents, within_chart};
use super::digest::Digest;
use super::error::Error;
use super::lock::Lock;
use super::metadata::{self, Metadata, is_name, is_version};
use super::problem::Problem;
use super::reads::{self, Reads};
use super::source;
use osdpl_core::release::{dependencies, imprint};

/// A chart that some release needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The chart's name.
    pub name: String,
    /// The exact version; the locked one where unset.
    pub version: Option<String>,
    /// The repository, where the deployment names one; the store's own source where unset.
    pub repository: Option<String>,
}

impl Wanted {
    /// The chart in its locked version, from the store's own source.
    pub fn locked(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: None, repository: None }
    }

    /// Names become parts of paths and of helm's command line.
    pub(super) fn check(&self) -> Result<(), Error> {
        let refuse = |text: &str, what| Err(Error::NotAName { text: text.to_owned(), what });
        if !is_name(&self.name) {
            return refuse(&self.name, "chart name");
        }
        if let Some(version) = self.version.as_deref().filter(|version| !is_version(version)) {
            return refuse(version, "chart version");
        }
        if let Some(repository) = &self.repository {
            source::repository(repository)?;
        }
        Ok(())
    }
}

/// A chart at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of what it installs, for people.
    pub app_version: Option<String>,
    /// The archive to hand to helm: absolute, dependencies inside, verified.
    pub path: PathBuf,
    /// What it is: part of every release's input digest.
    pub digest: Digest,
    /// The file, folder or repository it came from.
    pub origin: String,
    /// How it stands to the lock.
    pub pin: Pin,
}

/// How a chart stands to the lock. `Display` is what people read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Version and digest are the locked ones.
    Pinned,
    /// The version is the locked one, whose digest the lock does not know. From a repository it is that of the first pull.
    VersionOnly,
    /// It is another version than the locked one, because a folder has just that, or the deployment asks for it.
    Unpinned {
        /// The locked version; nothing when the lock does not have the chart.
        locked: Option<String>,
    },
}

impl Pin {
    pub(super) fn of(lock: &Lock, chart: &Metadata) -> Self {
        match lock.charts.get(&chart.name) {
            Some(pinned) if pinned.version != chart.version => Self::Unpinned { locked: Some(pinned.version.clone()) },
            Some(pinned) if pinned.digest.is_some() => Self::Pinned,
            Some(_) => Self::VersionOnly,
            None => Self::Unpinned { locked: None },
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned => formatter.write_str("as locked"),
            Self::VersionOnly => formatter.write_str("locked version, no digest in the lock"),
            Self::Unpinned { locked: Some(version) } => write!(formatter, "instead of the locked {version}"),
            Self::Unpinned { locked: None } => formatter.write_str("not in the lock"),
        }
    }
}

impl Chart {
    pub(super) fn new(metadata: Metadata, digest: Digest, path: PathBuf, origin: String, lock: &Lock) -> Self {
        let pin = Pin::of(lock, &metadata);
        let Metadata { name, version, app_version, .. } = metadata;
        Self { name, version, app_version, path, digest, origin, pin }
    }

    /// The chart's own `values.yaml`: an empty map where it has none. Reads the archive.
    ///
    /// # Errors
    /// When the archive is gone or damaged since, or its `values.yaml` is no YAML map.
    pub fn default_values(&self) -> Result<Value, Error> {
        Ok(Value::Object(self.read(&self.contents()?, "values.yaml")?))
    }

    /// A file that is a YAML map; an empty one where it is not there.
    fn read(&self, contents: &Contents, file: &str) -> Result<Map<String, Value>, Error> {
        let values: Option<Map<String, Value>> = match contents.get(file) {
            Some(text) => metadata::yaml(file, text).map_err(|problem| self.unreadable(problem))?,
            None => None,
        };
        Ok(values.unwrap_or_default())
    }

    /// The keys that the chart's templates read. Reads the archive.
    ///
    /// # Errors
    /// When the archive is gone or damaged since.
    pub fn reads(&self) -> Result<Reads, Error> {
        Ok(reads::reads(self.contents()?.files()))
    }

    /// The files in the `crds/` folders of the chart and of the charts within it, each YAML (or JSON) of one or more documents,
    /// sorted by path. helm never templates them, and with `--skip-crds` it leaves them to us. Reads the archive.
    ///
    /// # Errors
    /// When the archive is gone or damaged since, or such a file is not UTF-8.
    pub fn crds(&self) -> Result<Vec<String>, Error> {
        let contents = self.contents()?;
        let definitions = contents.files().filter(|(path, _)| is_definition(path));
        let text = |(path, content): (&str, &[u8])| {
            let text = String::from_utf8(content.to_vec());
            text.map_err(|_| self.unreadable(Problem::NotUnicode(path.to_owned())))
        };
        definitions.map(text).collect()
    }

    /// What helm's records tell the chart by, see [`osdpl_core::release::imprint`]. Reads the archive.
    ///
    /// # Errors
    /// As [`Self::default_values`].
    pub fn imprint(&self) -> Result<String, Error> {
        let contents = self.contents()?;
        let metadata = Value::Object(self.read(&contents, "Chart.yaml")?);
        let defaults = self.read(&contents, "values.yaml")?;
        Ok(imprint(contents.files(), &defaults, &dependencies(&metadata)))
    }

    fn contents(&self) -> Result<Contents, Error> {
        let failed = |error| Error::cache(&self.path, &error);
        let file = File::open(&self.path).map_err(failed)?;
        archive::read(BufReader::new(file)).map_err(|problem| self.unreadable(problem))
    }

    fn unreadable(&self, problem: Problem) -> Error {
        Error::Unreadable { name: self.name.clone(), place: self.path.display().to_string(), problem }
    }
}

/// helm's `CRDObjects`: files below `crds/` with an ending of manifests.
fn is_definition(path: &str) -> bool {
    let path = Path::new(within_chart(path));
    let ending = path.extension().and_then(std::ffi::OsStr::to_str);
    path.starts_with("crds") && matches!(ending, Some("yaml" | "yml" | "json"))
}
