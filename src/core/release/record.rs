//! Defines the types for the fields that osdpl reads from the payload of a release record.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::{Object, Status};

/// One revision of a release, as the payload of its record describes it. The type leaves out the values, the files of
/// the chart and the rendered manifest.
#[derive(Clone, PartialEq)]
pub struct Record {
    /// The name of the release.
    pub name: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The number of the revision.
    pub version: u32,
    /// helm's status of the revision.
    pub status: Status,
    /// helm's description of the operation's result, such as `Upgrade complete` or an error. The description can quote
    /// secrets: scrub it before you print or store it.
    pub description: String,
    /// When the release was first installed.
    pub first_deployed: Option<Timestamp>,
    /// When helm made this revision.
    pub last_deployed: Option<Timestamp>,
    /// The hooks of the revision, each with its progress.
    pub hooks: Vec<Hook>,
    /// The name and version of the chart.
    pub chart: Chart,
    /// Whether helm used server-side apply. If false, helm used client-side apply. In the record, `apply_method` is
    /// `ssa` or `csa`; helm 3, which always uses client-side apply, leaves out the field.
    pub server_side: bool,
}

/// Formats the record for debug output without the description, which may contain secrets.
impl fmt::Debug for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Record")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("version", &self.version)
            .field("status", &self.status)
            .field("hooks", &self.hooks)
            .field("chart", &self.chart)
            .field("server_side", &self.server_side)
            .finish_non_exhaustive()
    }
}

/// The chart from which helm rendered a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Chart {
    /// The chart's name.
    pub name: String,
    /// The chart's version.
    pub version: String,
    /// The version of the application that the chart installs.
    pub app_version: String,
}

/// A hook: an object that helm creates at an event such as `post-upgrade`. If a hook is a Job or Pod, helm waits until
/// the hook completes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// The name of the hook's object.
    pub name: String,
    /// The kind of the hook's object.
    pub kind: String,
    /// The path of the chart's template from which helm rendered the object.
    pub path: String,
    /// The hook's weight. helm runs the hooks of an event in the order of weight, then name.
    pub weight: i64,
    /// The events at which helm runs the hook.
    #[serde(deserialize_with = "list_or_null")]
    pub events: Vec<Event>,
    /// The policies that say when helm deletes the hook's object. An empty list has the same effect as
    /// [`DeletePolicy::BeforeHookCreation`].
    #[serde(deserialize_with = "list_or_null")]
    pub delete_policies: Vec<DeletePolicy>,
    /// The last run of the hook in this revision; `None` until helm starts the hook.
    #[serde(deserialize_with = "last_run")]
    pub last_run: Option<LastRun>,
}

impl Hook {
    /// Whether helm runs the hook at an event.
    pub fn runs_at(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// Whether helm waits until the hook's object completes. helm waits only for Jobs and Pods; any other object only
    /// needs to exist.
    pub fn completes(&self) -> bool {
        matches!(self.kind.as_str(), "Job" | "Pod")
    }

    /// Whether helm, before it creates the hook's object, deletes an existing object with the same kind and name.
    pub(crate) fn replaces_its_predecessor(&self) -> bool {
        self.delete_policies.is_empty() || self.delete_policies.contains(&DeletePolicy::BeforeHookCreation)
    }

    /// Returns the progress of the hook's last run in this revision; [`Phase::Unknown`] until helm starts the hook.
    pub fn phase(&self) -> Phase {
        self.last_run.as_ref().map_or(Phase::Unknown, |run| run.phase)
    }
}

/// The events at which helm runs hooks (helm: `HookEvent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Event {
    PreInstall,
    PostInstall,
    PreDelete,
    PostDelete,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    Test,
    /// Any other event, from a helm version that is newer than this code.
    #[serde(other)]
    Other,
}

/// When helm deletes a hook's object (helm: `HookDeletePolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum DeletePolicy {
    HookSucceeded,
    HookFailed,
    BeforeHookCreation,
    /// Any other delete policy, from a helm version that is newer than this code.
    #[serde(other)]
    Other,
}

/// One run of a hook by helm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LastRun {
    /// When helm created the hook's object.
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    /// When helm stopped waiting for the hook's object.
    #[serde(deserialize_with = "time")]
    pub completed_at: Option<Timestamp>,
    /// The progress of the run.
    pub phase: Phase,
}

/// The progress of a hook (helm: `HookPhase`).
///
/// helm records the end of a hook only when the next hook starts or the operation ends. So the phase of a hook that has
/// ended can still be `Running`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Phase {
    /// helm has started the hook, and has not recorded its end yet.
    Running,
    /// The hook's object completed.
    Succeeded,
    /// The hook's object failed, or did not complete within the timeout.
    Failed,
    /// helm has not started the hook, or does not know its progress.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The objects of a revision, without the values of their fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// The objects of the manifest, without hooks.
    pub manifest: Vec<Object>,
    /// The objects of the hooks. helm's uninstall leaves these objects in the cluster.
    pub hooks: Vec<Object>,
    /// Whether helm used server-side apply; if false, helm used client-side apply.
    pub server_side: bool,
}

/// Deserializes the run of a hook; `None` if the hook never ran.
///
/// For a hook that never ran, helm 4 writes only an empty phase (`{"phase": ""}`), and helm 3 writes an empty phase and
/// empty times.
fn last_run<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LastRun>, D::Error> {
    let run = Option::<LastRun>::deserialize(deserializer)?.unwrap_or_default();
    Ok((run != LastRun::default()).then_some(run))
}

/// Deserializes a list that may be `null`: helm, a Go program, writes `null` for an empty list.
fn list_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Deserializes a time that helm wrote (RFC 3339); `None` for `""` and Go's zero time.
///
/// An unreadable time is also `None`. osdpl only displays times, so an unreadable time must not prevent osdpl from
/// decoding the record.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let zero = |text: &String| text.starts_with("0001-01-01T00:00:00");
    Ok(text.filter(|text| !zero(text)).and_then(|text| text.parse().ok()))
}
