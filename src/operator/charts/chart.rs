//! Defines a verified chart that the store returns, and checks the requests for charts.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::archive;
use super::contents::{Contents, within_chart};
use super::digest::Digest;
use super::error::Error;
use super::lock::Lock;
use super::metadata::{self, Metadata, is_name, is_version};
use super::problem::ChartProblem;
use super::reads::{self, Reads};
use super::source;
use osdpl_core::release::{chart_fingerprint, dependency_names};
use osdpl_decide::ChartRequest;

/// Refuses a request whose name, version, repository or digest is unsafe in a path or on helm's command line.
pub(super) fn check_request(request: &ChartRequest) -> Result<(), Error> {
    let refuse = |text: &str, what| Err(Error::InvalidName { text: text.to_owned(), what });
    if !is_name(&request.name) {
        return refuse(&request.name, "chart name");
    }
    if let Some(version) = request.version.as_deref().filter(|version| !is_version(version)) {
        return refuse(version, "chart version");
    }
    if let Some(repository) = &request.repository {
        source::encrypted_repository(repository)?;
    }
    match &request.digest {
        Some(expected) if expected.digest.parse::<Digest>().is_err() => refuse(&expected.digest, "digest of a chart"),
        _ => Ok(()),
    }
}

/// A verified chart on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// The name of the chart.
    pub name: String,
    /// The version of the chart.
    pub version: String,
    /// The version of the software that the chart installs (`appVersion`). osdpl shows it to users.
    pub app_version: Option<String>,
    /// The absolute path of the verified archive that osdpl passes to helm. The archive contains all dependencies.
    pub path: PathBuf,
    /// The digest of the chart's content. It is part of the input digest of each release with this chart, so osdpl
    /// notices when the content changes.
    pub digest: Digest,
    /// The file, folder or repository that the store took the chart from.
    pub origin: String,
    /// Whether the lock (`values/lock.yaml`) contains the version and the digest of the chart.
    pub pin: LockState,
}

/// Whether the lock (`values/lock.yaml`) contains the version and the digest of a chart.
///
/// `Display` writes the text that osdpl shows to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockState {
    /// The lock contains the version and the digest.
    Pinned,
    /// The lock contains the version with another digest. The store returned this chart, because the request names its
    /// digest.
    OtherDigest,
    /// The lock contains the version without a digest. If the store pulls the chart from a repository, it accepts only
    /// content with the digest of the first pull.
    VersionOnly,
    /// The lock contains another version of the chart, or does not contain the chart. The store returned this version
    /// because the user's folder has only this version, or because the request names this version.
    Unpinned {
        /// The locked version; `None` if the lock does not contain the chart.
        locked: Option<String>,
    },
}

impl LockState {
    pub(super) fn of(lock: &Lock, chart: &Metadata, digest: &Digest) -> Self {
        match lock.charts.get(&chart.name) {
            Some(pinned) if pinned.version != chart.version => Self::Unpinned { locked: Some(pinned.version.clone()) },
            Some(pinned) if pinned.digest.is_none() => Self::VersionOnly,
            Some(pinned) if pinned.digest.as_ref() == Some(digest) => Self::Pinned,
            Some(_) => Self::OtherDigest,
            None => Self::Unpinned { locked: None },
        }
    }
}

impl fmt::Display for LockState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned => formatter.write_str("as locked"),
            Self::OtherDigest => formatter.write_str("the locked version, but not with the locked digest"),
            Self::VersionOnly => formatter.write_str("the locked version; the lock has no digest for it"),
            Self::Unpinned { locked: Some(version) } => write!(formatter, "not the locked version {version}"),
            Self::Unpinned { locked: None } => formatter.write_str("not in the lock"),
        }
    }
}

impl Chart {
    pub(super) fn new(metadata: Metadata, digest: Digest, path: PathBuf, origin: String, lock: &Lock) -> Self {
        let pin = LockState::of(lock, &metadata, &digest);
        let Metadata { name, version, app_version, .. } = metadata;
        Self { name, version, app_version, path, digest, origin, pin }
    }

    /// Reads the chart's `values.yaml` from the archive. Returns an empty map if the chart has no `values.yaml`.
    ///
    /// # Errors
    /// Returns an error if the archive is missing or damaged, or its `values.yaml` is not a YAML map.
    pub fn default_values(&self) -> Result<Value, Error> {
        Ok(Value::Object(self.read(&self.contents()?, "values.yaml")?))
    }

    /// Reads a file of the chart that is a YAML map. Returns an empty map if the chart has no such file.
    fn read(&self, contents: &Contents, file: &str) -> Result<Map<String, Value>, Error> {
        let values: Option<Map<String, Value>> = match contents.get(file) {
            Some(text) => metadata::yaml(file, text).map_err(|problem| self.unreadable(problem))?,
            None => None,
        };
        Ok(values.unwrap_or_default())
    }

    /// Reads the archive, and returns the paths of the values that the chart's templates use.
    ///
    /// # Errors
    /// Returns an error if the archive is missing or damaged.
    pub fn reads(&self) -> Result<Reads, Error> {
        Ok(reads::reads(self.contents()?.files()))
    }

    /// Reads the files in the `crds/` folders of the chart and its dependencies from the archive, sorted by path.
    ///
    /// Each file is YAML or JSON with one or more documents. helm never renders these files as templates. The operator
    /// passes `--skip-crds` to helm, and applies the CRDs itself.
    ///
    /// # Errors
    /// Returns an error if the archive is missing or damaged, or one of these files is not UTF-8.
    pub fn crds(&self) -> Result<Vec<String>, Error> {
        let contents = self.contents()?;
        let definitions = contents.files().filter(|(path, _)| is_definition(path));
        let text = |(path, content): (&str, &[u8])| {
            let text = String::from_utf8(content.to_vec());
            text.map_err(|_| self.unreadable(ChartProblem::Yaml(format!("{path}: it is not UTF-8"))))
        };
        definitions.map(text).collect()
    }

    /// Whether the templates of the chart or its dependencies can render CRDs. helm installs and upgrades these CRDs
    /// like all objects of a release, even with `--skip-crds`.
    ///
    /// The function searches all files except for CRDs in `crds/` and documentation, because a template can render the
    /// content of other files. The result can be `true` although helm renders no CRD.
    ///
    /// # Errors
    /// Returns an error if the archive is missing or damaged.
    pub(crate) fn may_render_crds(&self) -> Result<bool, Error> {
        let contents = self.contents()?;
        let is_documentation = |path: &str| Path::new(path).extension().is_some_and(|extension| extension == "md");
        let mut searched = contents.files().filter(|(path, _)| !is_definition(path) && !is_documentation(path));
        Ok(searched.any(|(_, content)| {
            let text = String::from_utf8_lossy(content);
            // A template that contains `crds/` may render the files in this folder (`.Files.Glob "crds/*"`).
            text.contains("CustomResourceDefinition") || text.contains("crds/")
        }))
    }

    /// Reads the archive, and returns the fingerprint of the chart ([`osdpl_core::release::chart_fingerprint`]).
    ///
    /// If another tool made the newest revision of a release, osdpl compares this fingerprint with the fingerprint of
    /// the chart in the revision's record.
    ///
    /// # Errors
    /// Returns an error if the archive is missing or damaged, or its `Chart.yaml` or `values.yaml` is not a YAML map.
    pub fn fingerprint(&self) -> Result<String, Error> {
        let contents = self.contents()?;
        let metadata = Value::Object(self.read(&contents, "Chart.yaml")?);
        let defaults = self.read(&contents, "values.yaml")?;
        Ok(chart_fingerprint(contents.files(), &defaults, &dependency_names(&metadata)))
    }

    fn contents(&self) -> Result<Contents, Error> {
        let file = File::open(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::ArchiveMissing { name: self.name.clone(), path: self.path.display().to_string() }
            }
            _ => Error::cache(&self.path, &error),
        })?;
        archive::read(BufReader::new(file)).map_err(|problem| self.unreadable(problem))
    }

    fn unreadable(&self, problem: ChartProblem) -> Error {
        Error::Unreadable { name: self.name.clone(), location: self.path.display().to_string(), problem }
    }
}

/// Whether helm treats the file as a CRD: it is below `crds/` and has a manifest's extension (helm: `CRDObjects`).
fn is_definition(path: &str) -> bool {
    let path = Path::new(within_chart(path));
    let extension = path.extension().and_then(std::ffi::OsStr::to_str);
    path.starts_with("crds") && matches!(extension, Some("yaml" | "yml" | "json"))
}
