//! helm's own word for the state of a revision.

use std::fmt;
use std::str::FromStr;

/// The state of one revision, as in a record's `status` label and `info.status` (helm: `pkg/release/common`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// helm does not know.
    Unknown,
    /// The revision is what runs.
    Deployed,
    /// Removed, history kept.
    Uninstalled,
    /// A later revision took its place.
    Superseded,
    /// helm gave up on it.
    Failed,
    /// Being removed; its pre-delete hooks may be running.
    Uninstalling,
    /// A first install is under way, or died.
    PendingInstall,
    /// An upgrade is under way, or died.
    PendingUpgrade,
    /// A rollback is under way, or died, or its hook failed.
    PendingRollback,
}

impl Status {
    /// All of them.
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

    /// The word in the record.
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

    /// Whether helm refuses every other operation on the release ("another operation is in progress").
    pub fn is_pending(self) -> bool {
        matches!(self, Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A status that no helm we know writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no status that helm 3 or helm 4 gives to a release")]
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
    fn every_status_reads_back_as_itself() {
        for status in Status::ALL {
            assert_eq!(status.to_string().parse(), Ok(status));
        }
        assert_eq!("Deployed".parse::<Status>(), Err(UnknownStatus("Deployed".into())));
    }
}
