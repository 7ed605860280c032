//! Messages for values that do not have the type that the schema requires.

use serde_json::Value;

use super::format::{KEYS, SHOWN, list, names, number, quote};
use super::{Nulls, validate};

/// Returns the message for a value of a wrong type: which type the value has, which type is expected, and the remedy.
pub(super) fn type_message(expected: &str, value: &Value, schema: &Value) -> String {
    let found = match value {
        Value::Null => "found null".to_owned(),
        Value::Bool(_) => format!("YAML reads this as {value}"),
        Value::Number(_) => format!("{value} is a number"),
        // If the schema expects a map or a list, don't quote a string: it may be a whole YAML block that the user wrote
        // as text, and that contains secrets.
        Value::String(_) if !["array", "object"].contains(&expected) => format!("{} is a string", quote(value)),
        Value::String(_) => "found a string".to_owned(),
        Value::Array(_) => "found a list".to_owned(),
        Value::Object(_) => "found a map".to_owned(),
    };
    let what = match expected {
        "string" => "a string".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" | "number" => number(schema),
        "array" => "a list".to_owned(),
        "object" => "a map".to_owned(),
        _ => "a whole number or a string".to_owned(),
    };
    format!("{found}, but {what} is expected; {}", remedy(expected, value, schema))
}

/// Returns the remedy: what to write instead of the value.
fn remedy(expected: &str, value: &Value, schema: &Value) -> String {
    match (expected, value) {
        ("string", Value::Bool(is)) => {
            let words = if *is { "y, yes, on and true" } else { "n, no, off and false" };
            format!("put the value in quotes, because unquoted {words} are booleans")
        }
        ("string", Value::Number(_)) if accepts(schema, &value.to_string().into()) => {
            format!("put it in quotes: \"{value}\"")
        }
        ("string", Value::Array(items)) if joined_by_commas(items, schema).is_some() => {
            format!("write {:?}", joined_by_commas(items, schema).unwrap_or_default())
        }
        ("string", _) => match schema["enum"].as_array() {
            Some(allowed) => format!("write one of {}", list(allowed)),
            None => "write a string in quotes".to_owned(),
        },
        ("boolean", Value::String(text)) => match parse_boolean_word(text) {
            Some(is) => format!("write {is}, without quotes"),
            None => "write true or false, without quotes".to_owned(),
        },
        ("boolean", _) => "write true or false".to_owned(),
        ("integer" | "number", Value::String(text)) => match text.parse::<i64>() {
            Ok(number) if accepts(schema, &number.into()) => format!("write {text}, without quotes"),
            _ => "write a number without quotes".to_owned(),
        },
        ("integer" | "number", _) => "write a number".to_owned(),
        ("array", Value::String(text)) if is_word(text) && accepts(schema, &vec![value.clone()].into()) => {
            format!("write [{text}]")
        }
        ("array", Value::Object(_)) => "begin each entry with \"- \"".to_owned(),
        ("array", _) => "write the entries below the key, each after \"- \", or in brackets: [a, b]".to_owned(),
        ("object", Value::Array(_)) => "write key: value below it, without \"- \"".to_owned(),
        ("object", _) => match schema["properties"].as_object() {
            Some(known) if known.len() <= KEYS => {
                format!("write key: value below it; the known keys are {}", names(known))
            }
            _ => "write key: value below it".to_owned(),
        },
        _ => "write a whole number, or a string in quotes".to_owned(),
    }
}

/// Whether the schema accepts `intended`, the value that the user probably meant. If not, the message must not suggest
/// this value.
fn accepts(schema: &Value, intended: &Value) -> bool {
    validate(schema, intended, "", Nulls::Kept).is_empty()
}

/// Joins a list with commas, to suggest the string that the schema expects instead of the list.
///
/// Returns `None` if the string is long or does not match the schema's pattern. Also returns `None` if the schema has
/// no pattern, or if an item of the list is not a string.
fn joined_by_commas(items: &[Value], schema: &Value) -> Option<String> {
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let text = texts?.join(",");
    let pattern = schema["pattern"].as_str()?;
    (text.len() <= SHOWN && osdpl_values::expr::matches(&text, pattern)).then_some(text)
}

/// Parses a word such as `yes` or `off` as a boolean; `None` for any other word.
fn parse_boolean_word(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// Whether a string looks like the single entry of a list that the user forgot to write as a list: a short name of
/// letters, digits, `-`, `_` and `.`. If so, the message suggests a list with this entry.
fn is_word(text: &str) -> bool {
    text.len() <= SHOWN / 2 && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}
