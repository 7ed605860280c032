//! One spelling for equal values, and its digest.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Values;

/// Compact JSON with sorted keys: equal values give equal bytes, whatever order their keys were written in.
pub fn canonical(value: &Value) -> String {
    spelled(|text| write(value, text))
}

/// The same of a map of values.
pub fn canonical_map(values: &Values) -> String {
    spelled(|text| write_map(values, text))
}

fn spelled(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut text = Vec::new();
    write(&mut text);
    // JSON is text.
    String::from_utf8(text).unwrap_or_default()
}

fn write_map(map: &Values, text: &mut Vec<u8>) {
    let mut keys: Vec<_> = map.iter().collect();
    keys.sort_by_key(|(key, _)| *key);
    text.push(b'{');
    for (index, (key, value)) in keys.into_iter().enumerate() {
        text.extend((index > 0).then_some(b','));
        scalar(key, text);
        text.push(b':');
        write(value, text);
    }
    text.push(b'}');
}

fn write(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(map) => write_map(map, text),
        Value::Array(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                text.extend((index > 0).then_some(b','));
                write(item, text);
            }
            text.push(b']');
        }
        other => scalar(other, text),
    }
}

/// Nothing keeps bytes in memory from being written.
fn scalar(value: &(impl serde::Serialize + ?Sized), text: &mut Vec<u8>) {
    let _ = serde_json::to_writer(text, value);
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
        digits.take(63).filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
    }
}

/// The [`Digest`] over `parts`.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Digest::default();
    parts.into_iter().for_each(|part| digest.add(part));
    digest.finish()
}
