//! Removes and corrects the invalid fields of a resource, so that the other fields can be evaluated in the same run.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::place::keys_of_field;
use osdpl_core::catalog::schema::{Nulls, SchemaViolation, ViolationKind, parse_boolean_word, validate};

/// The path of the features. The catalogue validates each of these free-form maps as a whole, so that an invalid field
/// hides the findings about the rest of its map.
const FEATURES: &str = "spec.features.";
/// The field without which nothing can be evaluated.
const RELEASE: &str = "spec.openstackRelease";

/// A resource whose fields have the types of its schema, and the changes that were necessary.
pub(super) struct Sound {
    /// The corrected resource.
    pub object: Value,
    changes: Vec<Change>,
}

/// One change, with its field in the resource as it was before this change.
struct Change {
    field: String,
    /// Whether the field was removed, and not corrected.
    is_gone: bool,
    /// The list that the field was an item of, with its index.
    item: Option<(String, usize)>,
}

impl Sound {
    /// Returns the resource without its invalid fields. An invalid OpenStack release is replaced by `release`.
    pub fn of(schema: &Value, object: Value, release: Option<&str>) -> Self {
        Self::without(schema, object, release, true)
    }

    /// Returns the resource with its incomplete objects kept; `None` if no object lacks a required field.
    pub fn lacking(schema: &Value, object: &Value, release: Option<&str>) -> Option<Self> {
        let found = validate(&schema["properties"]["spec"], &object["spec"], "spec", Nulls::Dropped);
        let lacks =
            |fault: &SchemaViolation<'_>| matches!(fault.problem, ViolationKind::Required) && fault.field != RELEASE;
        found.iter().any(lacks).then(|| Self::without(schema, object.clone(), release, false))
    }

    fn without(schema: &Value, object: Value, release: Option<&str>, is_whole: bool) -> Self {
        let mut sound = Self { object, changes: Vec::new() };
        while sound.step(&schema["properties"]["spec"], release, is_whole) {}
        sound
    }

    /// Removes or corrects each invalid field. If `is_whole`, also removes objects that lack a required field. Returns
    /// whether anything changed.
    fn step(&mut self, schema: &Value, release: Option<&str>, is_whole: bool) -> bool {
        let before = self.changes.len();
        let spec = self.object["spec"].clone();
        let mut known = BTreeSet::new();
        // Start at the end, so that removing an item of a list does not change the indexes of those before it.
        for fault in validate(schema, &spec, "spec", Nulls::Dropped).iter().rev() {
            let is_kept = !is_whole && matches!(fault.problem, ViolationKind::Required) && fault.field != RELEASE;
            let Some(field) = refused(fault).filter(|_| !is_kept) else { continue };
            if known.insert(field.clone()) {
                let mended = mended(fault).or_else(|| release.filter(|_| fault.field == RELEASE).map(Value::from));
                let field = if mended.is_some() { fault.field.clone() } else { field };
                self.change(field, mended);
            }
        }
        self.changes.len() > before
    }

    fn change(&mut self, field: String, mended: Option<Value>) {
        let keys = keys_of_field(&field);
        let Some((last, above)) = keys.split_last() else { return };
        let above = above.iter().try_fold(&mut self.object, |value, key| below(value, key));
        let is_gone = mended.is_none();
        let mut item = None;
        match (above, mended) {
            (Some(Value::Object(map)), Some(value)) => drop(map.insert(last.clone(), value)),
            (Some(Value::Object(map)), None) => {
                // A field that does not exist cannot be removed again; counting it as a change would loop forever.
                if map.remove(last).is_none() {
                    return;
                }
            }
            (Some(Value::Array(items)), mended) => {
                let Some(index) = last.parse().ok().filter(|index| *index < items.len()) else { return };
                if let Some(value) = mended {
                    items[index] = value;
                } else {
                    items.remove(index);
                    item = field.rsplit_once('[').map(|(list, _)| (list.to_owned(), index));
                }
            }
            _ => return,
        }
        self.changes.push(Change { field, is_gone, item });
    }

    /// Returns the removed fields.
    pub fn gone(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().filter(|change| change.is_gone).map(|change| change.field.as_str())
    }

    /// Maps a field of the corrected resource to the original one; `None` if a finding about it may only follow from a
    /// change that was already reported. Findings about unknown names (`is_of_name`) do not follow from changes below them.
    pub fn written(&self, field: &str, is_of_name: bool) -> Option<String> {
        let mut field = field.to_owned();
        for change in self.changes.iter().rev() {
            if let Some((list, index)) = &change.item {
                field = behind(&field, list, *index);
            }
            if follows(&field, change, is_of_name) {
                return None;
            }
        }
        Some(field)
    }
}

/// Returns the field to remove for a violation; `None` if the violation does not affect other fields.
fn refused(fault: &SchemaViolation<'_>) -> Option<String> {
    let is_feature = fault.field.starts_with(FEATURES);
    match fault.problem {
        ViolationKind::Required if fault.field == RELEASE => Some(fault.field.clone()),
        ViolationKind::Required => {
            // An object that lacks a required field is removed as a whole. The spec itself is kept.
            let keys = keys_of_field(&fault.field);
            let last = keys.last()?;
            let above =
                fault.field.strip_suffix(last.as_str()).or_else(|| fault.field.strip_suffix(&format!("\"{last}\"")))?;
            Some(above.trim_end_matches('.').to_owned()).filter(|above| above != "spec")
        }
        ViolationKind::Type(_)
        | ViolationKind::Enum(_)
        | ViolationKind::Time
        | ViolationKind::Below(_)
        | ViolationKind::Above(_) => Some(fault.field.clone()),
        ViolationKind::Unknown(..)
        | ViolationKind::Longer(_)
        | ViolationKind::Shorter(_)
        | ViolationKind::Pattern(_)
        | ViolationKind::TooMany(_)
        | ViolationKind::TooFewItems(_)
        | ViolationKind::TooFewProperties(_) => is_feature.then(|| fault.field.clone()),
    }
}

/// Returns the corrected value if a value of the wrong type has only one plausible meaning.
fn mended(fault: &SchemaViolation<'_>) -> Option<Value> {
    let ViolationKind::Type(wanted) = fault.problem else { return None };
    match (wanted, fault.value) {
        ("string", Value::Number(_) | Value::Bool(_)) => Some(fault.value.to_string().into()),
        ("boolean", Value::String(text)) => parse_boolean_word(text).map(Value::from),
        ("integer" | "number", Value::String(text)) => text.parse::<i64>().ok().map(Value::from),
        ("array", Value::String(_) | Value::Number(_) | Value::Bool(_)) => Some(vec![fault.value.clone()].into()),
        _ => None,
    }
}

fn below<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match value {
        Value::Object(map) => Map::get_mut(map, key),
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Maps a field to its index before an item of a list was removed.
fn behind(field: &str, list: &str, index: usize) -> String {
    let numbered = field.strip_prefix(list).and_then(|rest| rest.strip_prefix('[')?.split_once(']'));
    match numbered.and_then(|(number, rest)| Some((number.parse::<usize>().ok()?, rest))) {
        Some((number, rest)) if number >= index => format!("{list}[{}]{rest}", number + 1),
        _ => field.to_owned(),
    }
}

/// Whether a finding about a field may only follow from a change of that field, above it, or directly below it.
fn follows(field: &str, change: &Change, is_of_name: bool) -> bool {
    let changed = change.field.as_str();
    let is_below = || field.strip_prefix(changed).is_some_and(|rest| rest.starts_with(['.', '[']));
    let is_above = || {
        let rest = changed.strip_prefix(field).and_then(|rest| rest.strip_prefix(['.', '[']));
        rest.is_some_and(|rest| keys_of_field(rest.trim_end_matches(']')).len() == 1)
    };
    field == changed || change.is_gone && (is_below() || field != "spec" && !is_of_name && is_above())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sound(spec: &Value) -> Sound {
        let text = json!({"type": "string"});
        let item = json!({"type": "object", "required": ["name"], "properties": {"name": text, "nodes": {"type": "array", "items": text}}});
        let schema = json!({"properties": {"spec": {"type": "object", "required": ["openstackRelease"], "properties": {
            "openstackRelease": text,
            "presets": {"type": "array", "items": text},
            "paused": {"type": "boolean"},
            "approval": {"type": "string", "enum": ["Manual"]},
            "overrides": {"type": "array", "items": item},
        }}}});
        Sound::of(&schema, json!({"spec": spec}), Some("2026.1"))
    }

    #[test]
    fn what_can_only_be_meant_one_way_is_written_so_and_the_rest_is_taken_out() {
        let found = sound(&json!({"presets": "core", "paused": "yes", "approval": "maybe"}));
        assert_eq!(found.object["spec"], json!({"openstackRelease": "2026.1", "presets": ["core"], "paused": true}));
        let whole = sound(&json!({"openstackRelease": "2026.1"}));
        assert!(whole.changes.is_empty());
    }

    #[test]
    fn fields_behind_what_was_taken_out_of_a_list_keep_their_places() {
        let found = sound(
            &json!({"openstackRelease": "2026.1", "overrides": [{"nam": "x"}, {"name": "a", "nodes": [[], "n"]}, {"name": 5}]}),
        );
        assert_eq!(found.object["spec"]["overrides"], json!([{"name": "a", "nodes": ["n"]}, {"name": "5"}]));
        assert_eq!(found.written("spec.overrides[0].nodes[0]", false).as_deref(), Some("spec.overrides[1].nodes[1]"));
        assert_eq!(found.written("spec.overrides[1].nodes", false).as_deref(), Some("spec.overrides[2].nodes"));
        assert_eq!(found.written("spec.overrides[1].name", false), None, "it was told of");
        assert_eq!(found.written("spec.overrides", false), None, "it may be for the one that was taken out");
        assert_eq!(
            found.written("spec.overrides", true).as_deref(),
            Some("spec.overrides"),
            "its name is wrong all the same"
        );
        assert_eq!(found.written("spec.region", false).as_deref(), Some("spec.region"));
    }
}
