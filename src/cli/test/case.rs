//! Defines the test cases of `osdpl test`. Each case describes a cloud, and the user's expectations of this cloud.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use osdpl_values::expr::{Expression, pattern_error};
use osdpl_values::{Path, Values, merge};

/// A test case: a cloud, and the user's expectations of this cloud.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// A sentence that says what the case expects of the cloud.
    pub name: String,
    /// The path of the file with the `OpenStackDeployment`, relative to the folder that contains the test file.
    pub file: Option<String>,
    /// The spec of the case's cloud, for a case without a file.
    pub spec: Option<Values>,
    /// Presets that osdpl adds after the presets of the spec.
    #[serde(default)]
    pub presets: Vec<String>,
    /// Changes that osdpl makes to the spec before the test. Like helm, osdpl merges maps into the maps of the spec,
    /// and replaces all other values.
    #[serde(default)]
    pub with: Values,
    pub expect: Vec<Expectation>,
}

/// One expectation of a case. It sets exactly one of the fields other than `release` and `path`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Expectation {
    /// The release's name in the catalogue.
    pub release: Option<String>,
    /// A path in the values of the release.
    pub path: Option<String>,
    /// The value that must be at `path`, set by a layer or as the chart's default. Null means that a layer must remove
    /// the chart's default.
    #[serde(deserialize_with = "value_or_null")]
    pub equals: Option<Value>,
    /// The smallest number that the expectation accepts at `path`.
    pub at_least: Option<f64>,
    /// The largest number that the expectation accepts at `path`.
    pub at_most: Option<f64>,
    /// A regular expression that the string at `path` must match.
    pub matches: Option<String>,
    /// Whether there must be a value at `path`, from a layer or as the chart's default.
    pub exists: Option<bool>,
    /// A CEL condition that must be true. It can use the variable `values` (the values of the release), and all
    /// variables of the catalogue's expressions.
    pub holds: Option<String>,
    /// Whether the release must be part of the cloud.
    pub wanted: Option<bool>,
    /// A string that an error about the resource must contain. With this field, the case expects that osdpl refuses the
    /// resource.
    pub refused: Option<String>,
    /// A string that a warning about the resource must contain.
    pub warns: Option<String>,
}

/// Deserializes null as `Some(Value::Null)`. So `equals: null` differs from a missing field, which is `None`.
fn value_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Case {
    /// Whether the case changes the spec, with `presets` or `with`.
    pub(crate) fn changes(&self) -> bool {
        !self.presets.is_empty() || !self.with.is_empty()
    }

    /// Applies the changes of the case to a spec.
    pub(crate) fn apply(&self, mut spec: Values) -> Values {
        merge(&mut spec, self.with.clone());
        if !self.presets.is_empty() {
            let mut all = spec.get("presets").and_then(Value::as_array).cloned().unwrap_or_default();
            all.extend(self.presets.iter().map(|preset| Value::from(preset.as_str())));
            spec.insert("presets".to_owned(), all.into());
        }
        spec
    }
}

impl Expectation {
    /// Checks that each field of the expectation is valid, and that the fields can be used together.
    ///
    /// # Errors
    /// Returns an error if the expectation is invalid. The error describes the problem.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { release, path, equals, at_least, at_most, matches, exists, holds, wanted, refused, warns } = self;
        let about_value =
            [equals.is_some(), at_least.is_some(), at_most.is_some(), matches.is_some(), exists.is_some()];
        let others = [holds.is_some(), wanted.is_some(), refused.is_some(), warns.is_some()];
        let count = about_value.iter().chain(&others).filter(|is_set| **is_set).count();
        if count != 1 {
            return Err(format!(
                "this expectation sets {count} of the following fields; set exactly one: equals, atLeast, atMost, matches, exists, holds, wanted, refused, warns"
            ));
        }
        let is_about_value = about_value.contains(&true);
        match (release, path) {
            (None, _) if is_about_value || holds.is_some() || wanted.is_some() => {
                return Err("this expectation has no release; name one with `release`".into());
            }
            (_, None) if is_about_value => return Err("this expectation has no path; name one with `path`".into()),
            (_, Some(_)) if !is_about_value => return Err("`path` has no effect here; remove it".into()),
            (Some(_), _) if refused.is_some() || warns.is_some() => {
                return Err("`release` has no effect here; remove it".into());
            }
            _ => {}
        }
        if [refused, warns].into_iter().flatten().any(|text| text.trim().is_empty()) {
            return Err("the text is empty, which matches everything; write a part of the expected message".into());
        }
        matches.iter().try_for_each(|text| check_pattern(text))?;
        holds.iter().try_for_each(|text| check_condition(text))?;
        path.iter().try_for_each(|path| Path::parse(path).map(drop).map_err(|error| error.to_string()))
    }
}

/// Checks that a string is a CEL expression.
///
/// # Errors
/// Returns an error that describes the problem if the string is no CEL expression.
fn check_condition(text: &str) -> Result<(), String> {
    Expression::compile(text).map(drop).map_err(|error| error.to_string())
}

/// Checks that a string is a regular expression, and not too large.
///
/// # Errors
/// Returns an error that describes the problem if the string is no regular expression, or too large.
fn check_pattern(text: &str) -> Result<(), String> {
    let Some(problem) = pattern_error(text) else { return Ok(()) };
    Err(format!(
        "`matches` is not a usable regular expression: {problem}; correct it (write \\( or \\[ for a literal bracket)"
    ))
}
