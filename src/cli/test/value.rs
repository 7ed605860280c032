//! Compares a value of a release with an expectation of a test case.

use serde_json::Value;

use super::case::Expectation;
use crate::parent_effect::parent_effect;
use osdpl_core::catalog::KeyTree;
use osdpl_core::desired::{DesiredRelease, redact};
use osdpl_values::expr;
use osdpl_values::{Path, Values, get};

/// A value of a release: what helm would use at one path. `osdpl test` compares this value with an expectation.
pub(crate) struct CheckedValue<'a> {
    /// The release's name in the catalogue.
    pub name: &'a str,
    pub release: &'a DesiredRelease,
    pub path: &'a Path,
    /// The keys and defaults of the release's chart; `None` if the catalogue does not contain them.
    pub tree: Option<&'a KeyTree>,
}

/// The result of the search for a value at a path.
enum Found {
    /// A layer sets this value. The value null means that the layer removes the chart's default.
    Given(Value),
    /// No layer sets a value, so the chart's default applies.
    Default(Value),
    /// No layer sets a value. The chart has a default, but the catalogue's key tree contains only a part of this
    /// default.
    Unlisted,
    /// Neither a layer nor the chart has a value.
    Nothing,
    /// No layer sets a value, and the catalogue does not contain the chart's keys.
    Unknown,
}

impl CheckedValue<'_> {
    /// Describes how the value differs from the expectation; `None` if the value meets the expectation.
    pub(crate) fn failure(&self, expectation: &Expectation) -> Option<String> {
        let Expectation { equals, at_least, at_most, matches, exists, .. } = expectation;
        let all = self.found();
        let found = match &all {
            Found::Given(value) | Found::Default(value) => Some(value),
            Found::Unlisted | Found::Nothing | Found::Unknown => None,
        };
        let number = found.and_then(Value::as_f64);
        let (holds, expected) = if let Some(wanted) = equals {
            (found.is_some_and(|found| is_equal(found, wanted)), wanted.to_string())
        } else if let Some(least) = at_least {
            (number.is_some_and(|number| number >= *least), format!("at least {least}"))
        } else if let Some(most) = at_most {
            (number.is_some_and(|number| number <= *most), format!("at most {most}"))
        } else if let Some(pattern) = matches {
            let text = found.and_then(Value::as_str);
            (text.is_some_and(|text| expr::matches(text, pattern)), format!("a string that matches {pattern:?}"))
        } else {
            let has_value = found.is_some_and(|value| !value.is_null()) || matches!(all, Found::Unlisted);
            let wanted = exists.unwrap_or(true);
            (has_value == wanted, if wanted { "a value".to_owned() } else { "no value".to_owned() })
        };
        let Self { name, path, .. } = self;
        (!holds).then(|| format!("{name} {path}: expected {expected}, found {}", self.describe(&all)))
    }

    /// Returns the value that a layer sets at the path. If no layer sets a value, returns the chart's default.
    fn found(&self) -> Found {
        if let Some(given) = get(&self.release.values, self.path) {
            return Found::Given(given.clone());
        }
        if parent_effect(&self.release.values, self.path).is_some() {
            return Found::Nothing;
        }
        let Some(tree) = self.tree else { return Found::Unknown };
        match tree.find(self.path.keys()) {
            Some(own) => own.default().map_or(Found::Unlisted, Found::Default),
            None => Found::Nothing,
        }
    }

    fn describe(&self, found: &Found) -> String {
        let DesiredRelease { chart, secret, values, .. } = self.release;
        match found {
            Found::Given(_) if secret.iter().any(|secret| secret.covers(self.path)) => "a secret".to_owned(),
            Found::Given(_) => get(&redact(values, secret), self.path).map(ToString::to_string).unwrap_or_default(),
            Found::Default(value) => format!("{value} (the default of chart {chart})"),
            Found::Unlisted => {
                format!("the default of chart {chart}; the catalogue contains only a part of this default")
            }
            Found::Nothing => "nothing".to_owned(),
            Found::Unknown => {
                "no value; the chart may have a default, but the catalogue does not contain the defaults of this chart"
                    .to_owned()
            }
        }
    }
}

/// Whether two values are equal for helm, which treats 1 and 1.0 as the same number.
fn is_equal(left: &Value, right: &Value) -> bool {
    let plain = |value: &Value| {
        let mut values = Values::from_iter([(String::new(), value.clone())]);
        osdpl_values::normalize_numbers(&mut values);
        values
    };
    plain(left) == plain(right)
}
