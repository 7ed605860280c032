//! What the part of JSON schema that custom resource definitions know (structural schemas) says of a value. Whoever asks puts it into words.

mod mistyped;
mod words;

use serde_json::{Map, Value};

pub use mistyped::meant;
pub use words::{described, said};

/// Something that a schema has against a value.
#[derive(Debug, PartialEq)]
pub struct Fault<'a> {
    /// The field.
    pub field: String,
    /// The same as `kubectl explain` takes it: without indexes and without the keys of maps.
    pub explained: String,
    /// What stands there; null where nothing does.
    pub value: &'a Value,
    /// What is said of it alone; null where nothing is.
    pub schema: &'a Value,
    /// What is wrong with it.
    pub problem: Problem<'a>,
}

/// What is wrong with a value.
#[derive(Debug, PartialEq)]
pub enum Problem<'a> {
    /// It is of another type than this.
    Type(&'a str),
    /// It is none of these.
    Enum(&'a [Value]),
    /// It has more characters than this.
    Longer(u64),
    /// It has fewer characters than this.
    Shorter(u64),
    /// It does not match this pattern.
    Pattern(&'a str),
    /// It is no time as RFC 3339 writes it.
    Time,
    /// It is smaller than this.
    Below(f64),
    /// It is larger than this.
    Above(f64),
    /// It has more items, or properties, than this.
    TooMany(u64),
    /// It has fewer items than this.
    TooFewItems(u64),
    /// It has fewer properties than this.
    TooFewProperties(u64),
    /// It is not there.
    Required,
    /// No property of this name is known: the name, and the names that are.
    Unknown(&'a str, Vec<&'a str>),
}

/// What a null is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Nothing: the API server drops it, but in lists and in free-form maps.
    Dropped,
    /// A value that is of no type: nobody has dropped it.
    Kept,
}

/// Everything that `schema` has against `value`, which stands at `field`.
pub fn faults<'a>(schema: &'a Value, value: &'a Value, field: &str, nulls: Nulls) -> Vec<Fault<'a>> {
    let mut walk = Walk { nulls, found: Vec::new() };
    if !walk.drops(value) {
        walk.node(schema, value, &At { field: field.to_owned(), explained: field.to_owned() });
    }
    walk.found
}

/// A field below another, quoted where its name holds dots.
pub fn below(field: &str, key: &str) -> String {
    let dot = if field.is_empty() { "" } else { "." };
    if key.contains('.') { format!("{field}{dot}\"{key}\"") } else { format!("{field}{dot}{key}") }
}

/// Where something stands, in both spellings.
struct At {
    field: String,
    explained: String,
}

impl At {
    fn property(&self, key: &str) -> Self {
        Self { field: below(&self.field, key), explained: below(&self.explained, key) }
    }

    fn entry(&self, key: &str) -> Self {
        Self { field: below(&self.field, key), explained: self.explained.clone() }
    }

    fn item(&self, index: usize) -> Self {
        Self { field: format!("{}[{index}]", self.field), explained: self.explained.clone() }
    }

    fn fault<'a>(&self, value: &'a Value, schema: &'a Value, problem: Problem<'a>) -> Fault<'a> {
        Fault { field: self.field.clone(), explained: self.explained.clone(), value, schema, problem }
    }
}

struct Walk<'a> {
    nulls: Nulls,
    found: Vec<Fault<'a>>,
}

impl<'a> Walk<'a> {
    fn drops(&self, value: &Value) -> bool {
        value.is_null() && self.nulls == Nulls::Dropped
    }

    fn node(&mut self, schema: &'a Value, value: &'a Value, at: &At) {
        let wanted = if schema["x-kubernetes-int-or-string"] == true {
            Some("integer or string")
        } else {
            schema["type"].as_str()
        };
        if let Some(wanted) = wanted.filter(|wanted| !fits(wanted, value)) {
            self.found.push(at.fault(value, schema, Problem::Type(wanted)));
            return;
        }
        let mut say = |problem: Option<Problem<'a>>| {
            self.found.extend(problem.map(|problem| at.fault(value, schema, problem)));
        };
        let allowed = schema["enum"].as_array().filter(|allowed| !allowed.contains(value));
        say(allowed.map(|allowed| Problem::Enum(allowed)));
        match value {
            Value::String(text) => of_text(schema, text).into_iter().for_each(|problem| say(Some(problem))),
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                say(schema["minimum"].as_f64().filter(|least| number < *least).map(Problem::Below));
                say(schema["maximum"].as_f64().filter(|most| number > *most).map(Problem::Above));
            }
            Value::Array(items) => {
                let length = items.len() as u64;
                say(schema["maxItems"].as_u64().filter(|most| length > *most).map(Problem::TooMany));
                say(schema["minItems"].as_u64().filter(|least| length < *least).map(Problem::TooFewItems));
                for (index, item) in items.iter().enumerate() {
                    self.node(&schema["items"], item, &at.item(index));
                }
            }
            Value::Object(map) => {
                let length = map.len() as u64;
                say(schema["maxProperties"].as_u64().filter(|most| length > *most).map(Problem::TooMany));
                say(schema["minProperties"].as_u64().filter(|least| length < *least).map(Problem::TooFewProperties));
                self.properties(schema, map, at);
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn properties(&mut self, schema: &'a Value, map: &'a Map<String, Value>, at: &At) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if map.get(name).is_none_or(Value::is_null) {
                let missing = &schema["properties"][name];
                self.found.push(at.property(name).fault(&Value::Null, missing, Problem::Required));
            }
        }
        let known = schema["properties"].as_object();
        let free = &schema["additionalProperties"];
        for (key, value) in map.iter().filter(|(_, value)| !self.drops(value)).collect::<Vec<_>>() {
            match known.and_then(|known| known.get(key)) {
                Some(schema) => self.node(schema, value, &at.property(key)),
                None if free.is_object() => self.node(free, value, &at.entry(key)),
                None if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
                None => {
                    let names = known.into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
                    self.found.push(at.property(key).fault(value, &Value::Null, Problem::Unknown(key, names)));
                }
            }
        }
    }
}

fn of_text<'a>(schema: &'a Value, text: &str) -> Vec<Problem<'a>> {
    let length = text.chars().count() as u64;
    let longer = schema["maxLength"].as_u64().filter(|most| length > *most).map(Problem::Longer);
    let shorter = schema["minLength"].as_u64().filter(|least| length < *least).map(Problem::Shorter);
    let pattern = schema["pattern"].as_str().filter(|pattern| !osdpl_values::expr::matches(text, pattern));
    let is_time = || text.parse::<k8s_openapi::jiff::Timestamp>().is_ok();
    let time = (schema["format"] == "date-time" && !is_time()).then_some(Problem::Time);
    [longer, shorter, pattern.map(Problem::Pattern), time].into_iter().flatten().collect()
}

fn fits(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        // What JSON writes as 1.0 is an integer to the API server.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "integer or string" => value.is_i64() || value.is_u64() || value.is_string(),
        "number" => value.is_number(),
        _ => true,
    }
}
