//! The fields in which two objects differ, without what is secret in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Object, lines};
use crate::scrub::Scrubber;

/// What stands in place of what is secret.
const REDACTED: &str = "<redacted>";

/// What makes an item of a list the same one on both sides.
const NAMES: [&str; 1] = ["name"];

/// The parts of a Secret that are secret.
const SECRET: [&str; 2] = ["data", "stringData"];

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// `spec.template.spec.containers[api].image`.
    pub path: String,
    /// What it was; absent where it was not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What it becomes; absent where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Of texts of several lines: those that go and come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, before, after, lines } = self;
        match (before, after) {
            (Some(before), Some(after)) if before == after => write!(formatter, "{path}: changed, not shown"),
            (Some(before), Some(after)) => write!(formatter, "{path}: {before} → {after}"),
            (None, Some(after)) => write!(formatter, "{path}: {after} (new)"),
            (Some(before), None) => write!(formatter, "{path}: {before} (goes)"),
            (None, None) => write!(formatter, "{path}:"),
        }?;
        lines.iter().try_for_each(|line| write!(formatter, "\n    {line}"))
    }
}

/// The fields in which two objects differ.
pub fn changes(old: &Object, new: &Object, scrubber: &Scrubber) -> Vec<FieldChange> {
    let hidden = if old.is_secret() || new.is_secret() { &SECRET[..] } else { &[] };
    let mut walk = Walk { scrubber, hidden, found: Vec::new() };
    walk.maps("", old.content(), new.content());
    walk.found
}

/// An object for people: of a Secret the keys alone, and nothing that the scrubber knows.
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
    fn maps(&mut self, at: &str, old: &Map<String, Value>, new: &Map<String, Value>) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let dot = if at.is_empty() { "" } else { "." };
            let quote = if key.contains('.') { "\"" } else { "" };
            self.values(&format!("{at}{dot}{quote}{key}{quote}"), old.get(key), new.get(key));
        }
    }

    fn values(&mut self, at: &str, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        match (old, new) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.maps(at, old, new),
            (Some(Value::Array(old)), Some(Value::Array(new))) => self.lists(at, old, new),
            (Some(Value::String(old)), Some(Value::String(new)))
                if (old.trim_end().contains('\n') || new.trim_end().contains('\n')) && !self.hides(at) =>
            {
                let (old, new) = (self.scrubber.scrub(old), self.scrubber.scrub(new));
                // What differs in secrets alone looks the same without them.
                let lines =
                    if old == new { vec!["(in what is secret)".to_owned()] } else { lines::between(&old, &new) };
                self.found.push(FieldChange { path: at.to_owned(), before: None, after: None, lines });
            }
            (old, new) => {
                let [before, after] = [old, new].map(|value| value.map(|value| self.shown(at, value)));
                self.found.push(FieldChange { path: at.to_owned(), before, after, lines: Vec::new() });
            }
        }
    }

    /// Items that have names are told by them, others by their place, and where there are more or fewer of those, the list is one value.
    fn lists(&mut self, at: &str, old: &[Value], new: &[Value]) {
        let both = NAMES.iter().find_map(|key| Some((Named::of(old, key)?, Named::of(new, key)?)));
        if let Some((old, new)) = both {
            let added = new.order.iter().filter(|name| !old.items.contains_key(*name));
            for name in old.order.iter().chain(added) {
                self.values(&format!("{at}[{name}]"), old.items.get(name).copied(), new.items.get(name).copied());
            }
            let (kept, order) = (old.also_in(&new), new.also_in(&old));
            if kept != order {
                let told = |names: Vec<&str>| Some(Value::from(names));
                let path = format!("{at} (order)");
                self.found.push(FieldChange { path, before: told(kept), after: told(order), lines: Vec::new() });
            }
        } else if old.len() == new.len() && old.iter().chain(new).all(|item| item.is_object() || item.is_array()) {
            for (place, (old, new)) in old.iter().zip(new).enumerate() {
                self.values(&format!("{at}[{place}]"), Some(old), Some(new));
            }
        } else {
            let [before, after] = [old, new].map(|items| Some(self.shown(at, &Value::from(items.to_vec()))));
            self.found.push(FieldChange { path: at.to_owned(), before, after, lines: Vec::new() });
        }
    }

    fn hides(&self, at: &str) -> bool {
        self.hidden
            .iter()
            .any(|part| at.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    }

    fn shown(&self, at: &str, value: &Value) -> Value {
        if self.hides(at) { hidden(value) } else { scrubbed(value, self.scrubber) }
    }
}

/// Items of a list by their names.
struct Named<'a> {
    order: Vec<&'a str>,
    items: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Named<'a> {
    /// `None` where one has no name, or two have the same.
    fn of(items: &'a [Value], key: &str) -> Option<Self> {
        let order = items.iter().map(|item| item.get(key)?.as_str()).collect::<Option<Vec<_>>>()?;
        let items: BTreeMap<&str, &Value> = order.iter().copied().zip(items).collect();
        (items.len() == order.len()).then_some(Self { order, items })
    }

    /// The names that another list has too, in the order of this one.
    fn also_in(&self, other: &Self) -> Vec<&'a str> {
        self.order.iter().copied().filter(|name| other.items.contains_key(name)).collect()
    }
}

/// A value with its texts hidden, its keys not.
fn hidden(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), hidden(value))).collect()),
        _ => REDACTED.into(),
    }
}

/// A value without the secrets that the scrubber knows.
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
