//! Parses test cases, and explains which fields of a case are invalid.

use std::ops::Range;

use serde::Deserialize as _;
use serde_json::Value;

use super::case::Case;
use osdpl_core::catalog::did_you_mean;
use osdpl_values::yaml::{self, redact_literals};

/// A problem in a test case, and the field in which it is.
pub(crate) struct CaseProblem {
    /// The keys that lead from the case to the field.
    pub keys: Vec<String>,
    /// The description of the problem, and what the user must do.
    pub problem: String,
}

/// The type that a field's value must have.
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

/// The names of a case's fields, each with the type of its value.
const FIELDS: [(&str, FieldType); 6] =
    [("name", Text), ("file", Text), ("spec", Map), ("presets", Texts), ("with", Map), ("expect", Maps)];

/// The required fields of a case, each with a description of its contents.
const REQUIRED: [(&str, &str); 2] =
    [("name", "a sentence that describes the expectation"), ("expect", "the expectations")];

/// The names of an expectation's fields, each with the type of its value.
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

/// Parses one case of a file in which at least one case is invalid.
///
/// First parses only the lines of this case as a [`Case`]; `range` contains their numbers, counted from 1. This parse
/// knows the types of the fields, so it reads the word `y` as a string where the case needs a string.
///
/// If these lines can't be parsed alone, converts `parsed`: the same case, as an earlier parse of the whole file read
/// it. That parse did not know the types of the fields, so `y` is a boolean in `parsed`.
///
/// # Errors
/// Returns an error if the case is invalid. The error describes the first problem.
pub(crate) fn case(parsed: &Value, lines: &[&str], range: Range<u64>) -> Result<Case, CaseProblem> {
    let begin = first_line(lines, range.start);
    let case_lines = &lines[begin..first_line(lines, range.end).max(begin)];
    if let Ok((case,)) = yaml::parse::<(Case,)>("", &case_lines.join("\n")) {
        return Ok(case);
    }
    if let Some((keys, problem)) = find_problem(parsed) {
        return Err(CaseProblem { keys, problem });
    }
    // The fields are valid, but their lines can't be parsed alone. The case could use a YAML anchor of another case, or
    // share a line with another case. So convert `parsed`.
    Case::deserialize(&with_texts(parsed)).map_err(|error| CaseProblem {
        keys: Vec::new(),
        problem: format!("{}; correct it", redact_literals(&error.to_string())),
    })
}

/// Returns the index in `lines` at which a case begins: the line with the case's dash (`-`).
///
/// `begin` is the line number of the case's first field, counted from 1. The dash is on this line or above it. If
/// `begin` is after the last line, returns the number of lines.
fn first_line(lines: &[&str], begin: u64) -> usize {
    let index = usize::try_from(begin).unwrap_or(usize::MAX).saturating_sub(1);
    if index >= lines.len() {
        return lines.len();
    }
    (0..=index).rev().find(|line| lines[*line].trim_start().starts_with('-')).unwrap_or(index)
}

/// Returns the keys that lead to the first invalid field, and the problem; `None` if all fields of the case are valid.
fn find_problem(parsed: &Value) -> Option<(Vec<String>, String)> {
    if !parsed.is_object() {
        return Some((Vec::new(), "this is not a case; write the fields of a case, each as key: value".into()));
    }
    if let Some((field, problem)) = find_field_problem(parsed, &FIELDS) {
        return Some((vec![field], problem));
    }
    if let Some((field, what)) = REQUIRED.into_iter().find(|(field, _)| parsed[*field].is_null()) {
        return Some((Vec::new(), format!("this case has no `{field}`; write one: {what}")));
    }
    parsed["expect"].as_array().into_iter().flatten().enumerate().find_map(|(number, expectation)| {
        let (field, problem) = find_field_problem(expectation, &EXPECTED)?;
        Some((vec!["expect".to_owned(), number.to_string(), field], problem))
    })
}

/// Finds the first field that is unknown or has the wrong type. Returns its name and the problem.
fn find_field_problem(parsed: &Value, fields: &[(&str, FieldType)]) -> Option<(String, String)> {
    let names = || fields.iter().map(|(name, _)| *name);
    let parsed = parsed.as_object()?;
    if let Some(field) = parsed.keys().find(|field| !names().any(|name| name == *field)) {
        let hint = did_you_mean(field, names());
        let all = names().collect::<Vec<_>>().join(", ");
        return Some((field.clone(), format!("there is no field `{field}`{hint}; choose from {all}")));
    }
    let has_wrong_type =
        |(name, field_type): &&(&str, FieldType)| parsed.get(*name).is_some_and(|value| !field_type.accepts(value));
    let (name, field_type) = fields.iter().find(has_wrong_type)?;
    Some(((*name).to_owned(), format!("`{name}` takes {}", field_type.describe())))
}

impl FieldType {
    fn accepts(self, value: &Value) -> bool {
        let is_text = |value: &Value| value.is_string() || value.is_boolean() || value.is_number();
        let each = |accepts: &dyn Fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(accepts));
        match self {
            Anything => true,
            // Lists and maps must not be null. Strings, numbers and flags may be null.
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
            Text => "a string; write one, in quotes",
            Texts => "a list of strings; write it in brackets: [a, b]",
            Number => "a number; correct it, or use `equals` or `matches`",
            Flag => "true or false; write one of the two, without quotes",
            Map => "a map; write key: value below the field",
            Maps => "a list of maps; write each map below the field, behind \"- \"",
            Anything => "anything",
        }
    }
}

/// Converts the values of all string fields of a case to strings. The YAML parser did not know the types of the fields,
/// so it has read the string `y` as a boolean, and `2026.1` as a number.
fn with_texts(parsed: &Value) -> Value {
    let mut case = parsed.clone();
    convert_texts(&mut case, &FIELDS);
    case["expect"].as_array_mut().into_iter().flatten().for_each(|expectation| convert_texts(expectation, &EXPECTED));
    case
}

/// Converts booleans and numbers to strings in those fields of `map` whose type is `Text` or `Texts`.
fn convert_texts(map: &mut Value, fields: &[(&str, FieldType)]) {
    let convert = |value: &mut Value| {
        if value.is_boolean() || value.is_number() {
            *value = value.to_string().into();
        }
    };
    for (name, field_type) in fields {
        match map.get_mut(name) {
            Some(value) if *field_type == Text => convert(value),
            Some(Value::Array(items)) if *field_type == Texts => items.iter_mut().for_each(convert),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::suite::Suite;

    fn read(text: &str) -> Vec<Result<String, String>> {
        let cases = Suite::parse("c.yaml", text).unwrap().cases;
        cases.into_iter().map(|case| case.map(|case| case.name).map_err(|invalid| invalid.problem)).collect()
    }

    #[test]
    fn an_invalid_case_does_not_affect_others() {
        let problem = |line: u64| {
            Err(format!("c.yaml:{line}: `wanted` takes true or false; write one of the two, without quotes"))
        };
        let valid = |name: &str| Ok(name.to_owned());
        for (text, found) in [
            (
                "cases:\n-\n  name: first\n  spec: {}\n  expect:\n  - {release: keystone, wanted: [x]}\n-\n  # a remark\n  name: y\n  spec: {}\n  expect: []\n",
                vec![problem(6), valid("y")],
            ),
            (
                "cases:\n- &one\n  name: one\n  spec: &s {a: b}\n  expect: []\n- name: two\n  spec: *s\n  expect:\n  - {release: nova, wanted: maybe}\n- name: three\n  spec: *s\n  expect: []\n",
                vec![valid("one"), problem(9), valid("three")],
            ),
            (
                "cases: [{name: a, spec: {}, expect: [{release: nova, wanted: [x]}]}, {name: b, spec: {}, expect: []}]\n",
                vec![problem(1), valid("b")],
            ),
        ] {
            assert_eq!(read(text), found, "{text}");
        }
    }

    #[test]
    fn explains_the_type_of_a_field() {
        for (case, expected) in [
            ("- 5", "2: this is not a case"),
            ("- name: [x]\n  expect: []", "2: `name` takes a string"),
            ("- name: a\n  spec: x\n  expect: []", "3: `spec` takes a map"),
            ("- name: a\n  presets: core\n  expect: []", "3: `presets` takes a list of strings"),
            ("- name: a\n  expect: [x]", "3: `expect` takes a list of maps"),
            ("- name: a\n  expect:\n  - {release: a,\n     atLeast: hunter2}", "5: `atLeast` takes a number"),
            ("- name: a", "2: this case has no `expect`; write one"),
            ("- expect: []", "2: this case has no `name`; write one"),
        ] {
            let found = read(&format!("cases:\n{case}\n"));
            let Err(problem) = &found[0] else { panic!("{case} is valid") };
            assert!(problem.starts_with(&format!("c.yaml:{expected}")) && !problem.contains("hunter2"), "{problem}");
        }
    }
}
