//! Computes short digests that identify the content of files or settings.

use sha2::{Digest, Sha256};

/// Returns a digest of a list of strings, as sixteen hexadecimal digits. The digest covers the text and the length of
/// each string, so the list `ab`, `c` and the list `a`, `bc` have different digests.
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
