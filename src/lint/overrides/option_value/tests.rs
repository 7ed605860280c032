use serde_json::{Value, json};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "callers pass the result of `json!`")]
fn problem(option: Value, value: Value) -> Option<String> {
    find_problem(&serde_json::from_value(option).unwrap(), &value)
}

#[test]
fn accepts_what_oslo_config_accepts() {
    let choices = json!({"type": "string", "choices": ["a", "b", null]});
    for (option, values) in [
        (json!({"type": "boolean"}), json!([true, "True", 1, "0", "OFF", "'on'", [true], "{{ .Values.x }}", "$debug"])),
        (json!({"type": "integer", "min": 1, "max": 9}), json!([1, "9", " 5 ", "+3", "", [4], "$workers"])),
        (json!({"type": "integer"}), json!(["1_000", -1, 999_999, "5242880"])),
        (json!({"type": "float"}), json!([1, 1.5, "1e5", "2", 5_242_880])),
        (json!({"type": "port"}), json!([0, "65535"])),
        (json!({"type": "ip"}), json!(["10.0.0.1", "::1", "fe80::1%eth0", "$my_ip", ""])),
        (json!({"type": "list"}), json!(["a,b", ["a", "b"], {"type": "csv", "values": ["a"]}, 5])),
        (json!({"type": "dict"}), json!(["a:1,b:2", ["a:1"]])),
        (json!({"type": "multi"}), json!(["a", ["a"], {"type": "multistring", "values": ["a", "b"]}])),
        (json!({"type": "multi"}), json!([{"type": "multistring", "values": {"one": "a", "two": "b"}}])),
        (json!({"type": "string"}), json!([true, 5, "x", ["a", "b"]])),
        (choices, json!(["a", ""])),
        (json!({"type": "integer", "choices": [0, 1]}), json!([0, "1"])),
        (json!({"type": "other", "min": 1}), json!(["x"])),
    ] {
        for value in values.as_array().unwrap() {
            assert_eq!(problem(option.clone(), value.clone()), None, "{option} {value}");
        }
    }
}

#[test]
fn reports_values_that_the_service_cannot_read() {
    for (option, value, expected) in [
        (json!({"type": "boolean"}), json!("maybe"), "is not a boolean"),
        (json!({"type": "boolean"}), json!(""), "is not a boolean"),
        (json!({"type": "boolean"}), json!([true, false]), "is not a boolean"),
        (json!({"type": "integer"}), json!("1.5"), "is not a whole number"),
        (json!({"type": "integer"}), json!(true), "is not a whole number"),
        (json!({"type": "integer"}), json!("1__0"), "is not a whole number"),
        (
            json!({"type": "integer", "min": 1}),
            json!(0),
            "is too small, so the service fails to read it; write a number of at least 1",
        ),
        (
            json!({"type": "float", "max": 0.5}),
            json!("0.7"),
            "is too large, so the service fails to read it; write a number of at most 0.5",
        ),
        (json!({"type": "port"}), json!(70000), "is too large"),
        (
            json!({"type": "integer"}),
            json!(5_242_880),
            "is a large number, which the chart writes as 5.24288e+06, so the service fails to read it; write it in quotes: \"5242880\"",
        ),
        (json!({"type": "ip"}), json!("node1"), "is not an IP address"),
        (
            json!({"type": "string", "choices": ["qcow2", "raw"]}),
            json!("RAW"),
            "is not one of the allowed values, so the service fails to read it; choose from qcow2, raw",
        ),
        (json!({"type": "dict"}), json!({"a": 1}), "is a map, which the chart can't write"),
        (json!({"type": "multi"}), json!(["a", "b"]), "is a list, which the chart joins with commas"),
        (json!({"type": "list"}), json!({"type": "multistring", "values": ["a", "b"]}), "has several lines"),
    ] {
        let found = problem(option.clone(), value.clone()).unwrap_or_default();
        assert!(found.starts_with(expected), "{option} {value}: {found}");
    }
}
