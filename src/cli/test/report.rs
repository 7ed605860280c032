//! Formats the results of test cases as text, JSON and `JUnit` XML.

use std::fmt::Write as _;

use osdpl_values::CollectSorted;
use serde::Serialize;

/// The results of all test cases of a run of `osdpl test`.
#[derive(Serialize)]
pub(crate) struct TestReport {
    pub cases: Vec<CaseResult>,
    pub passed: usize,
    pub failed: usize,
    /// The number of files and cases that are invalid, so that osdpl could not run them.
    pub invalid: usize,
}

/// The result of one case.
#[derive(Serialize)]
pub(crate) struct CaseResult {
    /// The location of the case, such as `values.yaml:12`.
    pub location: String,
    pub name: String,
    pub passed: bool,
    /// Why osdpl could not run the case: a problem in the case or in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// One line for each placeholder in the case's cloud: it names the missing fact. Lists no placeholders for
    /// credentials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placeholders: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Failure {
    pub location: String,
    pub message: String,
}

impl CaseResult {
    pub(crate) fn new(location: String, name: String, failures: Vec<(String, String)>) -> Self {
        let failures: Vec<Failure> =
            failures.into_iter().map(|(location, message)| Failure { location, message }).collect();
        Self { location, name, passed: failures.is_empty(), problem: None, failures, placeholders: Vec::new() }
    }

    /// Returns the result for a file or case that osdpl can't run, because it is invalid.
    pub(crate) fn invalid(location: String, name: String, error: &anyhow::Error) -> Self {
        Self { passed: false, problem: Some(format!("{error:#}")), ..Self::new(location, name, Vec::new()) }
    }

    /// Returns the elements that the `JUnit` XML of the case contains; empty for a case that passed without
    /// placeholders.
    fn junit(&self) -> String {
        let failures = self.failures.iter().map(|failure| format!("{}: {}", failure.location, failure.message));
        let placeholders = self.placeholders.iter().map(|placeholder| format!("placeholder: {placeholder}"));
        let elements = [
            ("error", self.problem.iter().cloned().collect()),
            ("failure", failures.collect::<Vec<_>>()),
            ("system-out", placeholders.collect()),
        ];
        let elements = elements.into_iter().filter(|(_, lines)| !lines.is_empty());
        let text =
            |(name, lines): (&str, Vec<String>)| format!("    <{name}>{}</{name}>\n", escape_xml(&lines.join("\n")));
        elements.map(text).collect::<Vec<_>>().concat()
    }
}

impl TestReport {
    pub(crate) fn new(cases: Vec<CaseResult>) -> Self {
        let passed = cases.iter().filter(|case| case.passed).count();
        let invalid = cases.iter().filter(|case| case.problem.is_some()).count();
        Self { passed, failed: cases.len() - passed - invalid, invalid, cases }
    }

    /// Returns the results as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            let word = match (case.passed, &case.problem) {
                (true, _) => "ok  ",
                (false, None) => "FAIL",
                (false, Some(_)) => "ERR ",
            };
            let _ = writeln!(text, "{word}  {}", case.name);
            if let Some(problem) = &case.problem {
                let _ = writeln!(text, "      {}", problem.replace('\n', "\n      "));
            }
            for Failure { location, message } in &case.failures {
                let _ = writeln!(text, "      {location}: {message}");
            }
        }
        let placeholders = self.cases.iter().flat_map(|case| &case.placeholders).collect_set();
        for placeholder in placeholders {
            let _ = writeln!(text, "placeholder: {placeholder}");
        }
        let invalid = if self.invalid == 0 { String::new() } else { format!(", {} invalid", self.invalid) };
        let _ = writeln!(text, "{} passed, {} failed{invalid}.", self.passed, self.failed);
        text
    }

    /// Returns the results as `JUnit` XML.
    pub(crate) fn junit(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let (all, failed, invalid) = (self.cases.len(), self.failed, self.invalid);
        let _ = writeln!(text, "<testsuite name=\"osdpl\" tests=\"{all}\" failures=\"{failed}\" errors=\"{invalid}\">");
        for case in &self.cases {
            let _ = write!(
                text,
                "  <testcase classname=\"{}\" name=\"{}\"",
                escape_xml(&case.location),
                escape_xml(&case.name)
            );
            let content = case.junit();
            if content.is_empty() {
                text.push_str("/>\n");
            } else {
                let _ = writeln!(text, ">\n{content}  </testcase>");
            }
        }
        text.push_str("</testsuite>\n");
        text
    }
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
