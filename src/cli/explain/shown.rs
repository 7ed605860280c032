//! Where a value comes from, for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::above::Above;
use super::answer::{Answer, Chart, OnNodes, Said};
use osdpl_values::yaml;

/// The answers as text.
pub fn text(answers: &[Answer]) -> String {
    answers.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(answer: &Answer) -> String {
    let Answer { release, path, value, above, layers, nodes, chart } = answer;
    let nobody = if nodes.is_empty() { " is set by no layer" } else { " is set for some nodes alone" };
    let what = match (value, above) {
        (Some(value), _) => equals(value),
        (None, Some(Above::Removed)) => " is removed with what is above it, and the chart's default too\n".to_owned(),
        (None, Some(Above::Hidden)) => " is hidden by what is set above it, and the chart's default too\n".to_owned(),
        (None, None) if chart.has_default == Some(true) => {
            let elsewhere = if nodes.is_empty() { "" } else { " on the others" };
            format!("{nobody}: the chart's default holds{elsewhere}\n")
        }
        (None, None) if chart.has_default == Some(false) => format!("{nobody}, and has no default\n"),
        (None, None) => format!("{nobody}\n"),
    };
    let mut text = format!("{release} {path}{what}");
    let merged = value.as_ref().is_some_and(Value::is_object);
    for (index, said) in layers.iter().enumerate() {
        let word = match (index, merged) {
            (0, _) => "from",
            (_, true) => "over",
            (_, false) => "shadows",
        };
        layer(word, said, index > 0 || merged, &mut text);
    }
    for OnNodes { nodes, said } in nodes {
        let _ = writeln!(text, "  on nodes {nodes}{}, from {}", valued(said), said.place);
    }
    let _ = writeln!(text, "  {:<8} {}", "chart", default(chart));
    text
}

fn layer(word: &str, said: &Said, with_value: bool, text: &mut String) {
    let value = if with_value || said.value.is_none() { valued(said) } else { String::new() };
    let _ = writeln!(text, "  {word:<8} {}{value}", said.place);
    let more = [("by", &said.expression), ("of", &said.source), ("why", &said.why)];
    for (word, said) in more.into_iter().filter_map(|(word, said)| Some((word, said.as_ref()?))) {
        let _ = writeln!(text, "  {:<8}   {word} {said}", "");
    }
}

/// What a layer sets, behind its place.
fn valued(said: &Said) -> String {
    match &said.value {
        None => " = something that is no map".to_owned(),
        Some(Value::Object(map)) if map.len() == 1 => " with 1 key".to_owned(),
        Some(Value::Object(map)) => format!(" with {} keys", map.len()),
        Some(value) => format!(" = {value}"),
    }
}

fn default(chart: &Chart) -> String {
    let default = match (&chart.default, &chart.outline) {
        (Some(default @ Value::Object(map)), _) if !map.is_empty() => format!(", its default:{}", lines(default)),
        (Some(default), _) => format!(", its default is {default}"),
        (None, Some(outline)) => format!(", its default in outline (--charts shows it whole):{}", lines(outline)),
        (None, None) => String::new(),
    };
    format!("{} {}{default}", chart.name, chart.said)
}

/// How many lines of a map are shown.
const LINES: usize = 40;

/// A map or list stands below.
fn lines(default: &Value) -> String {
    let text = yaml::write(default);
    let mut shown = String::new();
    for line in text.lines().take(LINES) {
        let _ = write!(shown, "\n    {line}");
    }
    if let Some(more) = text.lines().count().checked_sub(LINES).filter(|more| *more > 0) {
        let _ = write!(shown, "\n    … {more} more lines, which --output json has");
    }
    shown
}

/// A map or list stands below.
fn equals(value: &Value) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => block(value),
        Value::Array(list) if !list.is_empty() => block(value),
        Value::Null => " = null: the chart's default is removed\n".into(),
        scalar => format!(" = {scalar}\n"),
    }
}

fn block(value: &Value) -> String {
    let mut text = " =\n".to_owned();
    for line in yaml::write(value).lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}
