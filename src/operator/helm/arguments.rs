//! The command lines.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::Version;
use osdpl_core::release::{
    ATTEMPT_LABEL, Attempt, CATALOG_LABEL, GUESTS_LABEL, IMAGES_LABEL, INPUTS_LABEL, Key, RELEASE_LABEL, SPLIT_LABEL,
};

/// How many revisions of a release helm keeps. Each upgrade lists all of them three times in full, so few; pruning
/// spares the last deployed one, so three always hold what a rollback needs.
pub const HISTORY: u32 = 3;

/// What to do with a release.
#[derive(Clone, Debug)]
pub enum Verb {
    /// `helm upgrade --install`.
    Upgrade(Upgrade),
    /// `helm uninstall`.
    Uninstall(Uninstall),
}

impl Verb {
    /// One word, for metrics, events and people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Upgrade(_) => "upgrade",
            Self::Uninstall(_) => "uninstall",
        }
    }
}

/// Who applies the objects of a release. Helm 3 knows only [`Apply::Client`] and ignores the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Apply {
    /// The API server, and conflicts with other field managers are ours to win: upgrades of releases that helm 3 made,
    /// and leftovers of an interrupted install, succeed only this way.
    #[default]
    Server,
    /// helm, by three-way merge, as helm 3 does.
    Client,
}

/// One `helm upgrade --install`.
#[derive(Clone)]
pub struct Upgrade {
    /// A packaged chart on disk, dependencies inside; helm touches no repository.
    pub chart: PathBuf,
    /// The values, secrets included: they go to helm's stdin and nowhere else.
    pub values: Value,
    /// The longest any *single* hook may take; helm has no limit for the whole run.
    pub hook_timeout: Duration,
    /// Who applies.
    pub apply: Apply,
    /// The digest of all inputs, for [`INPUTS_LABEL`].
    pub inputs: String,
    /// The digest of the catalogue that made those inputs, for [`CATALOG_LABEL`].
    pub catalog: String,
    /// The digest of the images, for [`IMAGES_LABEL`].
    pub images: String,
    /// The digest of what running guests hold on to, for [`GUESTS_LABEL`].
    pub guests: Option<String>,
    /// The digest of how its `DaemonSets` are split by node, for [`SPLIT_LABEL`].
    pub split: Option<String>,
    /// The release's name in the catalogue, for [`RELEASE_LABEL`].
    pub catalog_name: String,
}

/// How a command line names a chart: a file, or what a repository has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartReference {
    /// The path, the address in a registry, or the name in a repository.
    pub name: String,
    /// `--repo`, `--version` and what they say; nothing for a file.
    pub flags: Vec<String>,
}

/// Values are secret: never shown.
impl fmt::Debug for Upgrade {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chart, values: _, hook_timeout, apply, inputs, catalog, images, guests, split, catalog_name } = self;
        formatter
            .debug_struct("Upgrade")
            .field("chart", chart)
            .field("hook_timeout", hook_timeout)
            .field("apply", apply)
            .field("inputs", inputs)
            .field("catalog", catalog)
            .field("images", images)
            .field("guests", guests)
            .field("split", split)
            .field("catalog_name", catalog_name)
            .finish_non_exhaustive()
    }
}

/// One `helm uninstall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uninstall {
    /// The longest any single hook may take.
    pub timeout: Duration,
    /// Whether pre-delete and post-delete hooks run. `false` is the explicit way out when one can never end: its database
    /// is gone, or the namespace is terminating and starts no Job any more.
    pub hooks: bool,
}

/// The flags of an upgrade that never depend on the release: part of its input digest, so that a change of them counts.
pub fn pinned(helm: Version, apply: Apply) -> Vec<&'static str> {
    let mut flags = vec!["--reset-values", "--skip-crds"];
    if helm.major >= 4 {
        match apply {
            Apply::Server => flags.extend(["--server-side=true", "--force-conflicts"]),
            Apply::Client => flags.push("--server-side=false"),
        }
    }
    flags
}

impl Upgrade {
    /// The arguments after the program's name. `attempt` is stored by helm as a label when it creates the record, so even
    /// one left pending names its maker.
    pub fn arguments(&self, release: &Key, attempt: &Attempt, helm: Version) -> Vec<OsString> {
        let own = ["--labels".into(), self.labels(attempt).into()];
        self.line(release, helm, "-".as_ref(), own, self.chart.as_os_str())
    }

    /// The same for a person's hands: with the values in a file and a chart from wherever it is, and without labels, by which a revision is told
    /// to be ours.
    pub fn by_hand(&self, release: &Key, helm: Version, values: &Path, chart: &ChartReference) -> Vec<OsString> {
        let flags = chart.flags.iter().map(OsString::from);
        self.line(release, helm, values.as_os_str(), flags, chart.name.as_ref())
    }

    fn line(
        &self,
        release: &Key,
        helm: Version,
        values: &OsStr,
        own: impl IntoIterator<Item = OsString>,
        chart: &OsStr,
    ) -> Vec<OsString> {
        let mut arguments: Vec<OsString> =
            ["upgrade", "--install"].into_iter().chain(pinned(helm, self.apply)).map(OsString::from).collect();
        arguments.extend(["--values".into(), values.to_owned()]);
        arguments.extend(["--history-max".into(), HISTORY.to_string().into()]);
        arguments.extend(["--timeout".into(), seconds(self.hook_timeout)]);
        arguments.extend(own);
        arguments.extend(target(release));
        arguments.push(chart.to_owned());
        arguments
    }

    fn labels(&self, attempt: &Attempt) -> String {
        let Self { inputs, catalog, images, guests, split, catalog_name, .. } = self;
        let guests = guests.as_ref().map(|digest| format!("{GUESTS_LABEL}={digest},")).unwrap_or_default();
        let split = split.as_ref().map(|digest| format!("{SPLIT_LABEL}={digest},")).unwrap_or_default();
        format!(
            "{INPUTS_LABEL}={inputs},{CATALOG_LABEL}={catalog},{RELEASE_LABEL}={catalog_name},{IMAGES_LABEL}={images},{guests}{split}{ATTEMPT_LABEL}={attempt}"
        )
    }
}

impl Uninstall {
    /// The arguments after the program's name. Not `--ignore-not-found`: helm then takes *every* failure to read the
    /// history, a missing permission included, for a release that is gone, and reports success.
    pub fn arguments(&self, release: &Key) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["uninstall".into()];
        arguments.extend(["--timeout".into(), seconds(self.timeout)]);
        if !self.hooks {
            arguments.push("--no-hooks".into());
        }
        arguments.extend(target(release));
        arguments
    }
}

/// The end of every command line: after `--` a release's name is never read as a flag.
fn target(release: &Key) -> [OsString; 4] {
    ["--namespace".into(), release.namespace.clone().into(), "--".into(), release.name.clone().into()]
}

/// helm takes Go durations; zero would mean "no time at all".
fn seconds(duration: Duration) -> OsString {
    format!("{}s", duration.as_secs().max(1)).into()
}

#[cfg(test)]
mod tests;
