//! A value of another type than its schema's, in our words.

use serde_json::Value;

use super::words::{KEYS, SHOWN, list, names, number, repeated};
use super::{Nulls, faults};

/// What stands there, what is wanted, and what to write.
pub(super) fn mistyped(wanted: &str, value: &Value, schema: &Value) -> String {
    let stands = match value {
        Value::Null => "nothing stands here".to_owned(),
        Value::Bool(_) => format!("this is {value} to YAML"),
        Value::Number(_) => format!("{value} is a number"),
        // Under a key that takes more than a text a whole block of secrets may stand.
        Value::String(_) if !["array", "object"].contains(&wanted) => format!("{} is a text", repeated(value)),
        Value::String(_) => "a text stands here".to_owned(),
        Value::Array(_) => "a list stands here".to_owned(),
        Value::Object(_) => "a map stands here".to_owned(),
    };
    let what = match wanted {
        "string" => "a text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" | "number" => number(schema),
        "array" => "a list".to_owned(),
        "object" => "a map".to_owned(),
        _ => "a whole number or a text".to_owned(),
    };
    format!("{stands}, and {what} is wanted; {}", instead(wanted, value, schema))
}

/// What to write instead of what is of another type.
fn instead(wanted: &str, value: &Value, schema: &Value) -> String {
    match (wanted, value) {
        ("string", Value::Bool(is)) => {
            let words = if *is { "y, yes, on and true" } else { "n, no, off and false" };
            format!("YAML reads {words} so where they stand without quotes: put in quotes what is meant")
        }
        ("string", Value::Number(_)) if takes(schema, &value.to_string().into()) => {
            format!("put it in quotes: \"{value}\"")
        }
        ("string", Value::Array(items)) if joined(items, schema).is_some() => {
            format!("write {:?}", joined(items, schema).unwrap_or_default())
        }
        ("string", _) => match schema["enum"].as_array() {
            Some(allowed) => format!("write one of {}", list(allowed)),
            None => "write one, in quotes".to_owned(),
        },
        ("boolean", Value::String(text)) => match meant(text) {
            Some(is) => format!("write {is}, without quotes"),
            None => "write one of the two, without quotes".to_owned(),
        },
        ("boolean", _) => "write one of the two".to_owned(),
        ("integer" | "number", Value::String(text)) => match text.parse::<i64>() {
            Ok(number) if takes(schema, &number.into()) => format!("write {text}, without quotes"),
            _ => "write one, without quotes".to_owned(),
        },
        ("integer" | "number", _) => "write one".to_owned(),
        ("array", Value::String(text)) if is_word(text) && takes(schema, &vec![value.clone()].into()) => {
            format!("write [{text}]")
        }
        ("array", Value::Object(_)) => "begin each entry with \"- \"".to_owned(),
        ("array", _) => "write its entries below it, each behind \"- \", or in brackets: [a, b]".to_owned(),
        ("object", Value::Array(_)) => "write key: value below it, without \"- \"".to_owned(),
        ("object", _) => match schema["properties"].as_object() {
            Some(known) if known.len() <= KEYS => format!("write key: value below it; its keys are {}", names(known)),
            _ => "write key: value below it".to_owned(),
        },
        _ => "write a whole number, or a text in quotes".to_owned(),
    }
}

/// Whether the schema has nothing against what a value was most likely meant as.
fn takes(schema: &Value, meant: &Value) -> bool {
    faults(schema, meant, "", Nulls::Kept).is_empty()
}

/// The one text that a list of texts may have been meant as, where its pattern takes them with commas.
fn joined(items: &[Value], schema: &Value) -> Option<String> {
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let text = texts?.join(",");
    let pattern = schema["pattern"].as_str()?;
    (text.len() <= SHOWN && osdpl_values::expr::matches(&text, pattern)).then_some(text)
}

/// The boolean that a text was meant as.
pub fn meant(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// Whether a text is a plain name.
fn is_word(text: &str) -> bool {
    text.len() <= SHOWN / 2 && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}
