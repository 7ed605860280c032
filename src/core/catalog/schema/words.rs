//! What a schema has against a value, in our words: what stands there, what is wanted, and what to write.

use serde_json::{Map, Value};

use super::super::did_you_mean;
use super::mistyped::mistyped;
use super::{Fault, Problem};

/// The longest text that is repeated.
pub(super) const SHOWN: usize = 80;
/// How many keys of a map are named.
pub(super) const KEYS: usize = 12;

/// What is wrong, and what to do. An address may have a password in it: whoever asks takes that out.
pub fn said(fault: &Fault<'_>, described: Option<&str>) -> String {
    let Fault { value, schema, problem, .. } = fault;
    match problem {
        Problem::Type(wanted) => mistyped(wanted, value, schema),
        Problem::Enum(allowed) => {
            let hint = value.as_str().map(|text| did_you_mean(text, allowed.iter().filter_map(Value::as_str)));
            let hint = hint.unwrap_or_default();
            format!("{} is not one of {}{hint}; choose one of them", repeated(value), list(allowed))
        }
        Problem::Longer(_) | Problem::Shorter(_) => {
            let length = value.as_str().unwrap_or_default().chars().count();
            let wanted = range(&schema["minLength"], &schema["maxLength"]);
            format!("has {length} characters, and {wanted} are taken; write another{}", example(schema, described))
        }
        Problem::Pattern(pattern) => match described {
            Some(described) => format!("{} does not match {pattern}; what belongs there: {described}", repeated(value)),
            None => format!("{} does not match {pattern}; correct it", repeated(value)),
        },
        Problem::Time => format!("{} is no time; write it as in 2026-11-21T12:00:00Z", repeated(value)),
        Problem::Below(_) => format!("{value} is too small; write {}", number(schema)),
        Problem::Above(_) => format!("{value} is too large; write {}", number(schema)),
        Problem::TooMany(most) => format!("has {} entries, and may have {most} at most; take some out", count(value)),
        Problem::TooFewItems(least) | Problem::TooFewProperties(least) => {
            format!("must have {least} or more, and has {}; add what is missing, or leave the field out", count(value))
        }
        Problem::Required => format!("is required; {}", missing(schema, described)),
        Problem::Unknown(key, known) => {
            let hint = did_you_mean(key, known.iter().copied());
            format!("is unknown{hint}; there are {}", known.join(", "))
        }
    }
}

/// What a schema says that a field below it is for.
pub fn described<'a>(schema: &'a Value, explained: &str, above: &str) -> Option<&'a str> {
    let names = explained.strip_prefix(above)?.split('.').filter(|name| !name.is_empty());
    // Items and entries are not among the names; what is said of a list is said of them.
    let inner = |mut schema: &'a Value| {
        let mut said = schema["description"].as_str();
        while let Some(below) = ["items", "additionalProperties"].iter().find_map(|word| schema.get(word)) {
            if !below.is_object() {
                break;
            }
            schema = below;
            said = schema["description"].as_str().or(said);
        }
        (schema, said)
    };
    let at = names.fold(inner(schema), |(schema, _), name| inner(&schema["properties"][name]));
    at.1
}

/// What is to be written where nothing stands.
fn missing(schema: &Value, described: Option<&str>) -> String {
    if let Some(allowed) = schema["enum"].as_array() {
        return format!("set it to one of {}", list(allowed));
    }
    let what = match schema["type"].as_str() {
        Some("string") => "a text",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        Some("object") => "a map",
        Some("integer" | "number") => return format!("set it to {}{}", number(schema), example(schema, described)),
        _ => return format!("set it{}", example(schema, described)),
    };
    format!("set it to {what}{}", example(schema, described))
}

/// What a field is for, behind what to do about it.
fn example(schema: &Value, described: Option<&str>) -> String {
    let described = schema["description"].as_str().or(described);
    let first = described.map(|said| said.split_once(". ").map_or(said, |(first, _)| first).trim_end_matches('.'));
    first.map(|first| format!(": {first}")).unwrap_or_default()
}

pub(super) fn number(schema: &Value) -> String {
    let what = if schema["type"] == "number" { "a number" } else { "a whole number" };
    let (least, most) = (&schema["minimum"], &schema["maximum"]);
    match (least.is_null(), most.is_null()) {
        (true, true) => what.to_owned(),
        (false, false) => format!("{what} from {} to {}", whole(least), whole(most)),
        (false, true) => format!("{what}, {} at least", whole(least)),
        (true, false) => format!("{what}, {} at most", whole(most)),
    }
}

fn range(least: &Value, most: &Value) -> String {
    match (least.is_null(), most.is_null()) {
        (false, false) => format!("{least} to {most}"),
        (false, true) => format!("{least} or more"),
        _ => format!("{most} at most"),
    }
}

/// A bound as people write it: schemas of types have 1.0 where 1 is meant.
fn whole(bound: &Value) -> String {
    bound.as_f64().map_or_else(|| bound.to_string(), |bound| bound.to_string())
}

pub(super) fn list(values: &[Value]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn names(map: &Map<String, Value>) -> String {
    map.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn count(value: &Value) -> usize {
    value.as_array().map_or_else(|| value.as_object().map_or(0, Map::len), Vec::len)
}

/// A value as it is written, where it is short enough to be repeated.
pub(super) fn repeated(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > SHOWN || text.contains('\n') => "what stands here".to_owned(),
        Value::Array(_) | Value::Object(_) => "what stands here".to_owned(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Nulls, faults};
    use super::*;

    fn told(schema: &Value, value: &Value) -> String {
        let found = faults(schema, value, "f", Nulls::Kept);
        found.iter().map(|fault| said(fault, described(schema, &fault.explained, "f"))).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn of_a_wrong_type_is_said_what_stands_there_what_is_wanted_and_what_to_write() {
        let number = json!({"type": "integer", "minimum": 68.0, "maximum": 9216.0});
        let servers = json!({"type": "string", "pattern": "^[0-9.]+(,[0-9.]+)*$"});
        for (schema, value, expected) in [
            (
                json!({"type": "string"}),
                json!(2026.1),
                "2026.1 is a number, and a text is wanted; put it in quotes: \"2026.1\"",
            ),
            (
                json!({"type": "string"}),
                json!(false),
                "this is false to YAML, and a text is wanted; YAML reads n, no, off and false so where they stand without quotes: put in quotes what is meant",
            ),
            (
                json!({"type": "boolean"}),
                json!("yes"),
                "\"yes\" is a text, and true or false is wanted; write true, without quotes",
            ),
            (
                json!({"type": "object", "properties": {"issuer": {}, "secretName": {}}}),
                json!(5),
                "5 is a number, and a map is wanted; write key: value below it; its keys are issuer, secretName",
            ),
            (json!({"type": "array"}), json!("compute"), "a text stands here, and a list is wanted; write [compute]"),
            (
                json!({"type": "object"}),
                json!("password: hunter2"),
                "a text stands here, and a map is wanted; write key: value below it",
            ),
            (
                servers,
                json!(["8.8.8.8", "8.8.4.4"]),
                "a list stands here, and a text is wanted; write \"8.8.8.8,8.8.4.4\"",
            ),
            (
                number.clone(),
                json!("1500"),
                "\"1500\" is a text, and a whole number from 68 to 9216 is wanted; write 1500, without quotes",
            ),
            (
                number.clone(),
                json!("99999"),
                "\"99999\" is a text, and a whole number from 68 to 9216 is wanted; write one, without quotes",
            ),
            (
                number.clone(),
                json!("abc"),
                "\"abc\" is a text, and a whole number from 68 to 9216 is wanted; write one, without quotes",
            ),
            (number.clone(), json!([1]), "a list stands here, and a whole number from 68 to 9216 is wanted; write one"),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(3.5),
                "3.5 is a number, and a whole number or a text is wanted; write a whole number, or a text in quotes",
            ),
            (
                json!({"type": "string", "pattern": "^[a-z]+$"}),
                json!(5),
                "5 is a number, and a text is wanted; write one, in quotes",
            ),
            (
                json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}),
                json!("b"),
                "a text stands here, and a list is wanted; write its entries below it, each behind \"- \", or in brackets: [a, b]",
            ),
            (number, json!(99999), "99999 is too large; write a whole number from 68 to 9216"),
        ] {
            assert_eq!(told(&schema, &value), expected);
        }
    }

    #[test]
    fn of_what_is_missing_is_said_what_belongs_there() {
        let one = json!({"type": "object", "required": ["mode"], "properties": {"mode": {"type": "string", "enum": ["a", "b"]}}});
        assert_eq!(told(&one, &json!({})), "is required; set it to one of \"a\", \"b\"");
        let name = json!({"type": "string", "description": "The name of a Secret. It is there."});
        let one = json!({"type": "object", "required": ["name"], "properties": {"name": name}});
        assert_eq!(told(&one, &json!({})), "is required; set it to a text: The name of a Secret");
    }

    #[test]
    fn an_enumeration_tells_the_one_that_is_near() {
        let one = json!({"type": "string", "enum": ["Manual", "Automatic"]});
        assert_eq!(
            told(&one, &json!("automatic")),
            "\"automatic\" is not one of \"Manual\", \"Automatic\", did you mean \"Automatic\"?; choose one of them"
        );
    }
}
