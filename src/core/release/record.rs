//! The types of the payload, as far as osdpl needs it.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Object, Status};

/// One revision of a release, without its chart's files and its rendered manifest.
#[derive(Clone, PartialEq)]
pub struct Record {
    /// The release's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The revision.
    pub version: u32,
    /// The values that helm was given for this revision, including nulls. They contain secrets.
    pub config: Value,
    /// The status.
    pub status: Status,
    /// helm's description of the result, such as `Upgrade complete` or an error. It can quote secrets, so scrub it
    /// before showing it.
    pub description: String,
    /// When the release was first installed.
    pub first_deployed: Option<Timestamp>,
    /// When this revision was made.
    pub last_deployed: Option<Timestamp>,
    /// The hooks with their progress.
    pub hooks: Vec<Hook>,
    /// The chart.
    pub chart: Chart,
    /// Whether the API server applied the objects (`ssa`) or helm did (`csa`, or unset by helm 3).
    pub server_side: bool,
}

/// Leaves out the values and the description, which contain secrets.
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

/// The chart of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of the application.
    pub app_version: String,
}

/// A hook: an object that helm creates at a certain event and waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// The object's name.
    pub name: String,
    /// The object's kind.
    pub kind: String,
    /// The template of the object.
    pub path: String,
    /// The weight; hooks of one event run by weight, then by name.
    pub weight: i64,
    /// The events.
    #[serde(deserialize_with = "list_or_null")]
    pub events: Vec<Event>,
    /// When helm deletes the object. Empty means [`DeletePolicy::BeforeHookCreation`].
    #[serde(deserialize_with = "list_or_null")]
    pub delete_policies: Vec<DeletePolicy>,
    /// The run in this revision; `None` if it has not started.
    #[serde(deserialize_with = "last_run")]
    pub last_run: Option<LastRun>,
}

impl Hook {
    /// Whether it runs at an event.
    pub fn runs_at(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// Whether helm waits for the object to complete; for other kinds it only needs to exist.
    pub fn completes(&self) -> bool {
        matches!(self.kind.as_str(), "Job" | "Pod")
    }

    /// Whether helm removes an existing object of that name before it creates this one.
    pub(crate) fn replaces_its_predecessor(&self) -> bool {
        self.delete_policies.is_empty() || self.delete_policies.contains(&DeletePolicy::BeforeHookCreation)
    }

    /// Returns the phase of its last run; [`Phase::Unknown`] if it has not started.
    pub fn phase(&self) -> Phase {
        self.last_run.as_ref().map_or(Phase::Unknown, |run| run.phase)
    }
}

/// The events of helm's hooks (helm: `HookEvent`).
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
    /// An event of a later helm version.
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
    /// A policy of a later helm version.
    #[serde(other)]
    Other,
}

/// One run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LastRun {
    /// When helm created the object.
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    /// When helm stopped waiting for the object.
    #[serde(deserialize_with = "time")]
    pub completed_at: Option<Timestamp>,
    /// The progress.
    pub phase: Phase,
}

/// The progress of a hook (helm: `HookPhase`).
///
/// helm writes the end of a hook only when the next hook starts or the operation ends, so a hook is `Running` for a
/// moment after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Phase {
    /// helm waits for it.
    Running,
    /// It completed.
    Succeeded,
    /// It failed, or took longer than the timeout.
    Failed,
    /// helm has not started it, or lost track.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The objects of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// The objects of the manifest.
    pub manifest: Vec<Object>,
    /// The objects of the hooks, which helm leaves behind on uninstall.
    pub hooks: Vec<Object>,
    /// Whether the API server applied them (`ssa`) or helm did.
    pub server_side: bool,
}

/// Normalizes a missing run: helm 4 writes `{"phase": ""}` for a hook that never ran, helm 3 also writes empty times.
fn last_run<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LastRun>, D::Error> {
    let run = Option::<LastRun>::deserialize(deserializer)?.unwrap_or_default();
    Ok((run != LastRun::default()).then_some(run))
}

/// Deserializes a list; Go writes a nil slice as `null`.
fn list_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Deserializes a time of helm: RFC 3339, or `""` or Go's zero time for none. Unreadable times count as none, because
/// they are only for display and must not make a record undecodable.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let zero = |text: &String| text.starts_with("0001-01-01T00:00:00");
    Ok(text.filter(|text| !zero(text)).and_then(|text| text.parse().ok()))
}
