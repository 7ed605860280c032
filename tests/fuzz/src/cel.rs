//! Fuzz target for CEL expressions, which users write in additions to the catalogue.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use osdpl_values::expr::{Expression, Scope, Template};
use osdpl_values::{Values, yaml};
use serde_json::{Value, json};

/// The variables of all expressions. Their lists and texts are long, so that an expression can create huge values, or
/// compare a long text thousands of times.
static VARIABLES: LazyLock<Values> = LazyLock::new(|| {
    let flavors: Vec<Value> = (0..64).map(|number| json!({"name": format!("m{number}"), "ram": number})).collect();
    let variables = json!({
        "spec": {"region": "R1", "replicas": 3, "presets": ["compute", "ha"], "publicDomain": "cloud.example.org"},
        "features": {"flavors": flavors, "text": "lorem ipsum ".repeat(100), "long": "dolor sit ".repeat(100_000),
                     "network": {"backend": "ovn", "cidr": "10.0.0.0/24"}},
        "openstack": {"name": "2026.1", "tag": "2026.1"},
        "services": {"nova": {"enabled": true}},
        "credentials": {"nova": {"database": "s3cret"}},
        "ceph": {"glance": {"user": "glance", "pool": "images"}, "monitors": ["10.0.0.1:6789"]},
        "facts": {"nova": {"uuid": "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b"}},
        "releases": {"nova": {"namespace": "openstack"}},
        "release": {"name": "nova", "namespace": "openstack"},
        "values": {"conf": {"debug": false, "size": 1.5}},
    });
    variables.as_object().cloned().unwrap_or_default()
});

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let scope = Scope::new(VARIABLES.clone());
    if let Ok(expression) = Expression::compile(text) {
        let _ = (expression.evaluate(&scope), expression.is_secret());
    }
    let values = json!({"text": text, "whole": format!("${{{text}}}"), "list": [text]});
    if let Ok(template) = Template::compile(values.as_object().cloned().unwrap_or_default()) {
        let _ = template.evaluate(&scope);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut found = BTreeSet::new();
    for (path, text) in crate::catalogue::built_in() {
        if let Ok(file) = yaml::parse::<Values>(&path, &text) {
            found.extend(Template::expressions(&file));
            collect_conditions(&Value::Object(file), &mut found);
        }
    }
    let bombs = [
        "features.flavors.all(a, features.flavors.all(b, features.flavors.all(c, a.ram + b.ram + c.ram >= 0)))",
        "features.text.replace('l', features.text).replace('o', features.text).replace('m', features.text)",
        "features.flavors.map(a, features.flavors.map(b, features.text))",
        "features.flavors.all(a, features.flavors.all(b, features.long <= features.long))",
        "[{features.long: 1}].all(m, features.flavors.all(a, features.flavors.all(b, features.long in m)))",
        "[[features.long, features.long, 'e']].all(l, features.flavors.all(a, max(l) == 'e'))",
    ];
    found.extend(bombs.map(str::to_owned));
    found.into_iter().map(String::into_bytes).collect()
}

/// Adds to `found` the `when` conditions of all fragments and cross-checks in the catalogue file `value`.
fn collect_conditions(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("when").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| collect_conditions(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_conditions(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
