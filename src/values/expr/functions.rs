//! Defines the functions of expressions that CEL itself does not have.
//!
//! | call | result |
//! |---|---|
//! | `keyed(list, 'name')` | a map of the list's maps by their field `name`, each without that field |
//! | `merge([a, b])` | the maps merged by helm's rules: maps merge, everything else is replaced, nulls are kept |
//! | `list.join(',')` | the strings and integers of the list joined into one string |
//! | `text.split(',')` | the list of parts, trimmed; empty parts are dropped |
//! | `list.toMap()` | the map of a list of pairs, `[['a', 1], ['b', 2]]` |
//! | `text.replace('a', 'b')` | the text with each `a` replaced by `b`, as in CEL's string extension |
//! | `text.isAddress()` | whether the text is an IP address |
//! | `text.isOutside(network)` | whether the address is not in the network, such as `10.0.0.0/24`; false if either is invalid |
//! | `text.isAfter(address)` | whether the address is higher than the other; false if either is invalid |
//! | `text.isJson()` | whether the text is one JSON document |
//! | `text.isNumbers()` | whether the text is a list of numbers below 8192, such as `4-31,^8`, with at least one number |
//! | `text.meets(other)` | whether two lists of numbers, such as `4-31,^8`, have one in common; false if either is invalid |
//! | `sshKey(secret)` | an Ed25519 key pair in OpenSSH's format, derived from the text: a map of `private` and `public` |
//! | `secret(ref)` | the text of key `ref.key` in Secret `ref.name`; the feature's schema must mark `ref` as a reference |
//!
//! CEL lists the entries of a map in no fixed order. If an expression creates a list from a map, the order of the list
//! may change, which restarts pods. Therefore take lists from the spec, and create maps from the lists with `keyed`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cel::extractors::This;
use cel::objects::Key;
use cel::{Context, ExecutionError, FunctionContext, Value};

use super::json::{from_json, to_json};
use super::{network, numbers};

/// The name of the function that reads a Secret.
pub(super) const SECRET: &str = "secret";

/// The texts from Secrets, by the name of the Secret and the key in the Secret.
pub type Secrets = BTreeMap<(String, String), String>;

/// Adds the functions to a context of the CEL interpreter.
pub(super) fn add(context: &mut Context<'_>) {
    context.add_function("join", join);
    context.add_function("split", split);
    context.add_function("toMap", to_map);
    context.add_function("keyed", |items: Arc<Vec<Value>>, field: Arc<String>| keyed(&items, &field));
    context.add_function("replace", replace);
    context.add_function("isAddress", |This(text): This<Arc<String>>| network::is_address(&text));
    context.add_function("isOutside", |This(text): This<Arc<String>>, of: Arc<String>| network::is_outside(&text, &of));
    context
        .add_function("isAfter", |This(text): This<Arc<String>>, other: Arc<String>| network::is_after(&text, &other));
    context.add_function("isJson", |This(text): This<Arc<String>>| is_json(&text));
    context.add_function("isNumbers", |This(text): This<Arc<String>>| numbers::is_number_list(&text));
    context.add_function("meets", |This(one): This<Arc<String>>, other: Arc<String>| {
        numbers::have_common_number(&one, &other)
    });
    context.add_function("sshKey", |secret: Arc<String>| ssh_key(&secret));
    context.add_function("merge", |maps: Arc<Vec<Value>>| merge(&maps));
    context.add_function(SECRET, |call: &FunctionContext<'_, '_>, reference: Value| secret(call.ptx, &reference));
}

/// Returns the name of the variable that contains a text from a Secret.
///
/// No expression can use such a name, because it is not a valid name in CEL.
pub(super) fn secret_variable(name: &str, key: &str) -> String {
    format!("@{SECRET} {name}/{key}")
}

fn keyed(items: &[Value], field: &str) -> Result<Value, ExecutionError> {
    let failed = || {
        ExecutionError::function_error(
            "keyed",
            "an item is not a map with that field, or two items have the same value",
        )
    };
    let mut found: HashMap<String, Value> = HashMap::new();
    for item in items {
        let Value::Map(map) = item else { return Err(failed()) };
        let mut rest = HashMap::clone(&map.map);
        let Some(Value::String(name)) = rest.remove(&Key::from(field)) else { return Err(failed()) };
        if found.insert(name.to_string(), Value::Map(rest.into())).is_some() {
            return Err(failed());
        }
    }
    Ok(Value::Map(found.into()))
}

#[expect(clippy::needless_pass_by_value, reason = "CEL's interpreter passes the arguments by value")]
fn join(This(list): This<Arc<Vec<Value>>>, separator: Arc<String>) -> Result<Value, ExecutionError> {
    let texts = list.iter().map(|item| match item {
        Value::String(text) => Ok(text.to_string()),
        Value::Int(number) => Ok(number.to_string()),
        _ => Err(ExecutionError::function_error("join", "an item is neither a string nor an integer")),
    });
    Ok(Value::String(texts.collect::<Result<Vec<_>, _>>()?.join(separator.as_str()).into()))
}

#[expect(clippy::needless_pass_by_value, reason = "CEL's interpreter passes the arguments by value")]
#[expect(clippy::unnecessary_wraps, reason = "CEL's interpreter takes a `Value` only in a `Result`")]
fn split(This(text): This<Arc<String>>, separator: Arc<String>) -> Result<Value, ExecutionError> {
    let parts = text.split(separator.as_str()).map(str::trim).filter(|part| !part.is_empty());
    Ok(Value::List(Arc::new(parts.map(|part| Value::String(part.to_owned().into())).collect())))
}

fn to_map(This(list): This<Arc<Vec<Value>>>) -> Result<Value, ExecutionError> {
    let failed = || ExecutionError::function_error("toMap", "an item is not a pair of a string and a value");
    let pairs = list.iter().map(|item| {
        let Value::List(pair) = item else { return Err(failed()) };
        let [Value::String(key), value] = pair.as_slice() else { return Err(failed()) };
        Ok((key.to_string(), value.clone()))
    });
    Ok(Value::Map(pairs.collect::<Result<HashMap<String, Value>, _>>()?.into()))
}

#[expect(clippy::needless_pass_by_value, reason = "CEL's interpreter passes the arguments by value")]
fn replace(This(text): This<Arc<String>>, from: Arc<String>, to: Arc<String>) -> String {
    text.replace(from.as_str(), &to)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn ssh_key(secret: &str) -> Result<Value, ExecutionError> {
    let failed = || ExecutionError::function_error("sshKey", "no key can be derived from it");
    let (private, public) = super::ssh::key_pair(secret).ok_or_else(failed)?;
    let pair = [("private", private), ("public", public)];
    let pair = pair.map(|(half, text)| (half.to_owned(), Value::String(text.into())));
    Ok(Value::Map(HashMap::from(pair).into()))
}

fn merge(maps: &[Value]) -> Result<Value, ExecutionError> {
    let failed = || ExecutionError::function_error("merge", "an item is not a map");
    let mut merged = serde_json::Map::new();
    for map in maps {
        let Some(serde_json::Value::Object(map)) = to_json(map.clone()) else { return Err(failed()) };
        crate::merge(&mut merged, map);
    }
    Ok(from_json(&merged.into()))
}

/// Returns a text from a Secret; if the text is missing, the error contains the Secret's name and the key.
fn secret(context: &Context<'_>, reference: &Value) -> Result<Value, ExecutionError> {
    let Value::Map(map) = reference else { return Err(ExecutionError::NoSuchOverload) };
    let text = |field: &str| match map.get(&Key::from(field)) {
        Some(Value::String(text)) => Ok(text.to_string()),
        _ => Err(ExecutionError::no_such_key(field)),
    };
    let (name, key) = (text("name")?, text("key")?);
    match context.get_variable(secret_variable(&name, &key)) {
        Some(text) => text.as_ref().try_into(),
        None => Err(ExecutionError::function_error(SECRET, format!("{name}/{key}"))),
    }
}
