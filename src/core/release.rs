//! helm's release records: the history of a release, which helm stores in Secrets.
//!
//! osdpl reads two parts of a record, at very different cost. The *metadata* (a few hundred bytes, watched) contains
//! the revision, its status and the labels that osdpl passes to helm, which tell whether osdpl made the revision and
//! whether it is current: [`RecordMeta`]. The *payload* (up to a megabyte, fetched only while an operation runs)
//! contains the hooks and objects of the release: [`Record`], [`Objects`].
//!
//! ```text
//! attempt   the identity of a helm run              record    the types of the payload
//! meta      the metadata of a record                decode    payload bytes → Record, hooks, objects
//! status    the nine states of helm                 rewrite   unlock a record whose helm run is dead
//! cleanup   clean up after failed revisions         recovery  the steps to recover from a dead helm run
//! source    the values and chart of a revision      verb      the verbs of helm
//! ```
//!
//! Pure module (no I/O, no clock). Format: helm v3.22.0 and v4.3.1, `pkg/storage/driver`, `pkg/release/v1`.

mod attempt;
mod cleanup;
mod decode;
mod fields;
mod manifest;
mod meta;
mod record;
mod recovery;
mod rewrite;
mod source;
mod status;
mod verb;

pub use attempt::{Attempt, BadAttempt};
pub use cleanup::{Cleanup, PastRevision, find_orphans, has_object, is_leftover};
pub(crate) use cleanup::{RESOURCE_POLICY_ANNOTATION, cleanup_before_uninstall, pending_cleanup};
pub use decode::{DecodeError, decode, decode_contents, decode_hooks, decode_objects};
pub use fields::Field;
pub use manifest::{Object, parse_objects};
pub(crate) use meta::RELEASE_NAME_ANNOTATION;
pub use meta::{
    MalformedRecord, RELEASE_NAMESPACE_ANNOTATION, RecordMeta, ReleaseKey, RevisionOrigin, helm_owner, newest_record,
};
pub use record::{Chart, DeletePolicy, Event, Hook, LastRun, Objects, Phase, Record};
pub use recovery::{Recovery, next_recovery_step};
pub use rewrite::mark_secret_failed;
pub use source::{RevisionSource, chart_fingerprint, decode_source, dependency_names};
pub use status::{Status, UnknownStatus};
pub use verb::Verb;

/// Label on a record: the digest of all inputs of this revision (≤ 63 characters).
pub const INPUTS_LABEL: &str = "osdpl.dev/inputs";

/// The value of [`INPUTS_LABEL`] and [`CATALOG_LABEL`] on an adopted record that does not match the desired state; its
/// inputs are unknown.
pub const ADOPTED: &str = "adopted";

/// Label on a record: the digest of the catalogue's part of the inputs.
pub const CATALOG_LABEL: &str = "osdpl.dev/catalog";

/// Label on a record: the catalogue name of the release, which can differ from helm's name.
///
/// It identifies an installed release even if the spec renames it later. Old records do not have it.
pub const RELEASE_LABEL: &str = "osdpl.dev/release";

/// Label on a record: the [`Attempt`] that made this revision.
pub const ATTEMPT_LABEL: &str = "osdpl.dev/attempt";

/// Label on a record: the digest of the images of its pods and Jobs.
pub const IMAGES_LABEL: &str = "osdpl.dev/images";

/// Label on a record: the digest of settings that running instances depend on, such as a Ceph key, or `NO_INSTANCES`;
/// only for releases that may have such settings.
///
/// helm copies labels from revision to revision, so the absence must be written explicitly.
pub const INSTANCES_LABEL: &str = "osdpl.dev/instances";

/// The value of [`INSTANCES_LABEL`] if instances depend on nothing.
pub(crate) const NO_INSTANCES: &str = "none";

/// Label on a record: the digest of how the release's `DaemonSets` are split by node, or [`NO_SPLIT`]; only for
/// releases that can be split.
pub const SPLIT_LABEL: &str = "osdpl.dev/split";

/// The value of [`SPLIT_LABEL`] if nothing is split; also assumed for old records without the label.
pub(crate) const NO_SPLIT: &str = "none";

/// Label on a failed record: its leftovers have been removed.
///
/// Its value is the record's own revision, because an upgrade inherits the labels of the previous revision.
pub const CLEANED_UP_LABEL: &str = "osdpl.dev/cleaned-up";

/// The `type` of a record's Secret; a field selector on it finds all records.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";

/// The maximum size of a Secret's data in bytes, and so of a record (`MaxSecretSize` of Kubernetes, 1 MiB; below etcd's
/// limit for a request).
pub(crate) const RECORD_LIMIT: usize = 1 << 20;

/// The key of the payload in a record's Secret.
pub const SECRET_KEY: &str = "release";
