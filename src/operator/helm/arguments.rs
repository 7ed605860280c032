//! Assembles helm's arguments for `helm upgrade --install` and `helm uninstall`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::Version;
use osdpl_core::release::{
    ATTEMPT_LABEL, Attempt, BASELINE_LABEL, CATALOG_LABEL, CHART_LABEL, ChartIdentity, HOOKS_LABEL, HookInputs,
    IMAGES_LABEL, INPUTS_LABEL, INSTANCES_LABEL, RELEASE_LABEL, ReleaseKey, SPLIT_LABEL, Verb,
};

/// The number of revisions of a release that helm keeps.
///
/// The number is low, because helm reads the records of all revisions three times during an upgrade. When helm deletes
/// old records, it keeps the record of the last deployed revision, so a user can always roll back to that revision.
pub(crate) const HISTORY_MAX: u32 = 3;

/// An operation that helm executes on a release.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Install or upgrade the release, with `helm upgrade --install`.
    Upgrade(Box<Upgrade>),
    /// Uninstall the release, with `helm uninstall`.
    Uninstall(Uninstall),
}

impl Operation {
    /// Returns helm's verb for this operation: upgrade or uninstall.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Upgrade(_) => Verb::Upgrade,
            Self::Uninstall(_) => Verb::Uninstall,
        }
    }
}

/// The way in which an upgrade applies the objects of a release.
///
/// This setting is only for helm 4. helm 3 always works as with [`ApplyMode::Client`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ApplyMode {
    /// The API server applies the objects (server-side apply), and helm overwrites the fields of other field managers.
    ///
    /// This is the default, because with [`ApplyMode::Client`], helm 4 can't upgrade a release that helm 3 installed,
    /// or whose install was interrupted.
    #[default]
    Server,
    /// helm applies the objects with a three-way merge, as helm 3 does.
    Client,
}

/// One run of `helm upgrade --install`.
#[derive(Clone)]
pub struct Upgrade {
    /// The path of the packaged chart. The package contains the chart's dependencies, so helm accesses no repository.
    pub chart: PathBuf,
    /// The values, including secrets. helm gets them only on its stdin.
    pub values: Value,
    /// The timeout of each *single* hook. helm has no timeout for the whole run, but the Runner has one.
    pub hook_timeout: Duration,
    /// The way in which helm applies the objects of the release.
    pub apply: ApplyMode,
    /// The digest of all inputs of the release, for [`INPUTS_LABEL`].
    pub inputs: String,
    /// The digest of the catalogue from which the inputs were made, for [`CATALOG_LABEL`].
    pub catalog: String,
    /// The digest of the container images of the release's pods and Jobs, for [`IMAGES_LABEL`].
    pub images: String,
    /// The digest of the values on which running OpenStack instances depend, for [`INSTANCES_LABEL`]; `None` for a
    /// release without such values.
    pub instances: Option<String>,
    /// A digest that describes how the chart splits its `DaemonSets`, for [`SPLIT_LABEL`]. If values differ between
    /// nodes, the chart creates several `DaemonSets` in place of one. The digest is `None` if the chart can't split
    /// `DaemonSets`.
    pub split: Option<String>,
    /// The baseline of the release ([`osdpl_core::desired::BASELINE`]), for [`BASELINE_LABEL`]: a number that decides
    /// which defaults of the catalogue apply to the release.
    pub baseline: u32,
    /// The digests that identify the release's chart, for [`CHART_LABEL`]; `None` if unknown.
    pub chart_identity: Option<ChartIdentity>,
    /// The digest of the inputs that the release's hooks could read, for [`HOOKS_LABEL`]; `None` if the catalogue does
    /// not list which values the hooks ignore.
    pub hooks: Option<String>,
    /// Whether the upgrade runs without the release's hooks (`--no-hooks`).
    pub skip_hooks: bool,
    /// The release's name in the catalogue, for [`RELEASE_LABEL`].
    pub catalog_name: String,
}

/// The arguments that name a chart in a helm command: a file, or a chart in a registry or repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartReference {
    /// The path of the chart's file, or the chart's address in a registry, or the chart's name in a repository.
    pub name: String,
    /// The flags `--repo` and `--version` with their values; empty if `name` is the path of a file.
    pub flags: Vec<String>,
}

/// Prints the upgrade without its values, because they contain secrets.
impl fmt::Debug for Upgrade {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chart, values: _, hook_timeout, apply, inputs, catalog, images, instances, split, .. } = self;
        let Self { baseline, chart_identity, hooks, skip_hooks, catalog_name, .. } = self;
        formatter
            .debug_struct("Upgrade")
            .field("chart", chart)
            .field("hook_timeout", hook_timeout)
            .field("apply", apply)
            .field("inputs", inputs)
            .field("catalog", catalog)
            .field("images", images)
            .field("instances", instances)
            .field("split", split)
            .field("baseline", baseline)
            .field("chart_identity", chart_identity)
            .field("hooks", hooks)
            .field("skip_hooks", skip_hooks)
            .field("catalog_name", catalog_name)
            .finish_non_exhaustive()
    }
}

/// One run of `helm uninstall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uninstall {
    /// The timeout of each single hook of the release.
    pub timeout: Duration,
    /// Whether helm runs pre-delete and post-delete hooks. Set this to `false` if a hook can never finish, for example
    /// because its database is deleted or the namespace is terminating.
    pub hooks: bool,
}

/// Returns the flags that depend only on helm's major version and the apply mode. osdpl does not include these flags in
/// a release's input digest, because the digest already depends on the version and the mode.
pub(crate) fn pinned_flags(helm: Version, apply: ApplyMode) -> Vec<&'static str> {
    let mut flags = vec!["--reset-values", "--skip-crds"];
    if helm.major >= 4 {
        match apply {
            ApplyMode::Server => flags.extend(["--server-side=true", "--force-conflicts"]),
            ApplyMode::Client => flags.push("--server-side=false"),
        }
    }
    flags
}

impl Upgrade {
    /// Returns helm's arguments for this upgrade, without the program's name.
    ///
    /// The arguments make helm store `attempt` and the digests as labels on the release record. helm sets the labels
    /// when it creates the record, so even a pending record names the operator process that started helm.
    pub fn arguments(&self, release: &ReleaseKey, attempt: &Attempt, helm: Version) -> Vec<OsString> {
        let labels = ["--labels".into(), self.labels(attempt).into()];
        let flags = labels.into_iter().chain(self.skip_hooks.then(|| "--no-hooks".into()));
        self.command_line(release, helm, "-".as_ref(), flags, self.chart.as_os_str())
    }

    /// Returns helm's arguments for a user who runs this upgrade by hand.
    ///
    /// With these arguments, helm reads the values from the file `values`, and takes the chart from a file, a registry
    /// or a repository. The arguments set no labels, because with the labels osdpl would treat the user's revision as
    /// its own.
    pub fn manual_arguments(
        &self,
        release: &ReleaseKey,
        helm: Version,
        values: &Path,
        chart: &ChartReference,
    ) -> Vec<OsString> {
        let flags = chart.flags.iter().map(OsString::from);
        self.command_line(release, helm, values.as_os_str(), flags, chart.name.as_ref())
    }

    fn command_line(
        &self,
        release: &ReleaseKey,
        helm: Version,
        values: &OsStr,
        flags: impl IntoIterator<Item = OsString>,
        chart: &OsStr,
    ) -> Vec<OsString> {
        let start = [Verb::Upgrade.as_str(), "--install"];
        let mut arguments: Vec<OsString> =
            start.into_iter().chain(pinned_flags(helm, self.apply)).map(OsString::from).collect();
        arguments.extend(["--values".into(), values.to_owned()]);
        arguments.extend(["--history-max".into(), HISTORY_MAX.to_string().into()]);
        arguments.extend(["--timeout".into(), seconds(self.hook_timeout)]);
        arguments.extend(flags);
        arguments.extend(target(release));
        arguments.push(chart.to_owned());
        arguments
    }

    fn labels(&self, attempt: &Attempt) -> String {
        let Self { inputs, catalog, images, instances, split, baseline, chart_identity, hooks, catalog_name, .. } =
            self;
        let instances = instances.as_ref().map(|digest| format!("{INSTANCES_LABEL}={digest},")).unwrap_or_default();
        let split = split.as_ref().map(|digest| format!("{SPLIT_LABEL}={digest},")).unwrap_or_default();
        let baseline = if *baseline > 0 { format!("{BASELINE_LABEL}={baseline},") } else { String::new() };
        let hooks = hooks.clone().map(|digest| HookInputs { digest, revision: attempt.revision() });
        let hooks = hooks.map(|hooks| format!("{HOOKS_LABEL}={hooks},")).unwrap_or_default();
        let chart = chart_identity.as_ref().map(|chart| format!("{CHART_LABEL}={chart},")).unwrap_or_default();
        format!(
            "{INPUTS_LABEL}={inputs},{CATALOG_LABEL}={catalog},{RELEASE_LABEL}={catalog_name},{IMAGES_LABEL}={images},{instances}{split}{baseline}{chart}{hooks}{ATTEMPT_LABEL}={attempt}"
        )
    }
}

impl Uninstall {
    /// Returns helm's arguments for this uninstall, without the program's name.
    ///
    /// The arguments do not contain the flag `--ignore-not-found`. With the flag, helm treats every failure to read the
    /// history, even a missing permission, as a deleted release, and reports success.
    pub fn arguments(&self, release: &ReleaseKey) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![Verb::Uninstall.as_str().into()];
        arguments.extend(["--timeout".into(), seconds(self.timeout)]);
        if !self.hooks {
            arguments.push("--no-hooks".into());
        }
        arguments.extend(target(release));
        arguments
    }
}

/// Returns the arguments that name the release. The argument `--` keeps helm from parsing the release's name as a flag.
fn target(release: &ReleaseKey) -> [OsString; 4] {
    ["--namespace".into(), release.namespace.clone().into(), "--".into(), release.name.clone().into()]
}

/// Formats a timeout for helm, such as `60s`. A timeout below one second becomes one second, because `0s` would leave
/// helm no time at all.
fn seconds(duration: Duration) -> OsString {
    format!("{}s", duration.as_secs().max(1)).into()
}

#[cfg(test)]
mod tests;
