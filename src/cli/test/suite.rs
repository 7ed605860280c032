//! Parses a file of test cases for `osdpl test`, and checks its cases.

use anyhow::bail;
use serde::Deserialize;
use serde_json::Value;

use super::case::Case;
use super::parse::{self, CaseProblem};
use osdpl_values::yaml::{self, LocatedNode};

/// The parsed cases of a file.
pub(crate) struct Suite {
    /// The path of the file with the `OpenStackDeployment` for those cases that have neither `file` nor `spec`. The
    /// path is relative to the folder that contains the test file.
    pub file: Option<String>,
    /// The cases of the file. Valid cases run even if another case is invalid.
    pub cases: Vec<Result<Case, InvalidCase>>,
    /// The file's name.
    name: String,
    /// The YAML of the file, with the line number of each node. Messages name these line numbers.
    root: LocatedNode,
}

/// A case that can't run, because it is invalid.
#[derive(Debug)]
pub(crate) struct InvalidCase {
    /// The name of the case, if it has one.
    pub name: String,
    /// The description of the problem, with the file and line.
    pub problem: String,
}

/// The top-level fields of a file of test cases. `T` is [`Case`], or [`Value`] if not every case is valid.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile<T> {
    file: Option<String>,
    cases: Vec<T>,
}

impl Suite {
    /// Parses a file of cases.
    pub(crate) fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_blank) {
            bail!("{name}: the file is empty; write cases below `cases` (deploy/tests.yaml contains examples)");
        }
        if text.lines().any(|line| line.starts_with("apiVersion:")) {
            bail!(
                "{name}: this is a Kubernetes object, not a file of cases; name a file of cases instead, whose field `file` can name the object's file"
            );
        }
        let root = yaml::parse::<LocatedNode>(name, text)?;
        let (file, cases) = match yaml::parse::<CaseFile<Case>>(name, text) {
            Ok(CaseFile { file, cases }) => (file, cases.into_iter().map(Ok).collect()),
            Err(error) => {
                let CaseFile { file, cases } = yaml::parse::<CaseFile<Value>>(name, text).map_err(|_| error)?;
                let lines: Vec<&str> = text.lines().collect();
                let line = |index: usize, keys_below: &[String]| {
                    let index = index.to_string();
                    let keys = ["cases", &index].into_iter().chain(keys_below.iter().map(String::as_str));
                    root.nearest(keys).line()
                };
                let parse_case = |(index, case): (usize, &Value)| {
                    let begin = line(index, &[]);
                    let end = if index + 1 < cases.len() { line(index + 1, &[]) } else { u64::MAX };
                    parse::case(case, &lines, begin..end).map_err(|CaseProblem { keys, problem }| InvalidCase {
                        name: case["name"].as_str().unwrap_or_default().to_owned(),
                        problem: format!("{name}:{}: {problem}", line(index, &keys)),
                    })
                };
                (file, cases.iter().enumerate().map(parse_case).collect::<Vec<_>>())
            }
        };
        if cases.is_empty() {
            bail!("{name}: the file contains no case; write one below `cases`");
        }
        Ok(Self { file, cases, name: name.to_owned(), root })
    }

    /// Checks that osdpl can run the case, that the case has expectations, and that each of them can fail.
    ///
    /// # Errors
    /// Returns an error if the case is invalid. The error describes the problem with its location.
    pub(crate) fn check(&self, index: usize, case: &Case) -> anyhow::Result<()> {
        let location = self.location(index, None);
        match (&case.file, &case.spec) {
            (Some(_), Some(_)) => bail!("{location}: this case has both `file` and `spec`; remove one of the two"),
            (None, None) if self.file.is_none() => {
                bail!(
                    "{location}: this case names no cloud; add `spec` or `file` to the case, or `file` at the top for all cases"
                )
            }
            _ => {}
        }
        if case.expect.is_empty() {
            bail!("{location}: this case expects nothing, so it can't fail; add expectations in `expect`");
        }
        let is_refused = case.expect.iter().any(|expectation| expectation.refused.is_some());
        for (number, expectation) in case.expect.iter().enumerate() {
            let location = || self.location(index, Some(number));
            if let Err(problem) = expectation.check() {
                bail!("{}: {problem}", location());
            }
            if is_refused && expectation.release.is_some() {
                bail!(
                    "{}: a refused cloud has no releases, so osdpl can't check this expectation; move it to a case without `refused`",
                    location()
                );
            }
        }
        Ok(())
    }

    /// Returns the location of a case, or of one of its expectations, such as `values.yaml:12`.
    pub(crate) fn location(&self, case: usize, expectation: Option<usize>) -> String {
        let case = case.to_string();
        let number = expectation.map(|number| number.to_string());
        let keys_below = number.iter().flat_map(|number| ["expect", number]);
        let line = self.root.nearest(["cases", &case].into_iter().chain(keys_below)).line();
        format!("{}:{line}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let checked = Suite::parse("cases.yaml", text).and_then(|suite| {
            suite.cases.iter().enumerate().try_for_each(|(index, case)| match case {
                Ok(case) => suite.check(index, case),
                Err(invalid) => Err(anyhow::anyhow!(invalid.problem.clone())),
            })
        });
        checked.err().map_or_else(|| "valid".to_owned(), |error| format!("{error:#}"))
    }

    #[test]
    fn explains_invalid_files_with_their_lines() {
        let with = |expectation: &str| format!("cases:\n- name: a\n  spec: {{}}\n  expect:\n  - {expectation}\n");
        for (text, expected) in [
            ("cases: []\n".to_owned(), "cases.yaml: the file contains no case; write one below `cases`"),
            (
                "cases:\n- name: a\n  expect: [{refused: x}]\n".to_owned(),
                "cases.yaml:2: this case names no cloud; add `spec`",
            ),
            (
                "cases:\n- name: a\n  file: x\n  spec: {}\n  expect: []\n".to_owned(),
                "cases.yaml:2: this case has both `file` and `spec`",
            ),
            ("cases:\n- name: a\n  spec: {}\n  expect: []\n".to_owned(), "cases.yaml:2: this case expects nothing"),
            (
                "cases:\n- name: a\n  sepc: {}\n".to_owned(),
                "cases.yaml:3: there is no field `sepc` (did you mean \"spec\"?)",
            ),
            ("cases:\n- name: a\n  spec: 1\n  expect: []\n".to_owned(), "cases.yaml:3: `spec` takes a map"),
            (with("{release: a, path: b,\n     atLeast: x}"), "cases.yaml:6: `atLeast` takes a number; correct it"),
            (
                with("{release: a, path: b, atleast: 1}"),
                "cases.yaml:5: there is no field `atleast` (did you mean \"atLeast\"?)",
            ),
            (with("{warns: y}\n- nmae: b"), "cases.yaml:6: there is no field `nmae` (did you mean \"name\"?)"),
            (with("{release: a, wanted: 7}"), "cases.yaml:5: `wanted` takes true or false"),
            (
                with("{release: a, path: b}"),
                "cases.yaml:5: this expectation sets 0 of the following fields; set exactly one: equals",
            ),
            (with("{release: a, path: b, equals: 1, exists: true}"), "cases.yaml:5: this expectation sets 2 of"),
            (with("{path: b, equals: 1}"), "cases.yaml:5: this expectation has no release; name one with `release`"),
            (with("{release: a, equals: 1}"), "cases.yaml:5: this expectation has no path; name one with `path`"),
            (with("{release: a, path: b, wanted: true}"), "cases.yaml:5: `path` has no effect here"),
            (with("{release: a, refused: x}"), "cases.yaml:5: `release` has no effect here"),
            (with("{refused: ''}"), "cases.yaml:5: the text is empty, which matches everything; write a part"),
            (with("{warns: ' '}"), "cases.yaml:5: the text is empty, which matches everything; write a part"),
            (
                with("{refused: x}\n  - {release: a, wanted: false}"),
                "cases.yaml:6: a refused cloud has no releases, so osdpl can't check this expectation; move it to a case",
            ),
            (with("{refused: x}\n  - {warns: y}"), "valid"),
            (with("{release: a, path: b..c, exists: true}"), "cases.yaml:5: \"b..c\" is not a valid path"),
            (with("{release: a, path: b, equals: null}"), "valid"),
            (
                with("{release: a, path: b, matches: '([a'}"),
                "cases.yaml:5: `matches` is not a usable regular expression: ",
            ),
            (with("{release: a, holds: 'a ==='}"), "cases.yaml:5: `a ===` is not a valid CEL expression"),
            ("# nothing\n".to_owned(), "cases.yaml: the file is empty; write cases below `cases`"),
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
