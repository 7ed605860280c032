//! Defines the functions that an expression can call: CEL's own functions, and these functions of osdpl:
//!
//! | call | result |
//! |---|---|
//! | `keyed(list, 'name')` | a map of the list's items by their field `name`, each item without that field |
//! | `merge([a, b])` | helm's merge of `b` over `a`: combines maps, replaces all other values; keeps nulls |
//! | `list.join(',')` | the strings and integers of the list joined into one string |
//! | `text.split(',')` | the list of the parts between commas, each trimmed, without empty parts |
//! | `list.toMap()` | a map made of a list of pairs such as `[['a', 1], ['b', 2]]` |
//! | `text.replace('a', 'b')` | the text with each `a` replaced by `b`, as in CEL's string extension |
//! | `text.isAddress()` | whether the text is an IP address |
//! | `text.isOutside(network)` | whether the address `text` is outside of a network; false if either is invalid |
//! | `text.isAfter(address)` | whether the address `text` is higher than `address`; false if either is invalid |
//! | `text.isJson()` | whether the text is one JSON document |
//! | `text.isNumbers()` | whether the text is a non-empty list of numbers below 8192, such as `4-31,^8` |
//! | `text.meets(other)` | whether two lists such as `4-31,^8` have a number in common; false if either is invalid |
//! | `sshKey(secret)` | an Ed25519 key pair in OpenSSH's format, made from a string: a map of `private` and `public` |
//! | `secret(ref)` | value of key `ref.key` in Secret `ref.name`; a feature's schema must mark `ref` as a reference |
//!
//! Each function first counts the work that its call needs ([`super::budget`]), and only then does the work.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::evaluation::{Evaluation, size};
use super::failure::Failure;
use super::operators::Numeric;
use super::pattern::Pattern;
use super::{network, numbers};

/// The name of the function that reads a Secret.
pub(super) const SECRET: &str = "secret";

type Result<T> = std::result::Result<T, Failure>;

/// Calls the function `name`. A method call such as `text.size()` and a call such as `size(text)` have the same
/// arguments, `[text]`.
pub(super) fn call(evaluation: &mut Evaluation, name: &str, arguments: &[Cow<Value>]) -> Result<Value> {
    use Value::{Array, Number, Object, String};
    evaluation.budget.step(arguments.len())?;
    let arguments: Vec<&Value> = arguments.iter().map(AsRef::as_ref).collect();
    if let [String(text), rest @ ..] = arguments.as_slice() {
        evaluation.budget.read(text.len())?;
        let rest = rest.iter().map(|argument| argument.as_str()).collect::<Option<Vec<_>>>();
        if let Some(result) = rest.map(|rest| of_texts(evaluation, name, text, &rest)).transpose()?.flatten() {
            return Ok(result);
        }
    }
    Ok(match (name, arguments.as_slice()) {
        ("size", [Array(items)]) => items.len().into(),
        ("size", [Object(map)]) => map.len().into(),
        ("contains", [Array(items), value]) => evaluation.contains(items, value)?.into(),
        ("contains", [Object(map), String(key)]) => evaluation.has_key(map, key)?.into(),
        ("max", arguments) => extreme(evaluation, arguments, std::cmp::Ordering::is_gt)?,
        ("min", arguments) => extreme(evaluation, arguments, std::cmp::Ordering::is_lt)?,
        ("string", [Number(number)]) => match Numeric::of(number) {
            Numeric::Double(number) => number.to_string().into(),
            _ => number.to_string().into(),
        },
        ("int" | "uint" | "double", [Number(number)]) => convert(name, number)?,
        ("join", [Array(items), String(separator)]) => join(evaluation, items, separator)?,
        ("toMap", [Array(pairs)]) => to_map(evaluation, pairs)?,
        ("keyed", [Array(items), String(field)]) => keyed(evaluation, items, field)?,
        ("merge", [Array(maps)]) => merge(evaluation, maps)?,
        (SECRET, [reference]) => secret(evaluation, reference)?,
        (name, _) if NAMES.contains(&name) => return Err(Failure::Types),
        (name, _) => return Err(Failure::Undeclared(name.to_owned())),
    })
}

/// The names of all functions. With them, [`call`] distinguishes a call with arguments of wrong types from a call of an
/// unknown function.
const NAMES: [&str; 25] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "max",
    "min",
    "string",
    "int",
    "uint",
    "double",
    "join",
    "split",
    "toMap",
    "keyed",
    "merge",
    "replace",
    "isAddress",
    "isOutside",
    "isAfter",
    "isJson",
    "isNumbers",
    "meets",
    "sshKey",
    SECRET,
];

/// Calls the function `name` with arguments that are all strings. Returns `None` if no function with this name takes
/// such arguments.
fn of_texts(evaluation: &mut Evaluation, name: &str, text: &str, rest: &[&str]) -> Result<Option<Value>> {
    for text in rest {
        evaluation.budget.read(text.len())?;
    }
    Ok(Some(match (name, rest) {
        ("size", []) => text.len().into(),
        ("string", []) => copy(evaluation, text)?,
        ("int", []) => text.parse::<i64>().map_err(|_| Failure::Function("int"))?.into(),
        ("uint", []) => text.parse::<u64>().map_err(|_| Failure::Function("uint"))?.into(),
        ("double", []) => text.parse::<f64>().map_err(|_| Failure::Function("double"))?.into(),
        ("contains", [part]) => text.contains(part).into(),
        ("startsWith", [part]) => text.starts_with(part).into(),
        ("endsWith", [part]) => text.ends_with(part).into(),
        ("matches", [pattern]) => {
            evaluation.budget.step(Pattern::compile_steps(pattern))?;
            let pattern = Pattern::compile(pattern).map_err(|_| Failure::Function("matches"))?;
            evaluation.budget.step(pattern.search_steps(text))?;
            pattern.is_match(text).into()
        }
        ("split", [separator]) => split(evaluation, text, separator)?,
        ("replace", [from, to]) => replace(evaluation, text, from, to)?,
        ("isAddress", []) => network::is_address(text).into(),
        ("isOutside", [of]) => network::is_outside(text, of).into(),
        ("isAfter", [other]) => network::is_after(text, other).into(),
        ("isJson", []) => serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok().into(),
        ("isNumbers", []) => {
            evaluation.budget.step(numbers::steps(text))?;
            numbers::is_number_list(text).into()
        }
        ("meets", [other]) => {
            evaluation.budget.step(numbers::steps(text) + numbers::steps(other))?;
            numbers::have_common_number(text, other).into()
        }
        ("sshKey", []) => ssh_key(evaluation, text)?,
        _ => return Ok(None),
    }))
}

fn copy(evaluation: &mut Evaluation, text: &str) -> Result<Value> {
    evaluation.budget.create(text.len())?;
    Ok(text.into())
}

fn extreme(
    evaluation: &mut Evaluation,
    arguments: &[&Value],
    is_better: fn(std::cmp::Ordering) -> bool,
) -> Result<Value> {
    let items: Vec<&Value> = match arguments {
        [Value::Array(items)] => items.iter().collect(),
        arguments => arguments.to_vec(),
    };
    evaluation.budget.step(items.len())?;
    let Some((first, rest)) = items.split_first() else { return Ok(Value::Null) };
    let mut best = *first;
    for item in rest {
        if !is_better(evaluation.compare(best, item)?) {
            best = item;
        }
    }
    evaluation.own(Cow::Borrowed(best))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the ranges are checked")]
#[expect(clippy::cast_precision_loss, reason = "CEL converts numbers like this")]
fn convert(name: &str, number: &serde_json::Number) -> Result<Value> {
    let number = Numeric::of(number);
    let value = match (name, number) {
        ("double", number) => Some(number.double().into()),
        ("int", Numeric::Int(number)) => Some(number.into()),
        ("int", Numeric::Double(number)) if number.abs() < i64::MAX as f64 => Some((number as i64).into()),
        ("uint", Numeric::Int(number)) => u64::try_from(number).ok().map(Value::from),
        ("uint", Numeric::Uint(number)) => Some(number.into()),
        ("uint", Numeric::Double(number)) if number >= 0.0 && number < u64::MAX as f64 => Some((number as u64).into()),
        _ => None,
    };
    value.ok_or(Failure::Arithmetic)
}

fn keyed(evaluation: &mut Evaluation, items: &[Value], field: &str) -> Result<Value> {
    let mut found = Map::new();
    for item in items {
        evaluation.budget.create(size(item))?;
        let Value::Object(mut rest) = item.clone() else { return Err(Failure::Function("keyed")) };
        let Some(Value::String(name)) = rest.remove(field) else { return Err(Failure::Function("keyed")) };
        if found.insert(name, rest.into()).is_some() {
            return Err(Failure::Function("keyed"));
        }
    }
    Ok(found.into())
}

fn join(evaluation: &mut Evaluation, items: &[Value], separator: &str) -> Result<Value> {
    let mut joined = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            evaluation.budget.create(separator.len())?;
            joined.push_str(separator);
        }
        match item {
            Value::String(text) => {
                evaluation.budget.create(text.len())?;
                joined.push_str(text);
            }
            Value::Number(number) if !number.is_f64() => joined.push_str(&number.to_string()),
            _ => return Err(Failure::Function("join")),
        }
        evaluation.budget.step(1)?;
    }
    Ok(joined.into())
}

fn split(evaluation: &mut Evaluation, text: &str, separator: &str) -> Result<Value> {
    let mut parts = Vec::new();
    for part in text.split(separator).map(str::trim).filter(|part| !part.is_empty()) {
        evaluation.budget.create(size_of::<Value>() + part.len())?;
        parts.push(part.into());
    }
    Ok(Value::Array(parts))
}

fn replace(evaluation: &mut Evaluation, text: &str, from: &str, to: &str) -> Result<Value> {
    let count = text.matches(from).count();
    evaluation.budget.create(text.len().saturating_add(count.saturating_mul(to.len())))?;
    Ok(text.replace(from, to).into())
}

fn to_map(evaluation: &mut Evaluation, pairs: &[Value]) -> Result<Value> {
    let mut map = Map::new();
    for pair in pairs {
        let Some([Value::String(key), value]) = pair.as_array().map(Vec::as_slice) else {
            return Err(Failure::Function("toMap"));
        };
        evaluation.budget.create(64 + key.len() + size(value))?;
        map.insert(key.clone(), value.clone());
    }
    Ok(map.into())
}

fn ssh_key(evaluation: &mut Evaluation, secret: &str) -> Result<Value> {
    // Deriving an SSH key pair takes about as long as 2000 steps of an evaluation.
    evaluation.budget.step(2000)?;
    let (private, public) = super::ssh::key_pair(secret).ok_or(Failure::Function("sshKey"))?;
    Ok(serde_json::json!({"private": private, "public": public}))
}

fn merge(evaluation: &mut Evaluation, maps: &[Value]) -> Result<Value> {
    let mut merged = Map::new();
    for map in maps {
        evaluation.budget.create(size(map))?;
        let Value::Object(map) = map.clone() else { return Err(Failure::Function("merge")) };
        crate::merge(&mut merged, map);
    }
    Ok(merged.into())
}

fn secret(evaluation: &mut Evaluation, reference: &Value) -> Result<Value> {
    let Value::Object(map) = reference else { return Err(Failure::Types) };
    let text = |field: &str| match map.get(field) {
        Some(Value::String(text)) => Ok(text.as_str()),
        _ => Err(Failure::Reference(field.to_owned())),
    };
    let (name, key) = (text("name")?, text("key")?);
    evaluation.budget.create(name.len() + key.len())?;
    match evaluation.scope.secret(name, key) {
        Some(text) => copy(evaluation, text),
        None => Err(Failure::Secret { name: name.to_owned(), key: key.to_owned() }),
    }
}
