//! Messages for schema violations: what the value is, what the schema expects, and the remedy.

use serde_json::{Map, Value};

use super::super::did_you_mean;
use super::format::{list, number, quote, range};
use super::type_messages::type_message;
use super::{SchemaViolation, ViolationKind};
/// Returns the message for a violation of a schema: the problem and the remedy.
///
/// `described` is the description of the field in the schema; `None` if there is none. The message can quote the value,
/// so callers must redact passwords of URLs in the message.
pub fn violation_message(fault: &SchemaViolation<'_>, described: Option<&str>) -> String {
    let SchemaViolation { value, schema, problem, .. } = fault;
    match problem {
        ViolationKind::Type(expected) => type_message(expected, value, schema),
        ViolationKind::Enum(allowed) => {
            let hint = value.as_str().map(|text| did_you_mean(text, allowed.iter().filter_map(Value::as_str)));
            let hint = hint.unwrap_or_default();
            format!("{} is not one of {}{hint}; choose one of them", quote(value), list(allowed))
        }
        ViolationKind::Longer(_) | ViolationKind::Shorter(_) => {
            let length = value.as_str().unwrap_or_default().chars().count();
            let expected = range(&schema["minLength"], &schema["maxLength"]);
            format!(
                "has {length} characters, but {expected} are allowed; write another value{}",
                example(schema, described)
            )
        }
        ViolationKind::Pattern(pattern) => match described {
            Some(described) => {
                format!("{} does not match {pattern}; write another value: {}", quote(value), one_line(described))
            }
            None => format!("{} does not match {pattern}; correct it", quote(value)),
        },
        ViolationKind::Unsearched => "is too long to compare with the pattern of the field; shorten it".to_owned(),
        ViolationKind::Time => format!("{} is not a valid time; write it like 2026-11-21T12:00:00Z", quote(value)),
        ViolationKind::Below(_) => format!("{value} is too small; write {}", number(schema)),
        ViolationKind::Above(_) => format!("{value} is too large; write {}", number(schema)),
        ViolationKind::TooMany(most) => {
            format!("has {} entries, but at most {most} are allowed; remove some", count(value))
        }
        ViolationKind::TooFewItems(least) | ViolationKind::TooFewProperties(least) => {
            format!("has {} entries, but needs at least {least}; add entries, or remove the field", count(value))
        }
        ViolationKind::Required => format!("is required; {}", missing(schema, described)),
        ViolationKind::Unknown(key, known) => {
            let hint = did_you_mean(key, known.iter().copied());
            format!("is an unknown field{hint}; the known fields are {}", known.join(", "))
        }
    }
}

/// Returns the description of a field in `schema`; `None` if `schema` has no description for the field.
///
/// `explained` is the path of the field in the notation of `kubectl explain`. `above` is the path of the field that
/// `schema` describes. `explained` begins with `above`.
pub fn field_description<'a>(schema: &'a Value, explained: &str, above: &str) -> Option<&'a str> {
    let names = explained.strip_prefix(above)?.split('.').filter(|name| !name.is_empty());
    // `explained` contains neither indexes of lists nor keys of maps: after the name of a list comes the name of a
    // field of the list's items. So the closure replaces the schema of a list or map by the schema of its items or
    // values. If that schema has no description, the closure returns the description of the list or map.
    let inner = |mut schema: &'a Value| {
        let mut description = schema["description"].as_str();
        while let Some(below) = ["items", "additionalProperties"].iter().find_map(|word| schema.get(word)) {
            if !below.is_object() {
                break;
            }
            schema = below;
            description = schema["description"].as_str().or(description);
        }
        (schema, description)
    };
    let at = names.fold(inner(schema), |(schema, _), name| inner(&schema["properties"][name]));
    at.1
}

/// Returns the remedy for a required field that is missing: how to set the field.
fn missing(schema: &Value, described: Option<&str>) -> String {
    if let Some(allowed) = schema["enum"].as_array() {
        return format!("set it to one of {}", list(allowed));
    }
    let kind = match schema["type"].as_str() {
        Some("string") => "a string",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        Some("object") => "a map",
        Some("integer" | "number") => return format!("set it to {}{}", number(schema), example(schema, described)),
        _ => return format!("set it{}", example(schema, described)),
    };
    format!("set it to {kind}{}", example(schema, described))
}

/// Returns the first sentence of a field's description, for the end of the remedy: `: The name of a Secret`.
fn example(schema: &Value, described: Option<&str>) -> String {
    let described = schema["description"].as_str().or(described);
    let first = described.map(|text| text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.'));
    first.map(|first| format!(": {}", one_line(first))).unwrap_or_default()
}

/// Joins the lines of a description into one line. Descriptions from doc comments of Rust types contain line breaks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn count(value: &Value) -> usize {
    value.as_array().map_or_else(|| value.as_object().map_or(0, Map::len), Vec::len)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Nulls, validate};
    use super::*;

    fn messages(schema: &Value, value: &Value) -> String {
        let found = validate(schema, value, "f", Nulls::Kept);
        found
            .iter()
            .map(|fault| violation_message(fault, field_description(schema, &fault.explained, "f")))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn describes_values_of_a_wrong_type() {
        let number = json!({"type": "integer", "minimum": 68.0, "maximum": 9216.0});
        let servers = json!({"type": "string", "pattern": "^[0-9.]+(,[0-9.]+)*$"});
        for (schema, value, expected) in [
            (
                json!({"type": "string"}),
                json!(2026.1),
                "2026.1 is a number, but a string is expected; put it in quotes: \"2026.1\"",
            ),
            (
                json!({"type": "string"}),
                json!(false),
                "YAML reads this as false, but a string is expected; put the value in quotes, because unquoted n, no, off and false are booleans",
            ),
            (
                json!({"type": "boolean"}),
                json!("yes"),
                "\"yes\" is a string, but true or false is expected; write true, without quotes",
            ),
            (
                json!({"type": "object", "properties": {"issuer": {}, "secretName": {}}}),
                json!(5),
                "5 is a number, but a map is expected; write key: value below it; the known keys are issuer, secretName",
            ),
            (json!({"type": "array"}), json!("compute"), "found a string, but a list is expected; write [compute]"),
            (
                json!({"type": "object"}),
                json!("password: hunter2"),
                "found a string, but a map is expected; write key: value below it",
            ),
            (
                servers,
                json!(["8.8.8.8", "8.8.4.4"]),
                "found a list, but a string is expected; write \"8.8.8.8,8.8.4.4\"",
            ),
            (
                number.clone(),
                json!("1500"),
                "\"1500\" is a string, but a whole number from 68 to 9216 is expected; write 1500, without quotes",
            ),
            (
                number.clone(),
                json!("99999"),
                "\"99999\" is a string, but a whole number from 68 to 9216 is expected; write a number without quotes",
            ),
            (
                number.clone(),
                json!("abc"),
                "\"abc\" is a string, but a whole number from 68 to 9216 is expected; write a number without quotes",
            ),
            (
                number.clone(),
                json!([1]),
                "found a list, but a whole number from 68 to 9216 is expected; write a number",
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(3.5),
                "3.5 is a number, but a whole number or a string is expected; write a whole number, or a string in quotes",
            ),
            (
                json!({"type": "string", "pattern": "^[a-z]+$"}),
                json!(5),
                "5 is a number, but a string is expected; write a string in quotes",
            ),
            (
                json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}),
                json!("b"),
                "found a string, but a list is expected; write the entries below the key, each after \"- \", or in brackets: [a, b]",
            ),
            (number, json!(99999), "99999 is too large; write a whole number from 68 to 9216"),
        ] {
            assert_eq!(messages(&schema, &value), expected);
        }
    }

    #[test]
    fn describes_missing_fields() {
        let one = json!({"type": "object", "required": ["mode"], "properties": {"mode": {"type": "string", "enum": ["a", "b"]}}});
        assert_eq!(messages(&one, &json!({})), "is required; set it to one of \"a\", \"b\"");
        let name = json!({"type": "string", "description": "The name of a Secret. It is there."});
        let one = json!({"type": "object", "required": ["name"], "properties": {"name": name}});
        assert_eq!(messages(&one, &json!({})), "is required; set it to a string: The name of a Secret");
    }

    #[test]
    fn limits_the_search_for_patterns() {
        let text = |pattern: &str| json!({"type": "string", "pattern": pattern});
        let long = json!("a".repeat(1 << 20));
        let large = "[ab]*a[ab]{400}[^ab]";
        assert_eq!(messages(&text(large), &long), "is too long to compare with the pattern of the field; shorten it");
        let all = json!(vec!["a".repeat(100); 20_000]);
        let unsearched = messages(&json!({"items": text("^[a-z]+$")}), &all);
        assert_eq!(unsearched, "", "a pattern is compiled once, not for each text");
        let unsearched = messages(&json!({"items": text(large)}), &all);
        assert!(
            unsearched.lines().last().unwrap().contains("is too long"),
            "the search steps for all strings of a value count towards one limit"
        );
    }

    #[test]
    fn suggests_near_enum_values() {
        let one = json!({"type": "string", "enum": ["Manual", "Automatic"]});
        assert_eq!(
            messages(&one, &json!("automatic")),
            "\"automatic\" is not one of \"Manual\", \"Automatic\" (did you mean \"Automatic\"?); choose one of them"
        );
    }
}
