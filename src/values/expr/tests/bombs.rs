//! Tests that the evaluation of an expression stops when it reaches the limit of work.

use serde_json::json;

use super::super::pattern::Pattern;
use super::*;

fn refused(expression: &str) -> (String, Work) {
    let variables = json!({"spec": {"list": (0..300).collect::<Vec<_>>(), "text": "aaaaaaaaaa"}});
    let scope = Scope::new(map(variables));
    let error = Expression::compile(expression).unwrap().evaluate(&scope).unwrap_err();
    (error.to_string(), scope.used())
}

#[test]
fn stops_at_the_limit_of_steps_or_bytes() {
    let nested = (0..8).rev().fold("true".to_owned(), |body, depth| format!("spec.list.all(x{depth}, {body})"));
    let some = nested.replacen(".all(", ".exists(", 8).replace("true", "false");
    let doubled = format!("spec.text{}", ".replace('a', 'aaaaaaaaaa')".repeat(9));
    let added = (0..25).fold("spec.text".to_owned(), |text, _| format!("[{text}].map(t, t + t)[0]"));
    let joined = (0..8).fold("spec.text".to_owned(), |text, _| format!("spec.list.map(i, {text}).join('')"));
    let lists = (0..8).fold("[1]".to_owned(), |list, _| format!("[{list}].map(l, spec.list.map(i, l))[0]"));
    let split = format!("{doubled}.split('')");
    let pattern = "spec.list.all(i, !spec.text.matches('[ab]*a[ab]{400}'))";
    let keys = "spec.list.map(i, sshKey(string(i)))";
    let swallowed = format!("({nested}) || true");
    for bomb in [&nested, &some, &doubled, &added, &joined, &lists, &split, pattern, keys, &swallowed] {
        let (error, used) = refused(bomb);
        let remedy =
            "an expression may take at most 400000 steps and create at most 8 MiB of values; use shorter lists";
        assert!(error.contains(remedy) && error.len() < 900, "{error}");
        // The evaluation counts each piece of work before it does the work. So when the evaluation stops, a counter is
        // above the limit, although the work that was done is within the limit.
        assert!(used.steps > Work::OF_ONE.steps || used.bytes > Work::OF_ONE.bytes, "{bomb}: {used:?}");
    }
}

#[test]
fn counts_the_comparisons_of_long_texts() {
    let text = "a".repeat(6 << 20);
    let variables = json!({
        "list": (0..300).collect::<Vec<_>>(), "text": text, "texts": [text, text, "b"], "map": {&text: 1},
        "reference": {"name": text, "key": "a"},
    });
    let scope = Scope::new(map(json!({"spec": variables})));
    for compared in [
        "spec.text <= spec.text",
        "!(spec.text > spec.text)",
        "max(spec.texts) == 'b'",
        "spec.text in spec.map",
        "spec.map.contains(spec.text)",
        "spec.map[spec.text] == 1",
        "secret(spec.reference) == '' || true",
    ] {
        let expression = Expression::compile(&format!("spec.list.all(i, {compared})")).unwrap();
        let error = expression.evaluate(&scope.nested(Values::new())).unwrap_err().to_string();
        assert!(error.contains("at most 400000 steps"), "{compared}: {error}");
    }
}

#[test]
fn copies_of_values_without_expressions_share_the_limit() {
    let text = "x".repeat(1 << 20);
    for values in [json!({"a": {"b": text}}), json!({"a": [text, "${1}"]}), json!({"a": format!("{text}${{1}}")})] {
        let (scope, template) = (Scope::new(Values::new()), Template::compile(map(values)).unwrap());
        let copies = (0..100).take_while(|_| template.evaluate(&scope.nested(Values::new())).is_ok()).count();
        assert!((32..64).contains(&copies) && scope.is_exhausted(), "{copies}");
        let (path, error) = template.evaluate(&scope).unwrap_err();
        let problem = "all values and expressions together may take at most 10000000 steps and create at most 64 MiB";
        assert!(path.to_string().starts_with('a') && error.to_string().contains(problem), "{path}: {error}");
    }
}

#[test]
fn stops_patterns_before_a_long_search() {
    let text = "a".repeat(45_000);
    let mixed = "abaababb".repeat(130_000);
    for (text, pattern, problem) in [
        (&text, "[ab]*a[ab]{2000}[^ab]", "at most 400000 steps"),
        (&text, "[a-z]*a[a-z]{1500}[0-9]", "at most 400000 steps"),
        (&text, "[ab]*a[ab]{400}[^ab]", "at most 400000 steps"),
        (&mixed, "[ab]*a[ab]{10}[^ab]", "at most 400000 steps"),
        (&text, &"(?i)[\\w--a]".repeat(80), "function `matches` failed"),
        (&text, &"a?".repeat(501), "function `matches` failed"),
    ] {
        let scope = Scope::new(map(json!({"spec": {"text": text, "pattern": pattern}})));
        let expression = Expression::compile("spec.text.matches(spec.pattern)").unwrap();
        let error = expression.evaluate(&scope).unwrap_err().to_string();
        assert!(error.contains(problem), "{pattern}: {error}");
        let searched = Pattern::compile(pattern).map_or(0, |pattern| pattern.search_steps(text));
        assert!(scope.used().steps >= searched && scope.used().steps >= Pattern::compile_steps(pattern), "{pattern}");
        assert!(!matches(text, pattern), "{pattern}");
    }
    let mut patterns = Patterns::default();
    assert_eq!(patterns.matches(&mixed, "a"), Some(true));
    assert_eq!(patterns.matches(&mixed[..1 << 17], "b{100}"), Some(false));
    assert_eq!(patterns.matches(&mixed, "c"), None, "all searches share a limit");
    assert!(matches("abc", "^[a-c]+$"));
}

#[test]
fn admits_ordinary_patterns() {
    for (text, pattern) in [
        ("a_1", r"^\w+$"),
        ("a.b-c", r"^\w[\w.-]*$"),
        ("192.168.100.200", r"^(\d{1,3}\.){3}\d{1,3}$"),
        ("Cloud.example.org", r"(?i)^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*$"),
        ("ops@example.org", r"^[\w.-]+@[\w.-]+$"),
        ("2026-11-28T03:00:00Z", r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$"),
        ("a name", r"^.{1,64}$"),
    ] {
        let scope = Scope::new(map(json!({"spec": {"text": text, "pattern": pattern}})));
        let expression = Expression::compile("spec.text.matches(spec.pattern)").unwrap();
        assert_eq!(expression.evaluate(&scope).unwrap(), json!(true), "{pattern}");
    }
}

#[test]
fn all_expressions_of_a_resource_share_a_limit() {
    let scope = Scope::new(map(json!({"spec": {"list": (0..100).collect::<Vec<_>>()}})));
    let expression = Expression::compile("spec.list.all(a, spec.list.all(b, true))").unwrap();
    let failed = (0..1000).find_map(|_| expression.evaluate(&scope.nested(Values::new())).err()).unwrap();
    assert!(failed.to_string().contains("all expressions together may take at most 10000000 steps"), "{failed}");
}

#[test]
fn refuses_structs_and_bytes() {
    for expression in ["spec.A{a: 1}", "b'a'", "nothing(1)", "-(-9223372036854775807 - 1)"] {
        let Ok(compiled) = Expression::compile(expression) else { continue };
        assert!(compiled.evaluate(&Scope::new(map(json!({"spec": {}})))).is_err(), "{expression}");
    }
}
