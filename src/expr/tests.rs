use serde_json::{Value, json};

use super::*;
use crate::values::Values;

fn map(value: Value) -> Values {
    serde_json::from_value(value).unwrap()
}

fn evaluated(values: Value) -> (Value, Vec<String>) {
    let scope = Scope::new(&map(json!({
        "spec": {"region": "R1", "replicas": 3, "presets": ["compute"]},
        "credentials": {"nova": {"database": "s3cret"}},
        "features": {"network": {"backend": "ovn"}},
    })));
    let (values, secret) = Template::compile(&map(values)).unwrap().evaluate(&scope).unwrap();
    (Value::Object(values), secret.iter().map(ToString::to_string).collect())
}

#[test]
fn a_whole_scalar_keeps_its_type_and_text_around_makes_a_string() {
    let (values, secret) = evaluated(json!({
        "whole": "${spec.replicas}", "text": "x-${spec.replicas}-${spec.region}", "list": ["${spec.presets}"],
        "plain": "$${spec.region} $HOME", "map": "${ {'a': 1}.a }", "when": "${features.network.backend == 'ovn' ? ['ovn'] : null}",
        "password": "${credentials.nova.database}", "url": "u:${credentials.nova.database}@h", "number": 1.5,
    }));
    assert_eq!(
        values,
        json!({"whole": 3, "text": "x-3-R1", "list": [["compute"]], "plain": "${spec.region} $HOME", "map": 1,
               "when": ["ovn"], "password": "s3cret", "url": "u:s3cret@h", "number": 1.5})
    );
    assert_eq!(secret, ["password", "url"]);
}

#[test]
fn wrong_expressions_say_what_is_wrong() {
    for (text, start) in [
        ("${spec.", "\"${spec.\" has a `${` without its `}`; write `$${` for a plain `${`"),
        ("${spec +}", "`spec +` is no CEL expression: "),
        (
            "${feature.network}",
            "`feature.network` uses `feature`, which does not exist; there are spec, features, openstack",
        ),
    ] {
        let (path, error) = Template::compile(&map(json!({"a": {"b": text}}))).unwrap_err();
        assert_eq!(path.to_string(), "a.b");
        assert!(error.to_string().starts_with(start), "{error}");
    }
}

#[test]
fn failures_never_print_values() {
    let scope = Scope::new(&map(json!({"credentials": {"nova": {"database": "s3cret"}}})));
    for text in ["${credentials.nova.database + 1}", "${credentials.nova.missing}", "${int(credentials.nova.database)}"]
    {
        let (_, error) = Template::compile(&map(json!({"a": text}))).unwrap().evaluate(&scope).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
        assert!(error.to_string().contains("can't be evaluated: "), "{error}");
    }
}

#[test]
fn comprehension_variables_are_known() {
    assert!(Expression::compile("spec.presets.exists(p, p == 'ha')").is_ok());
}
