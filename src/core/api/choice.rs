//! What a spec chooses of few.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who lets changes go that the spec did not ask for (those of a new operator or catalogue, and uninstalls): `Manual`, where unset, a person with
/// `osdpl approve`; `Automatic`, the operator at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// A person, with `osdpl approve`.
    #[default]
    Manual,
    /// The operator, at once.
    Automatic,
}

/// What a deletion of the resource leaves behind: `Retain`, where unset, volume claims, credentials and key Secrets, which the same resource finds
/// again when applied anew; `Purge`, nothing; `Detach`, everything: the releases run on, and helm goes on with them by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Volume claims, credentials and key Secrets stay: applying the resource again finds them.
    #[default]
    Retain,
    /// Nothing stays.
    Purge,
    /// Everything stays and runs on: releases, Secrets, labels of nodes. No helm is started.
    Detach,
}

/// What is done about objects of a release that someone edited or deleted beside helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// Status says what was changed, when and by whom; a person decides.
    #[default]
    Report,
    /// The release is applied again, which takes it back.
    Repair,
    /// Nothing is said, nothing is done.
    Ignore,
}
