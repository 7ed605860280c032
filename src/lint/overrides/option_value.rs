//! Checks whether a service can read the value of an option.
//!
//! The checks follow helm-toolkit's `to_oslo_conf`, which writes values to the configuration file, and the parser of
//! the Python library `oslo.config`, which reads them.

use std::net::IpAddr;

use serde_json::Value;

use osdpl_core::catalog::{OptionType, ServiceOption};
use osdpl_values::{plain_text, print_large_number};

/// The words that oslo.config reads as a boolean.
const BOOLEANS: [&str; 8] = ["true", "1", "on", "yes", "false", "0", "off", "no"];

/// The maximum number of choices that a message lists.
const LISTED: usize = 12;

/// The form in which the value of an option appears in the configuration file.
enum Written {
    /// One line.
    Line(String),
    /// One line for each item of the value (`type: multistring`).
    Lines(Vec<String>),
    /// Nothing: the chart can't write this value to the configuration file.
    Nothing,
}

/// Returns the problem with the value of an option, and the remedy; `None` if the service can read the value.
pub(super) fn find_problem(option: &ServiceOption, value: &Value) -> Option<String> {
    let option_type = option.option_type.unwrap_or(OptionType::Other);
    if option_type == OptionType::Multi && value.as_array().is_some_and(|list| list.len() > 1) {
        return Some(
            "is a list, which the chart joins with commas to one value, but the option takes several values; \
             write {type: multistring, values: [...]}"
                .to_owned(),
        );
    }
    // The chart writes a list with one number like a number.
    let single = value.as_array().filter(|list| list.len() == 1).map_or(value, |list| &list[0]);
    if let (OptionType::Integer | OptionType::Port, Value::Number(number)) = (option_type, single)
        && let Some(printed) = print_large_number(number)
    {
        let digits =
            number.as_f64().filter(|number| number.fract() == 0.0).map_or(number.to_string(), |n| n.to_string());
        return Some(format!(
            "is a large number, which the chart writes as {printed}, so the service fails to read it; write it in quotes: \"{digits}\""
        ));
    }
    let lines = match write(value) {
        Written::Nothing => {
            let forms = "a string, {type: multistring, values: [...]} or {type: csv, values: [...]}";
            return Some(format!("is a map, which the chart can't write to the configuration file; write {forms}"));
        }
        Written::Lines(lines) if lines.len() > 1 && option_type != OptionType::Multi => {
            return Some(
                "has several lines, but the option takes one value and the service reads only the last line; \
                 write a single value, or values separated by commas"
                    .to_owned(),
            );
        }
        Written::Lines(lines) => lines,
        Written::Line(line) => vec![line],
    };
    lines.iter().find_map(|line| check_line(option, option_type, unquoted(line.trim()).trim()))
}

/// Returns what helm-toolkit's `to_oslo_conf` writes for a value.
fn write(value: &Value) -> Written {
    match value {
        Value::Object(map) => match (map.get("type").and_then(Value::as_str), map.get("values")) {
            (Some("multistring"), Some(Value::Array(values))) => {
                Written::Lines(values.iter().map(plain_text).collect())
            }
            // The helm template of `to_oslo_conf` ranges over `values`, so `values` can be a map, too.
            (Some("multistring"), Some(Value::Object(values))) => {
                Written::Lines(values.values().map(plain_text).collect())
            }
            (Some("csv"), Some(Value::Array(values))) => Written::Line(join(values)),
            _ => Written::Nothing,
        },
        Value::Array(list) => Written::Line(join(list)),
        scalar => Written::Line(plain_text(scalar)),
    }
}

fn join(list: &[Value]) -> String {
    list.iter().map(plain_text).collect::<Vec<_>>().join(",")
}

/// Removes the quotes around a value, as oslo.config's parser does.
fn unquoted(line: &str) -> &str {
    let inner = |quote: char| line.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(line)
}

/// Checks one line of the configuration file.
///
/// Accepts lines with helm templates (`{{`), and with references to other options (`$`), because their final content is
/// unknown.
fn check_line(option: &ServiceOption, option_type: OptionType, line: &str) -> Option<String> {
    if line.contains("{{") || line.contains('$') {
        return None;
    }
    let problem = match option_type {
        OptionType::Boolean => (!BOOLEANS.contains(&line.to_lowercase().as_str()))
            .then(|| "is not a boolean, so the service fails to read it; write true or false".to_owned()),
        OptionType::Integer | OptionType::Float | OptionType::Port => check_number(option, option_type, line),
        OptionType::Ip => {
            // oslo.config accepts an IPv6 address with a zone, such as fe80::1%eth0.
            let address = line.split_once('%').map_or(line, |(address, _)| address);
            let is_address = line.is_empty() || address.parse::<IpAddr>().is_ok();
            (!is_address).then(|| "is not an IP address, so the service fails to read it; write an address".to_owned())
        }
        OptionType::String
        | OptionType::List
        | OptionType::Dict
        | OptionType::Multi
        | OptionType::Uri
        | OptionType::Host
        | OptionType::Other => None,
    };
    problem.or_else(|| check_choice(option, option_type, line))
}

/// Checks a number and its bounds. Like oslo.config, the function accepts an empty string, which means no value.
fn check_number(option: &ServiceOption, option_type: OptionType, line: &str) -> Option<String> {
    if line.is_empty() {
        return None;
    }
    let is_float = option_type == OptionType::Float;
    let Some(number) = parse_number(line, is_float) else {
        let noun = if is_float { "number" } else { "whole number" };
        return Some(format!("is not a {noun}, so the service fails to read it; write a {noun}"));
    };
    let is_port = option_type == OptionType::Port;
    let bound = |number: &Option<serde_json::Number>| number.as_ref().and_then(serde_json::Number::as_f64);
    let min = bound(&option.min).or(is_port.then_some(0.0)).filter(|min| number < *min);
    let max = bound(&option.max).or(is_port.then_some(65535.0)).filter(|max| number > *max);
    if let Some(min) = min {
        return Some(format!("is too small, so the service fails to read it; write a number of at least {min}"));
    }
    max.map(|max| format!("is too large, so the service fails to read it; write a number of at most {max}"))
}

/// Parses a number like Python: digits may be separated by single underscores.
fn parse_number(line: &str, is_float: bool) -> Option<f64> {
    let has_stray_underscore = line.starts_with('_') || line.ends_with('_') || line.contains("__");
    let digits = line.replace('_', "");
    let number = digits.parse::<f64>().ok().filter(|_| !has_stray_underscore)?;
    let is_whole = digits.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
    (is_float || is_whole).then_some(number)
}

/// Checks that a value is one of the option's choices. Upper and lower case differ, as in oslo.config.
fn check_choice(option: &ServiceOption, option_type: OptionType, line: &str) -> Option<String> {
    let is_single = matches!(
        option_type,
        OptionType::String | OptionType::Integer | OptionType::Float | OptionType::Port | OptionType::Multi
    );
    let is_listed = |choice: &Value| plain_text(choice) == line || choice.is_null() && line.is_empty();
    if !is_single || option.choices.is_empty() || option.choices.iter().any(is_listed) {
        return None;
    }
    let mut names: Vec<String> = option.choices.iter().filter(|choice| !choice.is_null()).map(plain_text).collect();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!(
        "is not one of the allowed values, so the service fails to read it; choose from {}{more}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests;
