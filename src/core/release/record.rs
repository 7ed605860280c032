//! The payload's types: as much of it as anybody needs.

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
    /// The user's values of this revision, nulls included. Secret.
    pub config: Value,
    /// The state.
    pub status: Status,
    /// helm's sentence about it, such as `Upgrade complete` or why it failed. Can quote objects, so scrub before showing.
    pub description: String,
    /// When the release was first installed.
    pub first_deployed: Option<Timestamp>,
    /// When this revision was made.
    pub last_deployed: Option<Timestamp>,
    /// The hooks, and how far they are.
    pub hooks: Vec<Hook>,
    /// Which chart it was.
    pub chart: Chart,
    /// Whether the API server applied the objects (`ssa`) or helm did (`csa`, and helm 3's silence).
    pub server_side: bool,
}

/// Everything but the values and the description, which hold secrets.
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
    /// The version of what it installs.
    pub app_version: String,
}

/// A hook: an object that helm makes at a certain moment and waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// The object's name.
    pub name: String,
    /// The object's kind.
    pub kind: String,
    /// The template it came from.
    pub path: String,
    /// Hooks of one moment run by weight, then by name.
    pub weight: i64,
    /// The moments.
    #[serde(deserialize_with = "list_or_null")]
    pub events: Vec<Event>,
    /// When helm deletes the object itself. Empty means [`DeletePolicy::BeforeHookCreation`].
    #[serde(deserialize_with = "list_or_null")]
    pub delete_policies: Vec<DeletePolicy>,
    /// What became of it in this revision; `None` before its turn.
    #[serde(deserialize_with = "last_run")]
    pub last_run: Option<LastRun>,
}

impl Hook {
    /// Whether it belongs to that moment.
    pub fn runs_at(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// Whether helm makes the object, and then waits for it to complete: of all others existence is enough.
    pub fn completes(&self) -> bool {
        matches!(self.kind.as_str(), "Job" | "Pod")
    }

    /// Whether helm removes an older object of that name before it makes this one.
    pub fn replaces_its_predecessor(&self) -> bool {
        self.delete_policies.is_empty() || self.delete_policies.contains(&DeletePolicy::BeforeHookCreation)
    }

    /// The phase of its last run; [`Phase::Unknown`] before its turn.
    pub fn phase(&self) -> Phase {
        self.last_run.as_ref().map_or(Phase::Unknown, |run| run.phase)
    }
}

/// The moments of helm's hooks (helm: `HookEvent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say all there is")]
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
    /// A moment that a later helm invented.
    #[serde(other)]
    Other,
}

/// When helm deletes a hook's object (helm: `HookDeletePolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say all there is")]
pub enum DeletePolicy {
    HookSucceeded,
    HookFailed,
    BeforeHookCreation,
    /// A policy that a later helm invented.
    #[serde(other)]
    Other,
}

/// One run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LastRun {
    /// When helm made the object.
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    /// When helm stopped waiting for it.
    #[serde(deserialize_with = "time")]
    pub completed_at: Option<Timestamp>,
    /// How far it is.
    pub phase: Phase,
}

/// How far a hook is (helm: `HookPhase`).
///
/// helm writes a hook's end only when the next hook starts or the operation ends, so the last one reads `Running` a
/// little too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Phase {
    /// helm waits for it.
    Running,
    /// It completed.
    Succeeded,
    /// It failed, or took longer than the timeout.
    Failed,
    /// helm has not come to it, or lost track.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What a revision consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// The manifest's objects.
    pub manifest: Vec<Object>,
    /// The hooks' objects, which helm leaves behind on uninstall.
    pub hooks: Vec<Object>,
    /// Whether the API server applied them (`ssa`) or helm did.
    pub server_side: bool,
}

/// helm 4 writes `{"phase": ""}` for a hook that never ran, helm 3 the same with empty times.
fn last_run<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LastRun>, D::Error> {
    let run = Option::<LastRun>::deserialize(deserializer)?.unwrap_or_default();
    Ok((run != LastRun::default()).then_some(run))
}

/// Go writes an empty slice as `null` when it was never made.
fn list_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A time as helm writes it: RFC 3339, `""` or Go's zero time for none. One that cannot be read is none as well: times
/// here are for people, and a record is not undecodable because of one.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let zero = |text: &String| text.starts_with("0001-01-01T00:00:00");
    Ok(text.filter(|text| !zero(text)).and_then(|text| text.parse().ok()))
}
