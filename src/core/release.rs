//! The history of a release: helm's release records, which helm stores in Secrets.
//!
//! osdpl reads two parts of a record. The *metadata* is small (a few hundred bytes) and watched. It contains the
//! revision, its status and osdpl's labels, which tell whether osdpl made the revision and with which inputs:
//! [`RecordMeta`]. The *payload* is large (up to a megabyte) and fetched only when a decision needs it. It contains the
//! hooks and objects of the release: [`Record`], [`Objects`].
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

/// Label on a record: the digest of all inputs of the revision, at most 63 characters.
pub const INPUTS_LABEL: &str = "osdpl.dev/inputs";

/// The value of [`INPUTS_LABEL`] and [`CATALOG_LABEL`] on an adopted record that differs from the desired state.
///
/// osdpl does not know the inputs of such a revision.
pub const ADOPTED: &str = "adopted";

/// Label on a record: the digest of the inputs that come from the catalogue.
pub const CATALOG_LABEL: &str = "osdpl.dev/catalog";

/// Label on a record: the release's name in the catalogue, which can differ from helm's name.
///
/// The label identifies an installed release even if the spec gives it another name later. Old records lack it.
pub const RELEASE_LABEL: &str = "osdpl.dev/release";

/// Label on a record: the [`Attempt`] that made this revision.
pub const ATTEMPT_LABEL: &str = "osdpl.dev/attempt";

/// Label on a record: the digest of the images that the pods and Jobs of the release use.
pub const IMAGES_LABEL: &str = "osdpl.dev/images";

/// Label on a record: the digest of the settings that running instances depend on, such as a Ceph key.
///
/// Only releases that may have such settings carry it; without settings its value is `NO_INSTANCES`.
///
/// helm copies labels from revision to revision, so osdpl must overwrite the label even if there are no settings any
/// more.
pub const INSTANCES_LABEL: &str = "osdpl.dev/instances";

/// The value of [`INSTANCES_LABEL`] if running instances depend on no setting of the release.
pub(crate) const NO_INSTANCES: &str = "none";

/// Label on a record: the digest of how the release's `DaemonSets` are split by node.
///
/// Only releases whose `DaemonSets` can be split carry it; without a split its value is [`NO_SPLIT`].
pub const SPLIT_LABEL: &str = "osdpl.dev/split";

/// The value of [`SPLIT_LABEL`] if no `DaemonSet` is split by node. Old records without the label count as not split.
pub(crate) const NO_SPLIT: &str = "none";

/// Label on a record of a failed revision: osdpl has removed the objects that the revision left behind.
///
/// The value is the revision itself. Helm copies the label to later revisions, whose number then differs from the
/// value.
pub const CLEANED_UP_LABEL: &str = "osdpl.dev/cleaned-up";

/// The `type` of the Secret that holds a record. A field selector on it finds all records.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";

/// The maximum size of a Secret's data in bytes, and so of a record: `MaxSecretSize` of Kubernetes, 1 MiB.
///
/// It is below etcd's limit for a request.
pub(crate) const RECORD_LIMIT: usize = 1 << 20;

/// The key of the payload in a record's Secret.
pub const SECRET_KEY: &str = "release";
