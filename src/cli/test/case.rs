//! A file of cases.

use anyhow::bail;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::written::{self, CaseProblem};
use osdpl_values::yaml::{self, LocatedNode};
use osdpl_values::{Path, Values, merge};

/// A file of cases.
pub struct Suite {
    /// The resource of cases that name none, relative to this file.
    pub file: Option<String>,
    /// The cases; an invalid one does not affect the others.
    pub cases: Vec<Result<Case, InvalidCase>>,
    place: String,
    located: LocatedNode,
}

/// An invalid case.
#[derive(Debug)]
pub struct InvalidCase {
    /// Its name, if it has one.
    pub name: String,
    /// The problem with its place.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<T> {
    file: Option<String>,
    cases: Vec<T>,
}

/// A cloud and the expectations about it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A sentence that describes the expectation.
    pub name: String,
    /// The resource's file, relative to the file of cases.
    pub file: Option<String>,
    /// The resource's spec instead of a file.
    pub spec: Option<Values>,
    /// Presets to append to those of the spec.
    #[serde(default)]
    pub presets: Vec<String>,
    /// Overrides of the spec, by helm's rules: maps merge, everything else is replaced.
    #[serde(default)]
    pub with: Values,
    pub expect: Vec<Expectation>,
}

/// One expectation: exactly one field beside `release` and `path`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Expectation {
    /// The release, by the catalogue's name.
    pub release: Option<String>,
    /// A path in its values.
    pub path: Option<String>,
    /// The value there, or the chart's default if no layer sets one; null if a layer removes the chart's default.
    #[serde(deserialize_with = "present")]
    pub equals: Option<Value>,
    /// The minimum of a number there.
    pub at_least: Option<f64>,
    /// The maximum of a number there.
    pub at_most: Option<f64>,
    /// A regular expression that a text there matches.
    pub matches: Option<String>,
    /// Whether there is a value at all, including the chart's default.
    pub exists: Option<bool>,
    /// A CEL condition over `values`, the values of the release, and the variables of the catalogue's expressions.
    pub holds: Option<String>,
    /// Whether the release is part of the cloud.
    pub wanted: Option<bool>,
    /// A part of an error of a refused resource.
    pub refused: Option<String>,
    /// A part of a warning.
    pub warns: Option<String>,
}

/// Deserializes null as an expected value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Suite {
    /// Parses a file of cases.
    pub fn parse(place: &str, text: &str) -> anyhow::Result<Self> {
        let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_empty) {
            bail!("{place}: it is empty; write cases below `cases` (deploy/tests.yaml has one of each kind)");
        }
        if text.lines().any(|line| line.starts_with("apiVersion:")) {
            bail!(
                "{place}: this is a Kubernetes object, not a file of cases; name the file of cases, and the resource as `file` in it"
            );
        }
        let located = LocatedNode::parse(place, text)?;
        let (file, cases) = match yaml::parse::<Written<Case>>(place, text) {
            Ok(Written { file, cases }) => (file, cases.into_iter().map(Ok).collect()),
            Err(error) => {
                let Written { file, cases } = yaml::parse::<Written<Value>>(place, text).map_err(|_| error)?;
                let lines: Vec<&str> = text.lines().collect();
                let line = |index: usize, below: &[String]| {
                    let index = index.to_string();
                    let keys = ["cases", &index].into_iter().chain(below.iter().map(String::as_str));
                    located.nearest(keys).line()
                };
                let read = |(index, case): (usize, &Value)| {
                    let begin = line(index, &[]);
                    let end = if index + 1 < cases.len() { line(index + 1, &[]) } else { u64::MAX };
                    written::case(case, &lines, (begin, end)).map_err(|CaseProblem { below, problem }| InvalidCase {
                        name: case["name"].as_str().unwrap_or_default().to_owned(),
                        problem: format!("{place}:{}: {problem}", line(index, &below)),
                    })
                };
                (file, cases.iter().enumerate().map(read).collect::<Vec<_>>())
            }
        };
        if cases.is_empty() {
            bail!("{place}: there is no case in it; write one below `cases`");
        }
        Ok(Self { file, cases, place: place.to_owned(), located })
    }

    /// Checks that a case can be evaluated and can fail.
    ///
    /// # Errors
    /// Describes the problem with its place.
    pub fn check(&self, index: usize, case: &Case) -> anyhow::Result<()> {
        let place = self.place(index, None);
        match (&case.file, &case.spec) {
            (Some(_), Some(_)) => bail!("{place}: it has both `file` and `spec`; take one out"),
            (None, None) if self.file.is_none() => {
                bail!("{place}: it names no cloud; add `spec`, or `file` here or for all cases at the top")
            }
            _ => {}
        }
        if case.expect.is_empty() {
            bail!("{place}: it expects nothing, so it can't fail; add expectations in `expect`");
        }
        let is_refused = case.expect.iter().any(|expectation| expectation.refused.is_some());
        for (number, expectation) in case.expect.iter().enumerate() {
            let place = || self.place(index, Some(number));
            if let Err(problem) = expectation.check() {
                bail!("{}: {problem}", place());
            }
            if is_refused && expectation.release.is_some() {
                bail!(
                    "{}: a refused cloud has no releases, so this can't fail; give it a case of its own without `refused`",
                    place()
                );
            }
        }
        Ok(())
    }

    /// Returns the place of a case, or of one of its expectations: `values.yaml:12`.
    pub fn place(&self, case: usize, expectation: Option<usize>) -> String {
        let case = case.to_string();
        let number = expectation.map(|number| number.to_string());
        let below = number.iter().flat_map(|number| ["expect", number]);
        let line = self.located.nearest(["cases", &case].into_iter().chain(below)).line();
        format!("{}:{line}", self.place)
    }
}

impl Case {
    /// Whether it changes the spec of its resource.
    pub fn changes(&self) -> bool {
        !self.presets.is_empty() || !self.with.is_empty()
    }

    /// Applies the changes of the case to a spec.
    pub fn apply(&self, mut spec: Values) -> Values {
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
    fn check(&self) -> Result<(), String> {
        let Self { release, path, equals, at_least, at_most, matches, exists, holds, wanted, refused, warns } = self;
        let of_value = [equals.is_some(), at_least.is_some(), at_most.is_some(), matches.is_some(), exists.is_some()];
        let others = [holds.is_some(), wanted.is_some(), refused.is_some(), warns.is_some()];
        let count = of_value.iter().chain(&others).filter(|is| **is).count();
        if count != 1 {
            return Err(format!(
                "it has {count} expectations; use exactly one of equals, atLeast, atMost, matches, exists, holds, wanted, refused, warns"
            ));
        }
        let is_of_value = of_value.contains(&true);
        match (release, path) {
            (None, _) if is_of_value || holds.is_some() || wanted.is_some() => {
                return Err("it has no release; name one with `release`".into());
            }
            (_, None) if is_of_value => return Err("it has no path; name one with `path`".into()),
            (_, Some(_)) if !is_of_value => return Err("`path` has no effect here; take it out".into()),
            (Some(_), _) if refused.is_some() || warns.is_some() => {
                return Err("`release` has no effect here; take it out".into());
            }
            _ => {}
        }
        if [refused, warns].into_iter().flatten().any(|text| text.trim().is_empty()) {
            return Err("the text is empty, which matches everything; write a part of the expected message".into());
        }
        matches.iter().try_for_each(|text| written::pattern(text))?;
        holds.iter().try_for_each(|text| written::condition(text))?;
        path.iter().try_for_each(|path| Path::parse(path).map(drop).map_err(|error| error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let checked = Suite::parse("cases.yaml", text).and_then(|suite| {
            suite.cases.iter().enumerate().try_for_each(|(index, case)| match case {
                Ok(case) => suite.check(index, case),
                Err(wrong) => Err(anyhow::anyhow!(wrong.problem.clone())),
            })
        });
        checked.err().map_or_else(|| "it is right".to_owned(), |error| format!("{error:#}"))
    }

    #[test]
    fn explains_invalid_files_with_their_lines() {
        let with = |expectation: &str| format!("cases:\n- name: a\n  spec: {{}}\n  expect:\n  - {expectation}\n");
        for (text, expected) in [
            ("cases: []\n".to_owned(), "cases.yaml: there is no case in it; write one below `cases`"),
            ("cases:\n- name: a\n  expect: [{refused: x}]\n".to_owned(), "cases.yaml:2: it names no cloud; add `spec`"),
            (
                "cases:\n- name: a\n  file: x\n  spec: {}\n  expect: []\n".to_owned(),
                "cases.yaml:2: it has both `file` and `spec`",
            ),
            ("cases:\n- name: a\n  spec: {}\n  expect: []\n".to_owned(), "cases.yaml:2: it expects nothing"),
            (
                "cases:\n- name: a\n  sepc: {}\n".to_owned(),
                "cases.yaml:3: there is no field `sepc`, did you mean \"spec\"?",
            ),
            ("cases:\n- name: a\n  spec: 1\n  expect: []\n".to_owned(), "cases.yaml:3: `spec` takes a map"),
            (with("{release: a, path: b,\n     atLeast: x}"), "cases.yaml:6: `atLeast` takes a number; correct it"),
            (
                with("{release: a, path: b, atleast: 1}"),
                "cases.yaml:5: there is no field `atleast`, did you mean \"atLeast\"?",
            ),
            (with("{warns: y}\n- nmae: b"), "cases.yaml:6: there is no field `nmae`, did you mean \"name\"?"),
            (with("{release: a, wanted: 7}"), "cases.yaml:5: `wanted` takes true or false"),
            (with("{release: a, path: b}"), "cases.yaml:5: it has 0 expectations; use exactly one of equals"),
            (with("{release: a, path: b, equals: 1, exists: true}"), "cases.yaml:5: it has 2 expectations"),
            (with("{path: b, equals: 1}"), "cases.yaml:5: it has no release; name one with `release`"),
            (with("{release: a, equals: 1}"), "cases.yaml:5: it has no path; name one with `path`"),
            (with("{release: a, path: b, wanted: true}"), "cases.yaml:5: `path` has no effect here"),
            (with("{release: a, refused: x}"), "cases.yaml:5: `release` has no effect here"),
            (with("{refused: ''}"), "cases.yaml:5: the text is empty, which matches everything; write a part"),
            (with("{warns: ' '}"), "cases.yaml:5: the text is empty, which matches everything; write a part"),
            (
                with("{refused: x}\n  - {release: a, wanted: false}"),
                "cases.yaml:6: a refused cloud has no releases, so this can't fail; give it a case",
            ),
            (with("{refused: x}\n  - {warns: y}"), "it is right"),
            (with("{release: a, path: b..c, exists: true}"), "cases.yaml:5: \"b..c\" is not a valid path"),
            (with("{release: a, path: b, equals: null}"), "it is right"),
            (with("{release: a, path: b, matches: '([a'}"), "cases.yaml:5: `matches` is not a regular expression: "),
            (with("{release: a, holds: 'a ==='}"), "cases.yaml:5: `a ===` is not a valid CEL expression"),
            ("# nothing\n".to_owned(), "cases.yaml: it is empty; write cases below `cases`"),
            ("apiVersion: v1\n".to_owned(), "cases.yaml: this is a Kubernetes object, not a file of cases; name"),
        ] {
            let found = problem(&text);
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }

    #[test]
    fn applies_changes_and_appends_presets() {
        let text = "cases:\n- name: a\n  spec: {presets: [core], features: {a: {b: 1, c: 2}}}\n  presets: [ha]\n  \
                    with: {features: {a: {b: 3}}}\n  expect: [{refused: x}]\n";
        let suite = Suite::parse("cases.yaml", text).unwrap();
        let case = suite.cases[0].as_ref().unwrap();
        let spec = case.apply(case.spec.clone().unwrap());
        let wanted = serde_json::json!({"presets": ["core", "ha"], "features": {"a": {"b": 3, "c": 2}}});
        assert_eq!(Value::Object(spec), wanted);
    }
}
