//! Finds the fields in which the old and the new version of an object differ, and redacts secrets in their values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use osdpl_values::CollectSorted;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Object, lines};
use crate::scrub::Scrubber;

/// The placeholder that osdpl shows instead of a value of a Secret.
const REDACTED: &str = "<redacted>";

/// The keys under which a list item can contain its name. To compare two lists, osdpl compares each item with the item
/// of the same name in the other list.
const NAMES: [&str; 1] = ["name"];

/// The fields of a Secret whose values osdpl never shows.
const SECRET: [&str; 2] = ["data", "stringData"];

/// A field whose value an upgrade changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// The path of the field, such as `spec.template.spec.containers[api].image`.
    pub path: String,
    /// The old value; `None` if the field had no value, or if `lines` shows the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The new value; `None` if the upgrade removes the field, or if `lines` shows the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The removed and added lines, if the value is a string with several lines; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, before, after, lines } = self;
        match (before, after) {
            (Some(before), Some(after)) if before == after => write!(formatter, "{path}: changed (secret, not shown)"),
            (Some(before), Some(after)) => write!(formatter, "{path}: {before} → {after}"),
            (None, Some(after)) => write!(formatter, "{path}: {after} (new)"),
            (Some(before), None) => write!(formatter, "{path}: {before} (removed)"),
            (None, None) => write!(formatter, "{path}:"),
        }?;
        lines.iter().try_for_each(|line| write!(formatter, "\n    {line}"))
    }
}

/// Returns the fields in which the old and the new version of an object differ, with secrets redacted.
pub(super) fn diff_fields(old: &Object, new: &Object, scrubber: &Scrubber) -> Vec<FieldChange> {
    let hidden = if old.is_secret() || new.is_secret() { &SECRET[..] } else { &[] };
    let mut walk = Walk { scrubber, hidden, found: Vec::new() };
    walk.maps("", old.content(), new.content());
    walk.found
}

/// Returns the full content of an object with secrets redacted, so that osdpl can show it.
///
/// In a Secret, the function redacts all values in the data. In every object, it redacts the secrets that the scrubber
/// knows.
pub fn shown(object: &Object, scrubber: &Scrubber) -> Value {
    let entries = object.content().iter().map(|(key, value)| {
        let hides = object.is_secret() && SECRET.contains(&key.as_str());
        (key.clone(), if hides { hidden(value) } else { scrubbed(value, scrubber) })
    });
    Value::Object(entries.collect())
}

struct Walk<'a> {
    scrubber: &'a Scrubber,
    hidden: &'a [&'a str],
    found: Vec<FieldChange>,
}

impl Walk<'_> {
    fn maps(&mut self, path: &str, old: &Map<String, Value>, new: &Map<String, Value>) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect_set();
        for key in keys {
            let dot = if path.is_empty() { "" } else { "." };
            let quote = if key.contains('.') { "\"" } else { "" };
            self.values(&format!("{path}{dot}{quote}{key}{quote}"), old.get(key), new.get(key));
        }
    }

    fn values(&mut self, path: &str, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        match (old, new) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.maps(path, old, new),
            (Some(Value::Array(old)), Some(Value::Array(new))) => self.lists(path, old, new),
            (Some(Value::String(old)), Some(Value::String(new)))
                if (old.trim_end().contains('\n') || new.trim_end().contains('\n')) && !self.hides(path) =>
            {
                let (old, new) = (self.scrubber.scrub(old), self.scrubber.scrub(new));
                // If only secrets differ, the two texts are equal after the scrubber has redacted the secrets. Then
                // there are no changed lines that osdpl could show.
                let lines =
                    if old == new { vec!["(only secrets differ)".to_owned()] } else { lines::diff_lines(&old, &new) };
                self.found.push(FieldChange { path: path.to_owned(), before: None, after: None, lines });
            }
            (old, new) => {
                let [before, after] = [old, new].map(|value| value.map(|value| self.shown(path, value)));
                self.found.push(FieldChange { path: path.to_owned(), before, after, lines: Vec::new() });
            }
        }
    }

    /// Compares two lists.
    ///
    /// If all items of both lists have unique names, the method compares the items of the same name, and reports a
    /// changed order. Otherwise it compares the items at the same index. But if the lengths of the lists differ, or if
    /// an item is neither a map nor a list, it compares the lists as a whole.
    fn lists(&mut self, path: &str, old: &[Value], new: &[Value]) {
        let both = NAMES.iter().find_map(|key| Some((Named::of(old, key)?, Named::of(new, key)?)));
        if let Some((old, new)) = both {
            let added = new.order.iter().filter(|name| !old.items.contains_key(*name));
            for name in old.order.iter().chain(added) {
                self.values(&format!("{path}[{name}]"), old.items.get(name).copied(), new.items.get(name).copied());
            }
            let (kept, order) = (old.also_in(&new), new.also_in(&old));
            if kept != order {
                let names = |names: Vec<&str>| Some(Value::from(names));
                let path = format!("{path} (order)");
                self.found.push(FieldChange { path, before: names(kept), after: names(order), lines: Vec::new() });
            }
        } else if old.len() == new.len() && old.iter().chain(new).all(|item| item.is_object() || item.is_array()) {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                self.values(&format!("{path}[{index}]"), Some(old), Some(new));
            }
        } else {
            let [before, after] = [old, new].map(|items| Some(self.shown(path, &Value::from(items.to_vec()))));
            self.found.push(FieldChange { path: path.to_owned(), before, after, lines: Vec::new() });
        }
    }

    fn hides(&self, path: &str) -> bool {
        self.hidden
            .iter()
            .any(|part| path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    }

    fn shown(&self, path: &str, value: &Value) -> Value {
        if self.hides(path) { hidden(value) } else { scrubbed(value, self.scrubber) }
    }
}

/// A list whose items have names: the items by name, and the names in the order of the list.
struct Named<'a> {
    order: Vec<&'a str>,
    items: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Named<'a> {
    /// Indexes the items of a list by their names; `None` if an item has no name, or if two items have the same name.
    ///
    /// The name of an item is the string at `key`.
    fn of(items: &'a [Value], key: &str) -> Option<Self> {
        let order = items.iter().map(|item| item.get(key)?.as_str()).collect::<Option<Vec<_>>>()?;
        let items: BTreeMap<&str, &Value> = order.iter().copied().zip(items).collect_map();
        (items.len() == order.len()).then_some(Self { order, items })
    }

    /// Returns the names that occur in both `self` and `other`, in the order of `self`.
    fn also_in(&self, other: &Self) -> Vec<&'a str> {
        self.order.iter().copied().filter(|name| other.items.contains_key(name)).collect()
    }
}

/// Returns a copy of the field `data` or `stringData` of a Secret. The copy has the same keys, but every value that is
/// not a map is `<redacted>`.
fn hidden(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), hidden(value))).collect()),
        _ => REDACTED.into(),
    }
}

/// Returns a copy of a value in which the scrubber has redacted the secrets that it knows, in keys of maps and in
/// strings.
fn scrubbed(value: &Value, scrubber: &Scrubber) -> Value {
    match value {
        Value::String(text) => scrubber.scrub(text).into(),
        Value::Array(items) => items.iter().map(|item| scrubbed(item, scrubber)).collect::<Vec<_>>().into(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (scrubber.scrub(key), scrubbed(value, scrubber))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
