//! Defines the version of a helm program.

use std::fmt;
use std::str::FromStr;

/// The major and minor version of a helm program. osdpl ignores the patch level, because no patch release has changed
/// helm's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major version, 3 or 4. It is part of each release's input digest, because helm 3 and helm 4 render charts
    /// and apply objects differently.
    pub major: u32,
    /// The minor version, such as 17 in 3.17.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = ();

    /// Parses a version such as `v4.3.1`, `v4.3` or `3.22.0+gabcdef`. The text must contain a major and a minor number.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.trim().trim_start_matches('v').splitn(3, ['.', '+', '-']);
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or(());
        Ok(Self { major: number()?, minor: number()? })
    }
}
