//! A value beside what is expected of it.

use serde_json::Value;

use super::case::Expectation;
use crate::above::above;
use osdpl_core::catalog::KeyTree;
use osdpl_core::desired::{DesiredRelease, redacted};
use osdpl_values::expr;
use osdpl_values::{Path, Values, get};

/// A value that something is expected of.
pub struct Asked<'a> {
    /// The release, by the catalogue's name.
    pub name: &'a str,
    pub release: &'a DesiredRelease,
    pub path: &'a Path,
    /// The keys of the release's chart, where they are known.
    pub tree: Option<&'a KeyTree>,
}

/// What holds at a path.
enum Found {
    /// A layer's value. What is null takes the chart's default away: there is nothing.
    Given(Value),
    /// The chart's default.
    Default(Value),
    /// The chart's default, which is longer than what is known of it.
    Long,
    /// Nothing, by all that is known.
    Nothing,
    /// What the chart has, of which nothing is known.
    Unknown,
}

impl Asked<'_> {
    /// How it is another one; `None` where it is as expected.
    pub fn fails(&self, expectation: &Expectation) -> Option<String> {
        let Expectation { equals, at_least, at_most, matches, exists, .. } = expectation;
        let all = self.found();
        let found = match &all {
            Found::Given(value) | Found::Default(value) => Some(value),
            Found::Long | Found::Nothing | Found::Unknown => None,
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
            (text.is_some_and(|text| expr::matches(text, pattern)), format!("a text that matches {pattern:?}"))
        } else {
            let is = found.is_some_and(|value| !value.is_null()) || matches!(all, Found::Long);
            let wanted = exists.unwrap_or(true);
            (is == wanted, if wanted { "a value".to_owned() } else { "none".to_owned() })
        };
        let Self { name, path, .. } = self;
        (!holds).then(|| format!("{name} {path}: expected {expected}, found {}", self.told(&all)))
    }

    /// A layer's value, or else what the chart has by itself.
    fn found(&self) -> Found {
        if let Some(given) = get(&self.release.values, self.path) {
            return Found::Given(given.clone());
        }
        if above(&self.release.values, self.path).is_some() {
            return Found::Nothing;
        }
        let Some(tree) = self.tree else { return Found::Unknown };
        match tree.find(self.path.keys()) {
            Some(own) => own.default().map_or(Found::Long, Found::Default),
            None => Found::Nothing,
        }
    }

    fn told(&self, found: &Found) -> String {
        let DesiredRelease { chart, secret, values, .. } = self.release;
        match found {
            Found::Given(_) if secret.iter().any(|secret| secret.covers(self.path)) => "a secret".to_owned(),
            Found::Given(_) => get(&redacted(values, secret), self.path).map(ToString::to_string).unwrap_or_default(),
            Found::Default(value) => format!("{value} (the default of chart {chart})"),
            Found::Long => format!("the default of chart {chart}, which is not known here as a whole"),
            Found::Nothing => "nothing".to_owned(),
            Found::Unknown => "nothing (what the chart has by itself is not known here)".to_owned(),
        }
    }
}

/// As helm takes them: 1 and 1.0 are one number.
fn is_equal(left: &Value, right: &Value) -> bool {
    let plain = |value: &Value| {
        let mut values = Values::from_iter([(String::new(), value.clone())]);
        osdpl_values::plain_numbers(&mut values);
        values
    };
    plain(left) == plain(right)
}
