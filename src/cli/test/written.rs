//! Parses cases and explains problems with their fields.

use serde::Deserialize as _;
use serde_json::Value;

use super::case::Case;
use osdpl_core::catalog::did_you_mean;
use osdpl_values::expr::{Expression, pattern_error};
use osdpl_values::yaml::{self, redact_literals};

/// A problem of a case and its place.
pub struct CaseProblem {
    /// The keys below the case.
    pub below: Vec<String>,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// The type of a field.
#[derive(Clone, Copy, PartialEq)]
enum FieldType {
    Text,
    Texts,
    Number,
    Flag,
    Map,
    Maps,
    Anything,
}

use FieldType::{Anything, Flag, Map, Maps, Number, Text, Texts};

/// The fields of a case.
const FIELDS: [(&str, FieldType); 6] =
    [("name", Text), ("file", Text), ("spec", Map), ("presets", Texts), ("with", Map), ("expect", Maps)];

/// The required fields and their content.
const REQUIRED: [(&str, &str); 2] =
    [("name", "a sentence that describes the expectation"), ("expect", "the expectations")];

/// The fields of an expectation.
const EXPECTED: [(&str, FieldType); 11] = [
    ("release", Text),
    ("path", Text),
    ("equals", Anything),
    ("atLeast", Number),
    ("atMost", Number),
    ("matches", Text),
    ("exists", Flag),
    ("holds", Text),
    ("wanted", Flag),
    ("refused", Text),
    ("warns", Text),
];

/// Parses one case on its own, from line `begin` to before `end`, if another case of its file can't be parsed.
///
/// It is parsed with the types of its fields, so that `y` is a text where a text is expected, or else as it was parsed
/// with its file.
///
/// # Errors
/// Describes the first problem.
pub fn case(written: &Value, lines: &[&str], (begin, end): (u64, u64)) -> Result<Case, CaseProblem> {
    let begin = first(lines, begin);
    let own = &lines[begin..first(lines, end).max(begin)];
    if let Ok((case,)) = yaml::parse::<(Case,)>("", &own.join("\n")) {
        return Ok(case);
    }
    if let Some((below, problem)) = wrong(written) {
        return Err(CaseProblem { below, problem });
    }
    // It uses YAML anchors of other cases, or shares lines with them.
    Case::deserialize(&with_texts(written)).map_err(|error| CaseProblem {
        below: Vec::new(),
        problem: format!("{}; correct it", redact_literals(&error.to_string())),
    })
}

/// Checks that a text is a condition.
///
/// # Errors
/// Describes the problem.
pub fn condition(text: &str) -> Result<(), String> {
    Expression::compile(text).map(drop).map_err(|error| error.to_string())
}

/// Checks that a text is a regular expression.
///
/// # Errors
/// Describes the problem.
pub fn pattern(text: &str) -> Result<(), String> {
    let Some(problem) = pattern_error(text) else { return Ok(()) };
    Err(format!("`matches` is not a regular expression: {problem}; correct it, with \\ before literal characters"))
}

/// Returns the index of the line with the dash before the case that begins on this line, counted from 1; the number of
/// lines if there is none.
fn first(lines: &[&str], begin: u64) -> usize {
    let place = usize::try_from(begin).unwrap_or(usize::MAX).saturating_sub(1);
    if place >= lines.len() {
        return lines.len();
    }
    (0..=place).rev().find(|line| lines[*line].trim_start().starts_with('-')).unwrap_or(place)
}

/// Returns the first wrong field, by its keys, and the problem.
fn wrong(written: &Value) -> Option<(Vec<String>, String)> {
    if !written.is_object() {
        return Some((Vec::new(), "this is not a case; write its fields, each as key: value".into()));
    }
    if let Some((field, problem)) = field(written, &FIELDS) {
        return Some((vec![field], problem));
    }
    if let Some((field, what)) = REQUIRED.into_iter().find(|(field, _)| written[*field].is_null()) {
        return Some((Vec::new(), format!("it has no `{field}`; write one: {what}")));
    }
    written["expect"].as_array().into_iter().flatten().enumerate().find_map(|(number, expectation)| {
        let (field, problem) = field(expectation, &EXPECTED)?;
        Some((vec!["expect".to_owned(), number.to_string(), field], problem))
    })
}

/// Returns a field that is unknown or has the wrong type, and the problem.
fn field(written: &Value, fields: &[(&str, FieldType)]) -> Option<(String, String)> {
    let names = || fields.iter().map(|(name, _)| *name);
    let written = written.as_object()?;
    if let Some(field) = written.keys().find(|field| !names().any(|name| name == *field)) {
        let hint = did_you_mean(field, names());
        let all = names().collect::<Vec<_>>().join(", ");
        return Some((field.clone(), format!("there is no field `{field}`{hint}; there are {all}")));
    }
    let is_wrong =
        |(name, field_type): &&(&str, FieldType)| written.get(*name).is_some_and(|value| !field_type.accepts(value));
    let (name, field_type) = fields.iter().find(is_wrong)?;
    Some(((*name).to_owned(), format!("`{name}` takes {}", field_type.describe())))
}

impl FieldType {
    fn accepts(self, value: &Value) -> bool {
        let is_text = |value: &Value| value.is_string() || value.is_boolean() || value.is_number();
        let each = |accepts: &dyn Fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(accepts));
        match self {
            Anything => true,
            // Lists and maps must not be null.
            Texts => each(&is_text),
            Maps => each(&Value::is_object),
            Map => value.is_object(),
            Text => value.is_null() || is_text(value),
            Number => value.is_null() || value.is_number(),
            Flag => value.is_null() || value.is_boolean(),
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Text => "a text; write one, in quotes",
            Texts => "a list of texts; write them in brackets: [a, b]",
            Number => "a number; correct it, or use `equals` or `matches`",
            Flag => "true or false; write one of the two, without quotes",
            Map => "a map; write key: value below it",
            Maps => "a list of maps; write each below it, behind \"- \"",
            Anything => "anything",
        }
    }
}

/// Converts values of text fields to texts: YAML parses `y` and `2026.1` as other types.
fn with_texts(written: &Value) -> Value {
    let mut case = written.clone();
    texts(&mut case, &FIELDS);
    case["expect"].as_array_mut().into_iter().flatten().for_each(|expectation| texts(expectation, &EXPECTED));
    case
}

fn texts(written: &mut Value, fields: &[(&str, FieldType)]) {
    let turn = |value: &mut Value| {
        if value.is_boolean() || value.is_number() {
            *value = value.to_string().into();
        }
    };
    for (name, field_type) in fields {
        match written.get_mut(name) {
            Some(value) if *field_type == Text => turn(value),
            Some(Value::Array(items)) if *field_type == Texts => items.iter_mut().for_each(turn),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Suite;

    fn read(text: &str) -> Vec<Result<String, String>> {
        let cases = Suite::parse("c.yaml", text).unwrap().cases;
        cases.into_iter().map(|case| case.map(|case| case.name).map_err(|wrong| wrong.problem)).collect()
    }

    #[test]
    fn an_invalid_case_does_not_affect_others() {
        let wrong = |line: u64| {
            Err(format!("c.yaml:{line}: `wanted` takes true or false; write one of the two, without quotes"))
        };
        let named = |name: &str| Ok(name.to_owned());
        for (text, found) in [
            (
                "cases:\n-\n  name: first\n  spec: {}\n  expect:\n  - {release: keystone, wanted: [x]}\n-\n  # a remark\n  name: second\n  spec: {}\n  expect: []\n",
                vec![wrong(6), named("second")],
            ),
            (
                "cases:\n- &one\n  name: one\n  spec: &s {a: b}\n  expect: []\n- name: two\n  spec: *s\n  expect:\n  - {release: nova, wanted: maybe}\n- name: three\n  spec: *s\n  expect: []\n",
                vec![named("one"), wrong(9), named("three")],
            ),
            (
                "cases: [{name: a, spec: {}, expect: [{release: nova, wanted: [x]}]}, {name: b, spec: {}, expect: []}]\n",
                vec![wrong(1), named("b")],
            ),
        ] {
            assert_eq!(read(text), found, "{text}");
        }
    }

    #[test]
    fn explains_the_type_of_a_field() {
        for (case, expected) in [
            ("- 5", "2: this is not a case"),
            ("- name: [x]\n  expect: []", "2: `name` takes a text"),
            ("- name: a\n  spec: x\n  expect: []", "3: `spec` takes a map"),
            ("- name: a\n  presets: core\n  expect: []", "3: `presets` takes a list of texts"),
            ("- name: a\n  expect: [x]", "3: `expect` takes a list of maps"),
            ("- name: a\n  expect:\n  - {release: a,\n     atLeast: hunter2}", "5: `atLeast` takes a number"),
            ("- name: a", "2: it has no `expect`; write one"),
            ("- expect: []", "2: it has no `name`; write one"),
        ] {
            let found = read(&format!("cases:\n{case}\n"));
            let Err(problem) = &found[0] else { panic!("{case} is right") };
            assert!(problem.starts_with(&format!("c.yaml:{expected}")) && !problem.contains("hunter2"), "{problem}");
        }
    }
}
