//! helm's release record: the journal of what was done to a release, kept by helm in Secrets.
//!
//! We read two things of it, at very different prices. The record's *metadata* (a few hundred bytes, watched) says which
//! revision is newest, what state it is in, and, by the labels we asked helm to write, whether it is ours and current:
//! [`Meta`]. Its *payload* (up to a megabyte, fetched only while something happens) says which hook runs and what the
//! release consists of: [`Record`], [`Objects`].
//!
//! ```text
//! attempt   who made a revision                  record    the payload's types
//! meta      a record's metadata                  decode    payload bytes → Record, hooks, objects
//! status    helm's nine states                   rewrite   unlocking a record whose maker is dead
//! sweep     what failed revisions left behind    recovery  what a dead maker's record needs
//! source    what a revision was made from
//! ```
//!
//! Pure: no client, no clock. Format: helm v3.22.0 and v4.3.1, `pkg/storage/driver`, `pkg/release/v1`.

mod attempt;
mod decode;
mod fields;
mod manifest;
mod meta;
mod owner;
mod record;
mod recovery;
mod rewrite;
mod source;
mod status;
mod sweep;

pub use attempt::{Attempt, BadAttempt};
pub use decode::{Undecodable, decode, decode_contents, decode_hooks, decode_objects};
pub use fields::Field;
pub use manifest::{Object, contents};
pub use meta::{Key, Maker, Malformed, Meta, newest};
pub use owner::{NAME, NAMESPACE, owner};
pub use record::{Chart, DeletePolicy, Event, Hook, LastRun, Objects, Phase, Record};
pub use recovery::{Recovery, recover};
pub use rewrite::{fail_secret, rewrite_failed};
pub use source::{Source, decode_source, dependencies, imprint};
pub use status::{Status, UnknownStatus};
pub use sweep::{KEEP, Past, Sweep, is_leftover, leaving, names, orphans, unswept};

/// Label on a record: the digest of everything that made this revision (≤ 63 characters).
pub const INPUTS_LABEL: &str = "osdpl.dev/inputs";

/// The value of [`INPUTS_LABEL`] and [`CATALOG_LABEL`] on a record that was taken over and is not as wanted: it was made of no inputs that we know.
pub const ADOPTED: &str = "adopted";

/// Label on a record: the digest of the catalogue that made those inputs.
pub const CATALOG_LABEL: &str = "osdpl.dev/catalog";

/// Label on a record: the release's name in the catalogue, which need not be helm's name for it. By it a release is known where it is
/// installed, whatever the spec calls it later. Records from before it was written do without.
pub const RELEASE_LABEL: &str = "osdpl.dev/release";

/// Label on a record: the [`Attempt`] that made this revision.
pub const ATTEMPT_LABEL: &str = "osdpl.dev/attempt";

/// Label on a record: the digest of the images that its pods and Jobs were given.
pub const IMAGES_LABEL: &str = "osdpl.dev/images";

/// Label on a record: the digest of what guests that run hold on to, such as a key, or [`NO_GUESTS`]; only for releases that may have any.
/// Labels travel from revision to revision, so that nothing must be said as well.
pub const GUESTS_LABEL: &str = "osdpl.dev/guests";

/// The value of [`GUESTS_LABEL`] where guests hold on to nothing.
pub const NO_GUESTS: &str = "none";

/// Label on a record: the digest of how the release's `DaemonSets` are split by node, or [`NO_SPLIT`]; only for releases where they can be.
pub const SPLIT_LABEL: &str = "osdpl.dev/split";

/// The value of [`SPLIT_LABEL`] where all nodes have the same, as in records from before it was written.
pub const NO_SPLIT: &str = "none";

/// Label on a failed record: what it left behind was removed. Its value is the record's own revision, because labels travel: an upgrade
/// inherits those of the revision before it.
pub const SWEPT_LABEL: &str = "osdpl.dev/swept";

/// The `type` of a record's Secret; a field selector on it finds all of them.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";

/// How many bytes a Secret's data may hold, and with it a record: Kubernetes' own limit (`MaxSecretSize`, 1 MiB), below etcd's on a request.
pub const RECORD_LIMIT: usize = 1 << 20;

/// The key of the payload in a record's Secret.
pub const SECRET_KEY: &str = "release";
