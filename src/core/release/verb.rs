//! Defines the operations of helm that osdpl runs.

use std::fmt;

/// The kind of helm operation that osdpl runs for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// `helm upgrade --install`, also for a first install.
    Upgrade,
    /// `helm uninstall`.
    Uninstall,
}

impl Verb {
    /// Returns the operation's name: `upgrade` or `uninstall`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade",
            Self::Uninstall => "uninstall",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
