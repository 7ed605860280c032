//! The results of cases as text, JSON and `JUnit` XML.

use std::fmt::Write as _;

use serde::Serialize;

/// All cases.
#[derive(Serialize)]
pub struct TestReport {
    pub cases: Vec<Outcome>,
    pub passed: usize,
    pub failed: usize,
    /// The number of invalid files and cases.
    pub wrong: usize,
}

/// The result of one case.
#[derive(Serialize)]
pub struct Outcome {
    /// The location, such as `values.yaml:12`.
    pub place: String,
    pub name: String,
    pub passed: bool,
    /// The problem of the file or the case itself, because of which nothing was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

#[derive(Serialize)]
pub struct Failure {
    pub place: String,
    pub message: String,
}

impl Outcome {
    pub fn new(place: String, name: String, failures: Vec<(String, String)>) -> Self {
        let failures: Vec<Failure> = failures.into_iter().map(|(place, message)| Failure { place, message }).collect();
        Self { place, name, passed: failures.is_empty(), wrong: None, failures }
    }

    /// Returns the result of an invalid file or case.
    pub fn wrong(place: String, name: String, error: &anyhow::Error) -> Self {
        Self { place, name, passed: false, wrong: Some(format!("{error:#}")), failures: Vec::new() }
    }
}

impl TestReport {
    pub fn new(cases: Vec<Outcome>) -> Self {
        let passed = cases.iter().filter(|case| case.passed).count();
        let wrong = cases.iter().filter(|case| case.wrong.is_some()).count();
        Self { passed, failed: cases.len() - passed - wrong, wrong, cases }
    }

    /// Returns the results as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            let word = match (case.passed, &case.wrong) {
                (true, _) => "ok  ",
                (false, None) => "FAIL",
                (false, Some(_)) => "ERR ",
            };
            let _ = writeln!(text, "{word}  {}", case.name);
            if let Some(wrong) = &case.wrong {
                let _ = writeln!(text, "      {}", wrong.replace('\n', "\n      "));
            }
            for Failure { place, message } in &case.failures {
                let _ = writeln!(text, "      {place}: {message}");
            }
        }
        let wrong = if self.wrong == 0 { String::new() } else { format!(", {} wrong", self.wrong) };
        let _ = writeln!(text, "{} passed, {} failed{wrong}.", self.passed, self.failed);
        text
    }

    /// Returns the results as `JUnit` XML.
    pub fn junit(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let (all, failed, wrong) = (self.cases.len(), self.failed, self.wrong);
        let _ = writeln!(text, "<testsuite name=\"osdpl\" tests=\"{all}\" failures=\"{failed}\" errors=\"{wrong}\">");
        for case in &self.cases {
            let _ = write!(text, "  <testcase classname=\"{}\" name=\"{}\"", escaped(&case.place), escaped(&case.name));
            if case.passed {
                text.push_str("/>\n");
                continue;
            }
            if let Some(wrong) = &case.wrong {
                let _ = writeln!(text, ">\n    <error>{}</error>\n  </testcase>", escaped(wrong));
                continue;
            }
            let text_of_failures =
                case.failures.iter().map(|failure| format!("{}: {}", failure.place, failure.message));
            let text_of_failures = escaped(&text_of_failures.collect::<Vec<_>>().join("\n"));
            let _ = writeln!(text, ">\n    <failure>{text_of_failures}</failure>\n  </testcase>");
        }
        text.push_str("</testsuite>\n");
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
