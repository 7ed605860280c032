//! Converts between JSON and the values of CEL.

use serde_json::Value;

/// Converts JSON to a CEL value.
///
/// Whole numbers become CEL's `int`, or `uint` if they are too large for `int`. So they equal the whole numbers that an
/// expression contains.
pub(super) fn from_json(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(number) => {
            let whole = number.as_i64().map(cel::Value::Int).or_else(|| number.as_u64().map(cel::Value::UInt));
            whole.unwrap_or_else(|| cel::Value::Float(number.as_f64().unwrap_or(f64::MAX)))
        }
        Value::String(text) => cel::Value::String(text.clone().into()),
        Value::Array(items) => cel::Value::List(items.iter().map(from_json).collect::<Vec<_>>().into()),
        Value::Object(map) => {
            let map: std::collections::HashMap<String, cel::Value> =
                map.iter().map(|(key, value)| (key.clone(), from_json(value))).collect();
            cel::Value::Map(map.into())
        }
    }
}

/// Converts a value of CEL to JSON; `None` if JSON has no type for the value.
pub(super) fn to_json(value: cel::Value) -> Option<Value> {
    Some(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(flag) => flag.into(),
        cel::Value::Int(number) => number.into(),
        cel::Value::UInt(number) => number.into(),
        cel::Value::Float(number) => number.into(),
        cel::Value::String(text) => text.as_str().into(),
        cel::Value::List(items) => items.iter().cloned().map(to_json).collect::<Option<Vec<_>>>()?.into(),
        cel::Value::Map(map) => {
            let pairs = map.map.iter().map(|(key, value)| Some((key.to_string(), to_json(value.clone())?)));
            Value::Object(pairs.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
