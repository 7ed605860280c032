//! Defines the state of an evaluation, and the operations on values that count their work.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::budget::Budget;
use super::failure::Failure;
use super::{Scope, operators};

type Result<T> = std::result::Result<T, Failure>;

/// Returns the approximate size of a value in memory, in bytes.
pub(super) fn size(value: &Value) -> usize {
    let content = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| 64 + key.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + content
}

/// The state of the evaluation of one expression.
pub(super) struct Evaluation<'a> {
    pub scope: &'a Scope<'a>,
    pub budget: Budget<'a>,
}

impl Evaluation<'_> {
    /// Returns the value as an owned value. Copies the value if it is borrowed, and counts the bytes of the copy.
    pub(super) fn own(&mut self, value: Cow<Value>) -> Result<Value> {
        if let Cow::Borrowed(value) = value {
            self.budget.create(size(value))?;
        }
        Ok(value.into_owned())
    }

    /// Whether two JSON values are equal. Counts the bytes that the comparison reads.
    pub(super) fn equal(&mut self, one: &Value, other: &Value) -> Result<bool> {
        match (one, other) {
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
                self.budget.read(size(one) + size(other))?;
            }
            (Value::String(one), Value::String(other)) => self.budget.read(one.len().min(other.len()))?,
            _ => {}
        }
        Ok(one == other)
    }

    /// Compares two numbers, two strings or two booleans. Counts the bytes that the comparison reads.
    pub(super) fn compare(&mut self, one: &Value, other: &Value) -> Result<Ordering> {
        if let (Value::String(one), Value::String(other)) = (one, other) {
            self.budget.read(one.len().min(other.len()))?;
        }
        operators::compare(one, other)
    }

    /// Whether a map has a key. Counts the bytes of the key, which the search compares with the map's keys.
    pub(super) fn has_key(&mut self, map: &Map<String, Value>, key: &str) -> Result<bool> {
        self.budget.read(key.len())?;
        Ok(map.contains_key(key))
    }

    /// Whether a list contains a value. Counts the work of comparing the value with the items.
    pub(super) fn contains(&mut self, items: &[Value], value: &Value) -> Result<bool> {
        for item in items {
            self.budget.step(1)?;
            if self.equal(item, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
