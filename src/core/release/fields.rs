//! Collects the fields that a manifest sets in an object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

/// The path of a field (`spec.template.spec.containers[].image`), and how often a manifest sets the field.
///
/// In a path, `[]` stands for the items of a list.
pub type Field = (Arc<str>, u16);

/// Every distinct field path in memory, stored once.
///
/// The objects of releases have mostly the same paths. If each object had its own copies, the paths of thousands of
/// objects would take megabytes.
static PATHS: Mutex<Paths> = Mutex::new(Paths(BTreeSet::new()));

/// A set of field paths that the objects of all records share.
#[derive(Default)]
pub(super) struct Paths(BTreeSet<Arc<str>>);

/// Locks the shared paths, removes the paths that no record uses any more, and returns the rest.
pub(super) fn paths() -> MutexGuard<'static, Paths> {
    let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    paths.0.retain(|path| Arc::strong_count(path) > 1);
    paths
}

/// The top-level fields that osdpl does not collect: the object's identity, and the fields that the API server changes
/// after helm has applied the manifest. The API server writes `status` and moves the content of `stringData` to `data`.
const SKIPPED: [&str; 5] = ["apiVersion", "kind", "metadata", "status", "stringData"];

/// The only field outside of `data` that osdpl collects even if its value is 0.
const REPLICAS: &str = "spec.replicas";

/// Returns the fields that a manifest sets in an object, except for metadata.
///
/// The result does not contain fields with a null, empty, false or zero value, because the API server may drop them.
/// But it contains `spec.replicas` even if it is zero, and the keys of `data` even if they are empty.
pub(super) fn fields(object: &Map<String, Value>, paths: &mut Paths) -> Vec<Field> {
    let mut found = BTreeMap::new();
    for (name, value) in object {
        if !SKIPPED.contains(&name.as_str()) {
            walk(name, value, name == "data", &mut found);
        }
    }
    found.into_iter().map(|(path, count)| (paths.shared(path), count)).collect()
}

fn walk(path: &str, value: &Value, is_data: bool, found: &mut BTreeMap<String, u16>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            let path = format!("{path}.{name}");
            if is_data && !value.is_null() { add(path, found) } else { walk(&path, value, false, found) }
        }),
        Value::Array(items) => items.iter().for_each(|item| walk(&format!("{path}[]"), item, false, found)),
        Value::Bool(true) => add(path.to_owned(), found),
        Value::String(text) if !text.is_empty() => add(path.to_owned(), found),
        Value::Number(number) if path == REPLICAS || number.as_f64() != Some(0.0) => add(path.to_owned(), found),
        Value::Null | Value::Bool(false) | Value::String(_) | Value::Number(_) => {}
    }
}

fn add(path: String, found: &mut BTreeMap<String, u16>) {
    let count = found.entry(path).or_default();
    *count = count.saturating_add(1);
}

impl Paths {
    fn shared(&mut self, path: String) -> Arc<str> {
        if let Some(known) = self.0.get(path.as_str()) {
            return Arc::clone(known);
        }
        let path: Arc<str> = path.into();
        self.0.insert(Arc::clone(&path));
        path
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_set_fields_by_path() {
        let Value::Object(object) = json!({
            "status": {"a": 1}, "stringData": {"a": "b"},
            "data": {"a.sh": "", "gone": null},
            "spec": {
                "replicas": 0, "none": null, "no": false, "empty": "", "zero": 0, "nothing": {}, "list": [],
                "containers": [{"name": "a", "command": ["x", "y"]}, {"name": "b", "on": true}],
            },
        }) else {
            unreachable!("a map")
        };
        let mut paths = Paths::default();
        let found = fields(&object, &mut paths);
        let found: Vec<_> = found.iter().map(|(path, count)| (path.as_ref(), *count)).collect();
        assert_eq!(
            found,
            [
                ("data.a.sh", 1),
                ("spec.containers[].command[]", 2),
                ("spec.containers[].name", 2),
                ("spec.containers[].on", 1),
                ("spec.replicas", 1),
            ]
        );
        let second = fields(&object, &mut paths);
        assert!(Arc::ptr_eq(&second[0].0, &fields(&object, &mut paths)[0].0), "paths are shared");
    }
}
