//! A file of cases.

use anyhow::bail;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::written::{self, Fault};
use osdpl_values::yaml::{self, Located};
use osdpl_values::{Path, Values, merge};

/// A file of cases.
pub struct Suite {
    /// The resource that cases are about that name none of their own; relative to this file.
    pub file: Option<String>,
    /// What is wrong with one concerns no other.
    pub cases: Vec<Result<Case, Wrong>>,
    place: String,
    located: Located,
}

/// A case that can't be read.
#[derive(Debug)]
pub struct Wrong {
    /// Its name, as far as it has one.
    pub name: String,
    /// What is wrong, with its place.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<T> {
    file: Option<String>,
    cases: Vec<T>,
}

/// A cloud, and what is expected of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A sentence that says what holds.
    pub name: String,
    /// The resource's file, relative to that of the cases.
    pub file: Option<String>,
    /// The resource's spec, instead of a file.
    pub spec: Option<Values>,
    /// Presets behind those of the spec.
    #[serde(default)]
    pub presets: Vec<String>,
    /// What is laid over the spec, by helm's rules: maps merge, all else replaces.
    #[serde(default)]
    pub with: Values,
    pub expect: Vec<Expectation>,
}

/// One thing that is expected: exactly one of these beside `release` and `path`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Expectation {
    /// The release, by the catalogue's name.
    pub release: Option<String>,
    /// A path in its values.
    pub path: Option<String>,
    /// The value there, or the chart's default where no layer sets one; null where a layer takes the chart's default away.
    #[serde(deserialize_with = "present")]
    pub equals: Option<Value>,
    /// The least that a number there may be.
    pub at_least: Option<f64>,
    /// The most that a number there may be.
    pub at_most: Option<f64>,
    /// A regular expression that a text there matches.
    pub matches: Option<String>,
    /// Whether there is a value at all, be it the chart's default.
    pub exists: Option<bool>,
    /// A CEL condition over `values`, those of the release, and what the catalogue's expressions see.
    pub holds: Option<String>,
    /// Whether the release is part of the cloud.
    pub wanted: Option<bool>,
    /// A part of what is said of a resource that is refused.
    pub refused: Option<String>,
    /// A part of a warning.
    pub warns: Option<String>,
}

/// Null is a value to be expected.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Suite {
    /// Reads a file of cases.
    pub fn parse(place: &str, text: &str) -> anyhow::Result<Self> {
        let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_empty) {
            bail!("{place}: it is empty; write cases below `cases`, as deploy/tests.yaml has one of each kind");
        }
        if text.lines().any(|line| line.starts_with("apiVersion:")) {
            bail!(
                "{place}: this is an object of Kubernetes, not a file of cases; name the file of cases, and the resource as `file` in it"
            );
        }
        let located: Located = yaml::parse(place, text)?;
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
                    written::case(case, &lines, (begin, end)).map_err(|Fault { below, problem }| Wrong {
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

    /// Whether a case can be judged, and can fail.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn check(&self, index: usize, case: &Case) -> anyhow::Result<()> {
        let place = self.place(index, None);
        match (&case.file, &case.spec) {
            (Some(_), Some(_)) => bail!("{place}: it has both `file` and `spec`; take one out"),
            (None, None) if self.file.is_none() => {
                bail!("{place}: it names no cloud; give it `spec`, or `file` here or for all cases at the top")
            }
            _ => {}
        }
        if case.expect.is_empty() {
            bail!("{place}: nothing is expected, so it can't fail; say what in `expect`");
        }
        let is_refused = case.expect.iter().any(|expectation| expectation.refused.is_some());
        for (number, expectation) in case.expect.iter().enumerate() {
            let place = || self.place(index, Some(number));
            if let Err(problem) = expectation.check() {
                bail!("{}: {problem}", place());
            }
            if is_refused && expectation.release.is_some() {
                bail!(
                    "{}: a cloud that is refused has no releases, so that this can't fail; give it a case of its own without `refused`",
                    place()
                );
            }
        }
        Ok(())
    }

    /// Where a case stands, or one of its expectations: `values.yaml:12`.
    pub fn place(&self, case: usize, expectation: Option<usize>) -> String {
        let case = case.to_string();
        let number = expectation.map(|number| number.to_string());
        let below = number.iter().flat_map(|number| ["expect", number]);
        let line = self.located.nearest(["cases", &case].into_iter().chain(below)).line();
        format!("{}:{line}", self.place)
    }
}

impl Case {
    /// Whether it changes the spec that it is about.
    pub fn changes(&self) -> bool {
        !self.presets.is_empty() || !self.with.is_empty()
    }

    /// The spec with what the case changes.
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
                "it expects {count} things; say one of equals, atLeast, atMost, matches, exists, holds, wanted, refused, warns"
            ));
        }
        let is_of_value = of_value.contains(&true);
        match (release, path) {
            (None, _) if is_of_value || holds.is_some() || wanted.is_some() => {
                return Err("it says of no release; name one with `release`".into());
            }
            (_, None) if is_of_value => return Err("it says of no value; name one with `path`".into()),
            (_, Some(_)) if !is_of_value => return Err("`path` says nothing here; take it out".into()),
            (Some(_), _) if refused.is_some() || warns.is_some() => {
                return Err("`release` says nothing here; take it out".into());
            }
            _ => {}
        }
        if [refused, warns].into_iter().flatten().any(|words| words.trim().is_empty()) {
            return Err("anything that is said holds nothing; write some words of what is expected".into());
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
    fn a_wrong_file_is_told_with_its_line_and_what_to_do() {
        let with = |expectation: &str| format!("cases:\n- name: a\n  spec: {{}}\n  expect:\n  - {expectation}\n");
        for (text, told) in [
            ("cases: []\n".to_owned(), "cases.yaml: there is no case in it; write one below `cases`"),
            (
                "cases:\n- name: a\n  expect: [{refused: x}]\n".to_owned(),
                "cases.yaml:2: it names no cloud; give it `spec`",
            ),
            (
                "cases:\n- name: a\n  file: x\n  spec: {}\n  expect: []\n".to_owned(),
                "cases.yaml:2: it has both `file` and `spec`",
            ),
            ("cases:\n- name: a\n  spec: {}\n  expect: []\n".to_owned(), "cases.yaml:2: nothing is expected"),
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
            (with("{release: a, path: b}"), "cases.yaml:5: it expects 0 things; say one of equals"),
            (with("{release: a, path: b, equals: 1, exists: true}"), "cases.yaml:5: it expects 2 things"),
            (with("{path: b, equals: 1}"), "cases.yaml:5: it says of no release; name one with `release`"),
            (with("{release: a, equals: 1}"), "cases.yaml:5: it says of no value; name one with `path`"),
            (with("{release: a, path: b, wanted: true}"), "cases.yaml:5: `path` says nothing here"),
            (with("{release: a, refused: x}"), "cases.yaml:5: `release` says nothing here"),
            (with("{refused: ''}"), "cases.yaml:5: anything that is said holds nothing; write some words"),
            (with("{warns: ' '}"), "cases.yaml:5: anything that is said holds nothing; write some words"),
            (
                with("{refused: x}\n  - {release: a, wanted: false}"),
                "cases.yaml:6: a cloud that is refused has no releases, so that this can't fail; give it a case",
            ),
            (with("{refused: x}\n  - {warns: y}"), "it is right"),
            (with("{release: a, path: b..c, exists: true}"), "cases.yaml:5: \"b..c\" is no path"),
            (with("{release: a, path: b, equals: null}"), "it is right"),
            (with("{release: a, path: b, matches: '([a'}"), "cases.yaml:5: `matches` is no regular expression: "),
            (with("{release: a, holds: 'a ==='}"), "cases.yaml:5: `a ===` is not a valid CEL expression"),
            ("# nothing\n".to_owned(), "cases.yaml: it is empty; write cases below `cases`"),
            ("apiVersion: v1\n".to_owned(), "cases.yaml: this is an object of Kubernetes, not a file of cases; name"),
        ] {
            let said = problem(&text);
            assert!(said.starts_with(told), "{said}\n{told}");
        }
    }

    #[test]
    fn a_case_changes_the_spec_and_adds_presets_behind_its_own() {
        let text = "cases:\n- name: a\n  spec: {presets: [core], features: {a: {b: 1, c: 2}}}\n  presets: [ha]\n  \
                    with: {features: {a: {b: 3}}}\n  expect: [{refused: x}]\n";
        let suite = Suite::parse("cases.yaml", text).unwrap();
        let case = suite.cases[0].as_ref().unwrap();
        let spec = case.apply(case.spec.clone().unwrap());
        let wanted = serde_json::json!({"presets": ["core", "ha"], "features": {"a": {"b": 3, "c": 2}}});
        assert_eq!(Value::Object(spec), wanted);
    }
}
