//! The fields in which two objects differ, without what is secret in them.

use std::collections::BTreeSet;
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
        let both = NAMES.iter().find_map(|key| Some((named(old, key)?, named(new, key)?)));
        if let Some((old, new)) = both {
            let names: Vec<&str> = old.iter().map(|(name, _)| *name).collect();
            let order: Vec<&str> = new.iter().map(|(name, _)| *name).filter(|name| names.contains(name)).collect();
            let find = |items: &[(&str, &Value)], name: &str| {
                items.iter().find(|(known, _)| *known == name).map(|(_, item)| (*item).clone())
            };
            let added = new.iter().map(|(name, _)| *name).filter(|name| !names.contains(name));
            for name in names.iter().copied().chain(added) {
                self.values(&format!("{at}[{name}]"), find(&old, name).as_ref(), find(&new, name).as_ref());
            }
            let kept: Vec<&str> = names.into_iter().filter(|name| order.contains(name)).collect();
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

/// The items by their names; `None` where one has none, or two have the same.
fn named<'a>(items: &'a [Value], key: &str) -> Option<Vec<(&'a str, &'a Value)>> {
    let all = items.iter().map(|item| Some((item.get(key)?.as_str()?, item))).collect::<Option<Vec<_>>>()?;
    let different: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
    (different.len() == all.len()).then_some(all)
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
