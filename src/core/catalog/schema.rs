//! Validates values against structural schemas, the subset of JSON schema that Kubernetes allows in CRDs.

mod format;
mod messages;
mod type_messages;

use osdpl_values::expr::Patterns;
use serde_json::{Map, Value};

pub use messages::{field_description, violation_message};

/// One violation of a schema: a wrong value, or a required field that is missing.
#[derive(Debug, PartialEq)]
pub struct SchemaViolation<'a> {
    /// The path of the value in the spec, such as `spec.features.tls.public.hosts[0]`.
    pub field: String,
    /// The path of the value in the notation of `kubectl explain`: without the indexes of lists and the keys of maps.
    pub explained: String,
    /// The wrong value; null if a required field is missing.
    pub value: &'a Value,
    /// The part of the schema that describes this value; null for a field that the schema does not have.
    pub schema: &'a Value,
    /// The requirement of the schema that the value violates.
    pub problem: ViolationKind<'a>,
}

/// The requirement that a value violates, with the limit or the allowed values from the schema.
#[derive(Debug, PartialEq)]
pub enum ViolationKind<'a> {
    /// The value does not have this type.
    Type(&'a str),
    /// The value is not one of the allowed values in this list.
    Enum(&'a [Value]),
    /// The string has more than this number of characters.
    Longer(u64),
    /// The string has fewer than this number of characters.
    Shorter(u64),
    /// The string does not match this regular expression.
    Pattern(&'a str),
    /// The validation did not match the string against the schema's regular expression, because the match would take
    /// too many steps.
    Unsearched,
    /// The string is not an RFC 3339 time.
    Time,
    /// The number is smaller than this minimum.
    Below(f64),
    /// The number is larger than this maximum.
    Above(f64),
    /// The list or map has more than this number of entries.
    TooMany(u64),
    /// The list has fewer than this number of entries.
    TooFewItems(u64),
    /// The map has fewer than this number of entries.
    TooFewProperties(u64),
    /// The required field is missing or null.
    Required,
    /// The schema has no field of this name. The list contains the names of all fields in the schema.
    Unknown(&'a str, Vec<&'a str>),
}

/// The way in which the validation treats a field whose value is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// The validation treats a field with the value null as missing, because the API server drops such a field. In
    /// free-form maps, the API server keeps nulls, but the validation does not check these maps.
    Dropped,
    /// The validation reports a field with the value null as a violation, because no type in the schemas allows null.
    Kept,
}

/// Returns all violations of `schema` in `value`. `field` is the path of `value`; the path of each violation begins
/// with `field`.
pub fn validate<'a>(schema: &'a Value, value: &'a Value, field: &str, nulls: Nulls) -> Vec<SchemaViolation<'a>> {
    validate_with(&mut Patterns::default(), schema, value, field, nulls)
}

/// Validates like [`validate`], but all calls with the same `patterns` share one limit of steps for matching regular
/// expressions.
pub(crate) fn validate_with<'a>(
    patterns: &mut Patterns<'a>,
    schema: &'a Value,
    value: &'a Value,
    field: &str,
    nulls: Nulls,
) -> Vec<SchemaViolation<'a>> {
    let mut walk = Validation { nulls, patterns, found: Vec::new() };
    if !walk.drops(value) {
        walk.node(schema, value, &Location { field: field.to_owned(), explained: field.to_owned() });
    }
    walk.found
}

/// Returns the path of the field `key` below `field`. A key that contains dots is in quotes, as in `labels."a.b"`.
pub fn field_path(field: &str, key: &str) -> String {
    let dot = if field.is_empty() { "" } else { "." };
    if key.contains('.') { format!("{field}{dot}\"{key}\"") } else { format!("{field}{dot}{key}") }
}

/// The path of a value in the spec, in the two notations of a [`SchemaViolation`].
struct Location {
    /// The path of the value with the indexes of lists and the keys of maps, such as `nodes[0].name`.
    field: String,
    /// The path of the value without the indexes of lists and the keys of maps, in the notation of `kubectl explain`.
    explained: String,
}

impl Location {
    fn property(&self, key: &str) -> Self {
        Self { field: field_path(&self.field, key), explained: field_path(&self.explained, key) }
    }

    fn entry(&self, key: &str) -> Self {
        Self { field: field_path(&self.field, key), explained: self.explained.clone() }
    }

    fn item(&self, index: usize) -> Self {
        Self { field: format!("{}[{index}]", self.field), explained: self.explained.clone() }
    }

    fn fault<'a>(&self, value: &'a Value, schema: &'a Value, problem: ViolationKind<'a>) -> SchemaViolation<'a> {
        SchemaViolation { field: self.field.clone(), explained: self.explained.clone(), value, schema, problem }
    }
}

struct Validation<'a, 'p> {
    nulls: Nulls,
    patterns: &'p mut Patterns<'a>,
    found: Vec<SchemaViolation<'a>>,
}

impl<'a> Validation<'a, '_> {
    fn drops(&self, value: &Value) -> bool {
        value.is_null() && self.nulls == Nulls::Dropped
    }

    fn node(&mut self, schema: &'a Value, value: &'a Value, location: &Location) {
        let expected = if schema["x-kubernetes-int-or-string"] == true {
            Some("integer or string")
        } else {
            schema["type"].as_str()
        };
        if let Some(expected) = expected.filter(|expected| !fits(expected, value)) {
            self.found.push(location.fault(value, schema, ViolationKind::Type(expected)));
            return;
        }
        let mut report = |problem: Option<ViolationKind<'a>>| {
            self.found.extend(problem.map(|problem| location.fault(value, schema, problem)));
        };
        let allowed = schema["enum"].as_array().filter(|allowed| !allowed.contains(value));
        report(allowed.map(|allowed| ViolationKind::Enum(allowed)));
        match value {
            Value::String(text) => {
                for problem in check_text(self.patterns, schema, text) {
                    report(Some(problem));
                }
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                report(schema["minimum"].as_f64().filter(|least| number < *least).map(ViolationKind::Below));
                report(schema["maximum"].as_f64().filter(|most| number > *most).map(ViolationKind::Above));
            }
            Value::Array(items) => {
                let length = items.len() as u64;
                report(schema["maxItems"].as_u64().filter(|most| length > *most).map(ViolationKind::TooMany));
                report(schema["minItems"].as_u64().filter(|least| length < *least).map(ViolationKind::TooFewItems));
                for (index, item) in items.iter().enumerate() {
                    self.node(&schema["items"], item, &location.item(index));
                }
            }
            Value::Object(map) => {
                let length = map.len() as u64;
                report(schema["maxProperties"].as_u64().filter(|most| length > *most).map(ViolationKind::TooMany));
                report(
                    schema["minProperties"]
                        .as_u64()
                        .filter(|least| length < *least)
                        .map(ViolationKind::TooFewProperties),
                );
                self.properties(schema, map, location);
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn properties(&mut self, schema: &'a Value, map: &'a Map<String, Value>, location: &Location) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if map.get(name).is_none_or(Value::is_null) {
                let missing = &schema["properties"][name];
                self.found.push(location.property(name).fault(&Value::Null, missing, ViolationKind::Required));
            }
        }
        let known = schema["properties"].as_object();
        let free = &schema["additionalProperties"];
        for (key, value) in map.iter().filter(|(_, value)| !self.drops(value)).collect::<Vec<_>>() {
            match known.and_then(|known| known.get(key)) {
                Some(schema) => self.node(schema, value, &location.property(key)),
                None if free.is_object() => self.node(free, value, &location.entry(key)),
                None if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
                None => {
                    let names = known.into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
                    self.found.push(location.property(key).fault(
                        value,
                        &Value::Null,
                        ViolationKind::Unknown(key, names),
                    ));
                }
            }
        }
    }
}

fn check_text<'a>(patterns: &mut Patterns<'a>, schema: &'a Value, text: &str) -> Vec<ViolationKind<'a>> {
    let length = text.chars().count() as u64;
    let longer = schema["maxLength"].as_u64().filter(|most| length > *most).map(ViolationKind::Longer);
    let shorter = schema["minLength"].as_u64().filter(|least| length < *least).map(ViolationKind::Shorter);
    let pattern = schema["pattern"].as_str().and_then(|pattern| match patterns.matches(text, pattern) {
        Some(true) => None,
        Some(false) => Some(ViolationKind::Pattern(pattern)),
        None => Some(ViolationKind::Unsearched),
    });
    let is_time = || text.parse::<k8s_openapi::jiff::Timestamp>().is_ok();
    let time = (schema["format"] == "date-time" && !is_time()).then_some(ViolationKind::Time);
    [longer, shorter, pattern, time].into_iter().flatten().collect()
}

fn fits(expected: &str, value: &Value) -> bool {
    match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        // The API server accepts 1.0 for an integer, so this validation accepts it too.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "integer or string" => value.is_i64() || value.is_u64() || value.is_string(),
        "number" => value.is_number(),
        _ => true,
    }
}
