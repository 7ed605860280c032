//! One spelling for equal values, and its digest.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Values;

/// Compact JSON with sorted keys: equal values give equal bytes, whatever order their keys were written in. The library's maps are sorted but with its
/// feature `preserve_order`, which a test would see.
pub fn canonical(value: &Value) -> String {
    spelled(value)
}

/// The same of a map of values.
pub fn canonical_map(values: &Values) -> String {
    spelled(values)
}

/// Nothing keeps JSON in memory from being written.
fn spelled(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A SHA-256 in the making, to which parts are added, each with its length before it.
#[derive(Clone, Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Adds a part.
    pub fn add(&mut self, part: &str) {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part);
    }

    /// The digest over all parts as 63 hexadecimal digits: what fits into a label's value.
    pub fn finish(self) -> String {
        let digits = self.0.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let mut text = String::with_capacity(63);
        text.extend(digits.take(63).filter_map(|digit| char::from_digit(digit.into(), 16)));
        text
    }
}

/// The [`Digest`] over `parts`.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Digest::default();
    parts.into_iter().for_each(|part| digest.add(part));
    digest.finish()
}
