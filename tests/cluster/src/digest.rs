//! A short digest of contents.

use sha2::{Digest, Sha256};

/// Returns sixteen hexadecimal digits that identify a sequence of parts. The length of each part is included, so that
/// different splits differ.
pub(crate) fn short<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let first = hash.finalize().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{first:016x}")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn different_splits_have_different_digests() {
        assert_ne!(short(["ab", "c"]), short(["a", "bc"]));
        assert_eq!(short(["ab"]).len(), 16);
    }
}
