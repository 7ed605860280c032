//! Formats explanations as text.

use std::fmt::Write as _;

use serde_json::Value;

use super::explanation::{Chart, Explanation, LayerValue, OnNodes};
use super::service_option::OptionExplanation;
use crate::parent_effect::ParentEffect;
use osdpl_values::yaml;

/// Returns the explanations as text.
pub(crate) fn format(explanations: &[Explanation]) -> String {
    explanations.iter().map(explain_one).collect::<Vec<_>>().join("\n")
}

fn explain_one(explanation: &Explanation) -> String {
    let Explanation { release, path, value, above, layers, nodes, chart, option, .. } = explanation;
    let unset = if nodes.is_empty() { " is set by no layer" } else { " is set only for some nodes" };
    let state = match (value, above) {
        (Some(value), _) => equals(value),
        (None, Some(ParentEffect::Removed)) => {
            " is unset: a layer removes a parent key, and with it the chart's default\n".to_owned()
        }
        (None, Some(ParentEffect::Hidden)) => {
            " is unset: a parent key has a value that is not a map, which also hides the chart's default\n".to_owned()
        }
        (None, None) if chart.has_default == Some(true) => {
            let elsewhere = if nodes.is_empty() { "" } else { " on the other nodes" };
            format!("{unset}: the chart's default applies{elsewhere}\n")
        }
        (None, None) if chart.has_default == Some(false) => format!("{unset}, and has no default\n"),
        (None, None) => format!("{unset}\n"),
    };
    let mut text = format!("{release} {path}{state}");
    let merged = value.as_ref().is_some_and(Value::is_object);
    for (index, value) in layers.iter().enumerate() {
        let word = match (index, merged) {
            (0, _) => "from",
            (_, true) => "over",
            (_, false) => "shadows",
        };
        layer(word, value, index > 0 || merged, &mut text);
    }
    for OnNodes { nodes, layer } in nodes {
        let _ = writeln!(text, "  on nodes {nodes}{}, from {}", describe_value(layer), layer.location);
    }
    let _ = writeln!(text, "  {:<8} {}", "chart", default(chart));
    let lines = option.iter().flat_map(OptionExplanation::lines);
    for (index, line) in lines.enumerate() {
        let (word, indent) = if index == 0 { ("option", "") } else { ("", "  ") };
        let _ = writeln!(text, "  {word:<8} {indent}{line}");
    }
    text
}

fn layer(word: &str, value: &LayerValue, with_value: bool, text: &mut String) {
    let formatted = describe_value(value);
    let suffix = if with_value || value.value.is_none() { formatted } else { String::new() };
    let _ = writeln!(text, "  {word:<8} {}{suffix}", value.location);
    let details = [("by", &value.expression), ("reads", &value.source), ("why", &value.why)];
    for (word, detail) in details.into_iter().filter_map(|(word, detail)| Some((word, detail.as_ref()?))) {
        let _ = writeln!(text, "  {:<8}   {word} {detail}", "");
    }
}

/// Formats the value that a layer sets. The caller appends the result to the layer's location.
fn describe_value(layer: &LayerValue) -> String {
    match &layer.value {
        None => " = a value that is not a map".to_owned(),
        Some(Value::Object(map)) if map.len() == 1 => " with 1 key".to_owned(),
        Some(Value::Object(map)) => format!(" with {} keys", map.len()),
        Some(value) => format!(" = {value}"),
    }
}

fn default(chart: &Chart) -> String {
    let default = match (&chart.default, &chart.outline) {
        (Some(default @ Value::Object(map)), _) if !map.is_empty() => format!(", its default:{}", lines(default)),
        (Some(default), _) => format!(", its default is {default}"),
        (None, Some(outline)) => format!(", its default in outline (--charts shows all of it):{}", lines(outline)),
        (None, None) => String::new(),
    };
    format!("{} {}{default}", chart.name, chart.description)
}

/// The maximum number of lines of a chart's default that the explanation shows.
const LINES: usize = 40;

/// Formats a chart's default as YAML, shortened to `LINES` lines. The returned text begins with a line break, because
/// the caller writes it after a heading.
fn lines(default: &Value) -> String {
    let text = yaml::write(default);
    let mut formatted = String::new();
    for line in text.lines().take(LINES) {
        let _ = write!(formatted, "\n    {line}");
    }
    if let Some(more) = text.lines().count().checked_sub(LINES).filter(|more| *more > 0) {
        let _ = write!(formatted, "\n    … {more} more lines; --output json shows all");
    }
    formatted
}

/// Formats a value as the text after its path: a scalar on the same line, a map or list as YAML on the next lines.
fn equals(value: &Value) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => block(value),
        Value::Array(list) if !list.is_empty() => block(value),
        Value::Null => " = null: removes the chart's default\n".into(),
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
