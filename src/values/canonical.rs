//! One spelling for equal values, and its digest.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Compact JSON with sorted keys: equal values give equal bytes, whatever order their keys were written in.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in keys.into_iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                let _ = write!(text, "{}:", Value::from(key.as_str()));
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write(item, text);
            }
            text.push(']');
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}

/// SHA-256 over `parts`, each with its length before it, as 63 hexadecimal digits: what fits into a label's value.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut text = hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    text.truncate(63);
    text
}
