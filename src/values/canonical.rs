//! Serializes values so that equal values give equal strings, and computes digests of strings.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Values;

/// Returns a value as compact JSON with sorted keys.
///
/// Equal values give equal strings, in whatever order their keys were written.
///
/// The keys are sorted only while the feature `preserve_order` of `serde_json` is off. A test verifies that this
/// feature is off.
pub fn canonical(value: &Value) -> String {
    to_text(value)
}

/// Returns a map of values as compact JSON with sorted keys, as [`canonical`] does for one value.
pub fn canonical_map(values: &Values) -> String {
    to_text(values)
}

/// Serializes a value to JSON. This can't fail, because the value is a JSON value already.
fn to_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A SHA-256 digest of several strings.
///
/// The digest includes the length of each string. So the digest of `ab` and `c` differs from the digest of `a` and
/// `bc`.
#[derive(Clone, Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Adds a string to the digest.
    pub fn add(&mut self, part: &str) {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part);
    }

    /// Returns the first 63 of the digest's 64 hexadecimal digits, because a label value has at most 63 characters.
    pub fn finish(self) -> String {
        let mut text = String::with_capacity(63);
        text.extend(hexadecimal(&self.0.finalize()).take(63));
        text
    }
}

/// Returns the hexadecimal digits of bytes.
fn hexadecimal(bytes: &[u8]) -> impl Iterator<Item = char> {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16))
}

/// Returns the SHA-256 digest of one string, as `sha256:` and 64 hexadecimal digits. `sha256sum` prints the same
/// digits.
pub fn sha256(text: &str) -> String {
    "sha256:".chars().chain(hexadecimal(&Sha256::digest(text))).collect()
}

/// Returns the [`Digest`] of several strings as 63 hexadecimal digits.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Digest::default();
    parts.into_iter().for_each(|part| digest.add(part));
    digest.finish()
}
