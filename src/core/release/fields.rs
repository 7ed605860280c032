//! Collects the paths of the fields that a manifest sets in an object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

/// The path of a field (`spec.template.spec.containers[].image`), and how often a manifest sets the field in one
/// object.
///
/// In a path, `[]` stands for any item of a list. So a manifest may set a field with the same path in several items.
pub type Field = (Arc<str>, u16);

/// The field paths of all objects that osdpl holds in memory. Objects with the same path share one copy of it.
///
/// The objects of different releases have mostly the same field paths. If each object stored copies of its paths, the
/// paths of thousands of objects would take megabytes.
static PATHS: Mutex<Paths> = Mutex::new(Paths(BTreeSet::new()));

/// The field paths of the objects of all records. With this set, equal paths share their memory.
#[derive(Default)]
pub(super) struct Paths(BTreeSet<Arc<str>>);

/// Locks [`PATHS`], removes the paths that no object uses any more, and returns the locked set.
pub(super) fn paths() -> MutexGuard<'static, Paths> {
    let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    paths.0.retain(|path| Arc::strong_count(path) > 1);
    paths
}

/// The top-level fields that osdpl does not collect: the object's identity, and the fields that the API server changes
/// after helm has applied the manifest. The API server writes `status` and moves the content of `stringData` to `data`.
const SKIPPED: [&str; 5] = ["apiVersion", "kind", "metadata", "status", "stringData"];

/// The maximum size in memory of the objects and field paths of one record, in bytes. The records of upstream's charts
/// need less than a tenth of this size.
pub(super) const SUMMARY_MAX: usize = 16 << 20;

/// The approximate number of bytes of memory that one field path or object takes in addition to its own data.
pub(super) const ENTRY: usize = 64;

/// The only field outside of `data` that osdpl collects even if its value is 0.
const REPLICAS: &str = "spec.replicas";

/// Returns the paths of the fields that a manifest sets in `object`, except for the fields in [`SKIPPED`].
///
/// The result leaves out fields with a null, empty, false or zero value, because the API server may drop them. Two
/// kinds of fields are always in the result: `spec.replicas`, even if it is zero, and the keys of `data`, even if their
/// values are empty. When `budget` (the memory that the record's objects may still take) is used up, the function
/// leaves out all further fields.
pub(super) fn fields(object: &Map<String, Value>, paths: &mut Paths, budget: &mut Budget) -> Vec<Field> {
    let mut found = BTreeMap::new();
    for (name, value) in object {
        if !SKIPPED.contains(&name.as_str()) {
            walk(name, value, name == "data", &mut found, budget);
        }
    }
    found.into_iter().map(|(path, count)| (paths.shared(path), count)).collect()
}

fn walk(path: &str, value: &Value, is_data: bool, found: &mut BTreeMap<String, u16>, budget: &mut Budget) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if !budget.take(path.len() + name.len()) {
                    return;
                }
                let path = format!("{path}.{name}");
                if is_data && !value.is_null() { add(path, found) } else { walk(&path, value, false, found, budget) }
            }
        }
        Value::Array(items) => {
            for item in items {
                if !budget.take(path.len()) {
                    return;
                }
                walk(&format!("{path}[]"), item, false, found, budget);
            }
        }
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

/// The number of bytes of memory that the objects and field paths of one record may still take.
///
/// The paths can be much larger than the manifest, because the path of each field of a map repeats the path of the map.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new() -> Self {
        Self(SUMMARY_MAX)
    }

    /// Subtracts the memory for one object or path of `length` bytes from the budget: `length` plus [`ENTRY`]. Returns
    /// whether any memory is left in the budget.
    pub(super) fn take(&mut self, length: usize) -> bool {
        self.0 = self.0.saturating_sub(length + ENTRY);
        !self.is_used_up()
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.0 == 0
    }
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
        let mut fields = |object| fields(object, &mut paths, &mut Budget::new());
        let found = fields(&object);
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
        let second = fields(&object);
        assert!(Arc::ptr_eq(&second[0].0, &fields(&object)[0].0), "two objects share one copy of the same path");
    }
}
