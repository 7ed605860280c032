//! Reads and changes helm's release records. helm stores each revision of a release as a record in a Secret.
//!
//! osdpl reads a record in two parts, because one part is expensive to read. A watch reports the *metadata* of all
//! records (a few hundred bytes each): the revision, its status and the labels that osdpl passes to helm. The labels
//! tell whether osdpl made the revision, and with which inputs (see [`RecordMeta`]). The operator fetches the *payload*
//! (up to a megabyte) only of the newest record of a release, when the record is new or has changed. The payload
//! contains the hooks and objects of the release (see [`Record`] and [`Objects`]).
//!
//! ```text
//! attempt   the identity of a helm run              record    the Rust types of the payload
//! meta      the metadata of a record                decode    the payload bytes → Record, hooks, objects
//! status    helm's status of a revision             rewrite   the payload that unlocks a release if helm died
//! cleanup   leftover objects of failed revisions    recovery  the action that recovers a release if helm died
//! source    the values and chart of a revision      verb      the helm operations: upgrade, uninstall
//! chart_identity   the requested and the installed chart of a revision
//! hook_inputs      the inputs that the hooks of a revision may read
//! manifest         the objects in a revision's manifest, with the paths of their `fields`
//! ```
//!
//! Pure module (no I/O, no clock). The format of records is that of helm v3.22.0 and v4.3.1 (`pkg/storage/driver`,
//! `pkg/release/v1`).

mod attempt;
mod chart_identity;
mod cleanup;
mod decode;
mod fields;
mod hook_inputs;
mod manifest;
mod meta;
mod record;
mod recovery;
mod rewrite;
mod source;
mod status;
mod verb;

pub use attempt::{Attempt, BadAttempt};
pub use chart_identity::ChartIdentity;
pub use cleanup::{Cleanup, PastRevision, find_orphans, has_object, is_leftover};
pub(crate) use cleanup::{cleanup_before_uninstall, pending_cleanup};
pub use decode::{DecodeError, decode, decode_contents, decode_hooks, decode_objects, decode_values};
pub use fields::Field;
pub use hook_inputs::HookInputs;
pub use manifest::{Object, parse_objects, parse_objects_of_kind};
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

/// helm's annotation on an object. With the value `keep`, helm and osdpl do not remove the object. Both programs ignore
/// the case of the value and spaces around it.
pub(crate) const RESOURCE_POLICY_ANNOTATION: &str = "helm.sh/resource-policy";

/// Label on a record: the digest (at most 63 characters) of all inputs of the revision: chart, values and flags.
pub const INPUTS_LABEL: &str = "osdpl.dev/inputs";

/// The value of [`INPUTS_LABEL`] and [`CATALOG_LABEL`] on the record of a revision that osdpl adopted although the
/// revision does not match the desired state. The inputs of such a revision are unknown.
pub const ADOPTED: &str = "adopted";

/// Label on a record: the digest of those inputs of the revision that come from the catalogue and not from the spec.
pub const CATALOG_LABEL: &str = "osdpl.dev/catalog";

/// Label on a record: the release's name in the catalogue, which can differ from helm's name.
///
/// With this label, osdpl identifies an installed release even if the spec later gives the release another name in
/// helm. Records of older osdpl versions lack the label.
pub const RELEASE_LABEL: &str = "osdpl.dev/release";

/// Label on a record: the [`Attempt`] (one run of helm by osdpl) that made the revision.
pub const ATTEMPT_LABEL: &str = "osdpl.dev/attempt";

/// Label on a record: the digest of the images of the release's pods and Jobs.
pub const IMAGES_LABEL: &str = "osdpl.dev/images";

/// Label on a record: the digest of the settings on which running OpenStack instances depend, such as a Ceph key. The
/// value is `none` if the release has no such settings now. Records of a release that can never have such settings lack
/// the label.
///
/// osdpl must write `none` explicitly: if an upgrade does not set a label, helm copies the label from the previous
/// record.
pub const INSTANCES_LABEL: &str = "osdpl.dev/instances";

/// The value of [`INSTANCES_LABEL`] if running OpenStack instances depend on no setting of the release.
pub(crate) const NO_INSTANCES: &str = "none";

/// Label on a record: a digest that describes how the chart splits the release's `DaemonSets`, or [`NO_SPLIT`].
///
/// The chart splits a `DaemonSet` if some nodes have values of their own: it then renders several `DaemonSets` instead
/// of one. If the chart can't split any `DaemonSet` of a release, the release's records lack the label.
pub const SPLIT_LABEL: &str = "osdpl.dev/split";

/// The value of [`SPLIT_LABEL`] if the chart splits no `DaemonSet`. osdpl also assumes this value for a record without
/// the label.
pub(crate) const NO_SPLIT: &str = "none";

/// Label on a record: the [`ChartIdentity`] of the revision. With this label, osdpl later detects whether the content
/// of the chart has changed. Records of older osdpl versions lack the label.
pub const CHART_LABEL: &str = "osdpl.dev/chart";

/// Label on a record: the [`HookInputs`] of the revision. With this label, osdpl later decides whether an upgrade can
/// skip the hooks. Records of older osdpl versions lack the label.
pub const HOOKS_LABEL: &str = "osdpl.dev/hooks";

/// Label on a record: the baseline of the release, a number that decides which defaults of the catalogue apply to the
/// release ([`crate::desired::BASELINE`]). helm copies the label to later revisions. Records of releases with the
/// baseline 0 lack the label.
pub const BASELINE_LABEL: &str = "osdpl.dev/baseline";

/// Label on the record of a failed revision: osdpl has removed the objects that the revision left behind.
///
/// The label is valid only if its value is the number of the record's revision. With another number, helm copied the
/// label from another record.
pub const CLEANED_UP_LABEL: &str = "osdpl.dev/cleaned-up";

/// The `type` of the Secrets in which helm stores records. osdpl lists records by this type.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";

/// The maximum size of a Secret's data in bytes, and so of a record (`MaxSecretSize` of Kubernetes, 1 MiB).
pub(crate) const RECORD_LIMIT: usize = 1 << 20;

/// The key in the `data` of a record's Secret under which helm stores the payload.
pub const SECRET_KEY: &str = "release";
