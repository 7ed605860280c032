//! A case as it is written: what is wrong with its fields, each by its name.

use serde::Deserialize as _;
use serde_json::Value;

use super::case::Case;
use osdpl_core::catalog::did_you_mean;
use osdpl_values::expr::{Expression, pattern_problem};
use osdpl_values::yaml::{self, without_literals};

/// What is wrong with a case, and where.
pub struct Fault {
    /// The keys below the case that lead there.
    pub below: Vec<String>,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// What a field takes.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Text,
    Texts,
    Number,
    Flag,
    Map,
    Maps,
    Anything,
}

use Takes::{Anything, Flag, Map, Maps, Number, Text, Texts};

/// The fields of a case.
const FIELDS: [(&str, Takes); 6] =
    [("name", Text), ("file", Text), ("spec", Map), ("presets", Texts), ("with", Map), ("expect", Maps)];

/// Those that it can't be without, and what stands in them.
const REQUIRED: [(&str, &str); 2] = [("name", "a sentence that says what holds"), ("expect", "what is expected")];

/// The fields of an expectation.
const EXPECTED: [(&str, Takes); 11] = [
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

/// Reads a case that stands on the lines of its file from `begin` to before `end`, where another one of its file can't be read: by itself, as what it
/// is meant for, so that `y` is a text where one is wanted, and else as it was read with its file.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn case(written: &Value, lines: &[&str], (begin, end): (u64, u64)) -> Result<Case, Fault> {
    let begin = first(lines, begin);
    let own = &lines[begin..first(lines, end).max(begin)];
    if let Ok((case,)) = yaml::parse::<(Case,)>("", &own.join("\n")) {
        return Ok(case);
    }
    if let Some((below, problem)) = wrong(written) {
        return Err(Fault { below, problem });
    }
    // It names what stands elsewhere in the file, or does not stand on lines of its own.
    Case::deserialize(&with_texts(written)).map_err(|error| Fault {
        below: Vec::new(),
        problem: format!("{}; correct it", without_literals(&error.to_string())),
    })
}

/// Whether a text is a condition.
///
/// # Errors
/// What is wrong with it.
pub fn condition(text: &str) -> Result<(), String> {
    Expression::compile(text).map(drop).map_err(|error| error.to_string())
}

/// Whether a text is a regular expression.
///
/// # Errors
/// What is wrong with it.
pub fn pattern(text: &str) -> Result<(), String> {
    let Some(problem) = pattern_problem(text) else { return Ok(()) };
    Err(format!("`matches` is no regular expression: {problem}; correct it, with \\ before what is meant as it stands"))
}

/// The place among the lines of the dash before what begins on this line, from 1; behind the last one where it begins on none.
fn first(lines: &[&str], begin: u64) -> usize {
    let place = usize::try_from(begin).unwrap_or(usize::MAX).saturating_sub(1);
    if place >= lines.len() {
        return lines.len();
    }
    (0..=place).rev().find(|line| lines[*line].trim_start().starts_with('-')).unwrap_or(place)
}

/// The first field that is wrong, by the keys that lead there, and what is said of it.
fn wrong(written: &Value) -> Option<(Vec<String>, String)> {
    if !written.is_object() {
        return Some((
            Vec::new(),
            "something else stands where a case is wanted; write its fields, each as key: value".into(),
        ));
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

/// A field that is none of these, or takes something else, and what is said of it.
fn field(written: &Value, fields: &[(&str, Takes)]) -> Option<(String, String)> {
    let names = || fields.iter().map(|(name, _)| *name);
    let written = written.as_object()?;
    if let Some(field) = written.keys().find(|field| !names().any(|name| name == *field)) {
        let hint = did_you_mean(field, names());
        let all = names().collect::<Vec<_>>().join(", ");
        return Some((field.clone(), format!("there is no field `{field}`{hint}; there are {all}")));
    }
    let is_wrong = |(name, takes): &&(&str, Takes)| written.get(*name).is_some_and(|value| !takes.takes(value));
    let (name, takes) = fields.iter().find(is_wrong)?;
    Some(((*name).to_owned(), format!("`{name}` takes {}", takes.wanted())))
}

impl Takes {
    fn takes(self, value: &Value) -> bool {
        let is_text = |value: &Value| value.is_string() || value.is_boolean() || value.is_number();
        let each = |takes: &dyn Fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(takes));
        match self {
            Anything => true,
            // A list or a map that is named has to be there.
            Texts => each(&is_text),
            Maps => each(&Value::is_object),
            Map => value.is_object(),
            Text => value.is_null() || is_text(value),
            Number => value.is_null() || value.is_number(),
            Flag => value.is_null() || value.is_boolean(),
        }
    }

    fn wanted(self) -> &'static str {
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

/// A case with texts where those are wanted: YAML reads `y` and `2026.1` as something else.
fn with_texts(written: &Value) -> Value {
    let mut case = written.clone();
    texts(&mut case, &FIELDS);
    case["expect"].as_array_mut().into_iter().flatten().for_each(|expectation| texts(expectation, &EXPECTED));
    case
}

fn texts(written: &mut Value, fields: &[(&str, Takes)]) {
    let turn = |value: &mut Value| {
        if value.is_boolean() || value.is_number() {
            *value = value.to_string().into();
        }
    };
    for (name, takes) in fields {
        match written.get_mut(name) {
            Some(value) if *takes == Text => turn(value),
            Some(Value::Array(items)) if *takes == Texts => items.iter_mut().for_each(turn),
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
    fn a_wrong_case_makes_no_other_wrong_however_they_are_laid_out() {
        let wrong = |line: u64| {
            Err(format!("c.yaml:{line}: `wanted` takes true or false; write one of the two, without quotes"))
        };
        let named = |name: &str| Ok(name.to_owned());
        for (text, found) in [
            (
                "cases:\n-\n  name: first\n  spec: {}\n  expect:\n  - {release: keystone, wanted: [x]}\n-\n  # a remark\n  name: y\n  spec: {}\n  expect: []\n",
                vec![wrong(6), named("y")],
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
    fn of_a_field_is_said_what_it_takes() {
        for (case, said) in [
            ("- 5", "2: something else stands where a case is wanted"),
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
            assert!(problem.starts_with(&format!("c.yaml:{said}")) && !problem.contains("hunter2"), "{problem}");
        }
    }
}
