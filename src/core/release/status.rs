//! Defines helm's status of a revision.

use std::fmt;
use std::str::FromStr;

/// helm's status of one revision: the label `status` of the record, and the field `info.status` of its payload (helm:
/// `pkg/release/common`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Status {
    /// helm wrote the status `unknown`.
    #[default]
    Unknown,
    /// helm applied the revision successfully, and no later revision replaced it.
    Deployed,
    /// helm uninstalled the release, but kept this record (`--keep-history`).
    Uninstalled,
    /// helm deployed a later revision, which replaced this revision.
    Superseded,
    /// The operation that made the revision failed.
    Failed,
    /// helm is uninstalling the release, or its uninstall was interrupted.
    Uninstalling,
    /// A first install is running or was interrupted.
    PendingInstall,
    /// An upgrade is running or was interrupted.
    PendingUpgrade,
    /// A rollback is running or was interrupted, or a hook of the rollback failed.
    PendingRollback,
}

impl Status {
    /// All statuses that helm 3 and helm 4 write.
    pub const ALL: [Self; 9] = [
        Self::Unknown,
        Self::Deployed,
        Self::Uninstalled,
        Self::Superseded,
        Self::Failed,
        Self::Uninstalling,
        Self::PendingInstall,
        Self::PendingUpgrade,
        Self::PendingRollback,
    ];

    /// Returns the word that helm writes into a release record for this status, such as `pending-upgrade`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
        }
    }

    /// Whether a record with this status is pending. helm refuses to upgrade a release whose newest record is pending,
    /// with the error "another operation is in progress".
    pub fn is_pending(self) -> bool {
        matches!(self, Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The error for a status that neither helm 3 nor helm 4 writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a release status of helm 3 or helm 4")]
pub struct UnknownStatus(pub String);

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_round_trip() {
        for status in Status::ALL {
            assert_eq!(status.to_string().parse(), Ok(status));
        }
        assert_eq!("Deployed".parse::<Status>(), Err(UnknownStatus("Deployed".into())));
    }
}
