//! Computes the digest of a chart's content. Two archives with the same content have the same digest.

use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;

use super::contents::Contents;
use super::metadata;

const PREFIX: &str = "sha256:";

/// The digest of a chart's content, written `sha256:<64 hexadecimal digits>`.
///
/// osdpl computes the digest from the sorted paths and contents of the chart's files, each with its length. The digest
/// does not depend on the order, times, compression and top folder of the archive. A chart directory and helm's archive
/// of the directory have the same digest, although `helm package` changes two files:
///
/// * helm writes `Chart.yaml` sorted and without comments. The digest depends only on the fields of `Chart.yaml`.
/// * helm writes a time into `Chart.lock`, and does not read the file after packaging. The digest ignores `Chart.lock`,
///   and also `requirements.lock`, the name of this file in older charts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

/// The error about a string that does not have the form of a `Digest`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: a digest is `sha256:` followed by 64 lower-case hexadecimal digits")]
pub struct InvalidDigest(String);

impl Digest {
    pub(super) fn of(contents: &Contents) -> Self {
        let mut hash = sha2::Sha256::new();
        let mut update = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        for (path, content) in contents.files() {
            update(path.as_bytes());
            match metadata::canonical(path, content) {
                Some(canonical) => update(canonical.as_bytes()),
                None => update(content),
            }
        }
        Self(format!("{:x}", Hexadecimal(&hash.finalize())))
    }

    /// The number of digits that [`Self::short`] returns.
    pub(super) const SHORT: usize = 12;

    /// Returns the first twelve hexadecimal digits. They suffice to distinguish the files in a cache.
    pub fn short(&self) -> &str {
        &self.0[..Self::SHORT]
    }
}

pub(super) struct Hexadecimal<'a>(pub &'a [u8]);

impl fmt::LowerHex for Hexadecimal<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        match text.strip_prefix(PREFIX) {
            Some(digits) if digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) => {
                Ok(Self(digits.to_owned()))
            }
            _ => Err(InvalidDigest(text.to_owned())),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
