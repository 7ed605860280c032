//! Checks node selectors, label keys, label values and DNS names.

use crate::api::{NodeOperator, NodeSelector};

/// Returns the label keys that a node selector names.
pub(super) fn keys(selector: &NodeSelector) -> impl Iterator<Item = &str> {
    let expressions = selector.match_expressions.iter().map(|required| required.key.as_str());
    selector.match_labels.keys().map(String::as_str).chain(expressions)
}

/// Returns why a node selector is invalid; `None` if it is valid.
pub(super) fn bad_selector(selector: &NodeSelector) -> Option<String> {
    if let Some(problem) = keys(selector).find_map(bad_key) {
        return Some(problem);
    }
    if keys(selector).next().is_none() {
        return Some(
            "is empty and would mean every node; name a label, such as matchLabels: {kubernetes.io/os: linux}".into(),
        );
    }
    let values = selector.match_labels.values();
    let values = values.chain(selector.match_expressions.iter().flat_map(|required| &required.values));
    let values = values.filter_map(|value| bad_value(value));
    let operators = selector.match_expressions.iter().filter_map(|required| {
        let takes = matches!(required.operator, NodeOperator::In | NodeOperator::NotIn);
        let (key, operator) = (&required.key, required.operator);
        match (takes, required.values.is_empty()) {
            (true, true) => Some(format!("the operator {operator:?} of key {key} needs `values`; name at least one")),
            (false, false) => {
                Some(format!("the operator {operator:?} of key {key} takes no `values`; leave them out, or use In"))
            }
            _ => None,
        }
    });
    values.chain(operators).next()
}

/// Returns why a label key is invalid; `None` if it is valid. A valid key is a name, or a DNS name, a slash and a name
/// (`k8s.io/apimachinery/pkg/util/validation`).
pub(super) fn bad_key(key: &str) -> Option<String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let fits = !name.is_empty() && is_name(name) && prefix.is_none_or(is_subdomain);
    (!fits).then(|| {
        format!(
            "{key:?} is not a valid label key: it must be a name of at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at each end, optionally after a DNS name and a slash, such as example.org/gpu; correct it"
        )
    })
}

/// Returns why a label value is invalid; `None` if it is valid.
pub(super) fn bad_value(value: &str) -> Option<String> {
    (!is_name(value)).then(|| {
        format!(
            "{value:?} is not a valid label value: it must be empty, or consist of at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at each end; correct it"
        )
    })
}

/// Whether a string is a valid label value, or a valid name in a label key: at most 63 characters, with a letter or
/// digit at each end. The function accepts an empty string, which is valid only as a value.
fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

/// Whether a string is a valid DNS-1123 subdomain, as the name of a node must be
/// (`k8s.io/apimachinery/pkg/util/validation`).
pub(super) fn is_subdomain(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let label = |text: &str| edge(text.chars().next()) && edge(text.chars().last()) && text.chars().all(inner);
    text.len() <= 253 && text.split('.').all(label)
}
