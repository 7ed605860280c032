use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn map(value: Value) -> Values {
    serde_json::from_value(value).unwrap()
}

fn merged(base: Value, over: Value) -> Value {
    let mut base = map(base);
    merge(&mut base, map(over));
    Value::Object(base)
}

#[test]
fn merges_by_helms_rules() {
    for (base, over, expected) in [
        (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 3}}), json!({"a": {"b": 3, "c": 2}})),
        (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
        (json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": null})),
        (json!({"a": {"b": 1}}), json!({"a": {"b": null}}), json!({"a": {"b": null}})),
        (json!({"a": 1}), json!({"a": {"b": 2}}), json!({"a": {"b": 2}})),
        (json!({"a": {"b": 2}}), json!({"a": 1}), json!({"a": 1})),
        (json!({"a": null}), json!({"a": {"b": 2}}), json!({"a": {"b": 2}})),
    ] {
        assert_eq!(merged(base.clone(), over.clone()), expected, "{base} + {over}");
    }
}

#[test]
fn paths_round_trip_and_reject_bad_syntax() {
    for text in ["a", "a.b", "labels.\"example.org/zone\".x", "conf.nova.DEFAULT.debug"] {
        assert_eq!(Path::parse(text).unwrap().to_string(), text);
    }
    for (text, message) in [
        (
            "",
            "\"\" is not a valid path: a key is empty; write keys separated by single dots, such as conf.nova.DEFAULT.debug",
        ),
        (
            "a..b",
            "\"a..b\" is not a valid path: a key is empty; write keys separated by single dots, such as conf.nova.DEFAULT.debug",
        ),
        (
            "a.\"b",
            "\"a.\\\"b\" is not a valid path: a quote is not closed at the end of its key; put the whole key in quotes, as in labels.\"example.org/zone\"",
        ),
        (
            "\"a\"b",
            "\"\\\"a\\\"b\" is not a valid path: a quote is not closed at the end of its key; put the whole key in quotes, as in labels.\"example.org/zone\"",
        ),
    ] {
        assert_eq!(Path::parse(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn merges_unset_as_null_and_traces_every_layer() {
    let base = Layer::new(Origin::Derived("base".into()), map(json!({"conf": {"debug": true, "list": [1]}})));
    let mut user = Layer::new(Origin::Field("spec.common.values".into()), map(json!({"conf": {"debug": false}})));
    user.unset.push((0, Path::parse("conf.list").unwrap()));
    let layers = [base, user];
    assert_eq!(Value::Object(merge_layers(&layers)), json!({"conf": {"debug": false, "list": null}}));
    let path = Path::parse("conf.debug").unwrap();
    let traced: Vec<_> = trace(&layers, &path).into_iter().map(|t| (t.origin.to_string(), t.value)).collect();
    assert_eq!(traced, [("spec.common.values".into(), Some(json!(false))), ("base".into(), Some(json!(true)))]);
}

#[test]
fn canonical_form_ignores_key_order() {
    let one: Value = serde_json::from_str(r#"{"b":1,"a":{"d":null,"c":"x"}}"#).unwrap();
    let two: Value = serde_json::from_str(r#"{"a":{"c":"x","d":null},"b":1}"#).unwrap();
    assert_eq!(canonical(&one), r#"{"a":{"c":"x","d":null},"b":1}"#);
    assert_eq!(digest([canonical(&one).as_str()]), digest([canonical(&two).as_str()]));
    assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
    assert_eq!(digest(["x"]).len(), 63);
}

#[test]
fn lists_changed_paths() {
    let before = map(json!({"a": {"b": 1, "c": 2}, "d": [1], "e": 1}));
    let after = map(json!({"a": {"b": 1, "c": 3}, "d": [2], "f": null}));
    let paths: Vec<_> = changed_paths(&before, &after).iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["a.c", "d", "e", "f"]);
}

#[test]
fn keeps_credentials_secret_when_overridden() {
    let layer = |origin: Origin, values: Value, secret: &[&str]| {
        let mut layer = Layer::new(origin, map(values));
        layer.secret = secret.iter().map(|path| Path::parse(path).unwrap()).collect();
        layer
    };
    let file = Origin::File { file: "values/x.yaml".into(), field: "values".into() };
    let layers = [
        layer(file, json!({"auth": {"password": "made"}}), &["auth.password"]),
        layer(
            Origin::Object("Secret x".into()),
            json!({"replicas": 1, "kept": 2, "data": {"a": 1}}),
            &["replicas", "kept", "data"],
        ),
        layer(
            Origin::Field("spec".into()),
            json!({"replicas": 5, "data": {"b": 2}, "auth": {"password": "mine"}, "own": "x"}),
            &["own"],
        ),
    ];
    let found: Vec<String> = secret_paths(&layers).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["auth.password", "kept", "data", "own"]);
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..5i64).prop_map(Value::from)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn trees() -> impl Strategy<Value = Values> {
    prop::collection::btree_map("[abc]", tree(), 0..4).prop_map(|m| m.into_iter().collect())
}

proptest! {
    #[test]
    fn merge_is_idempotent(base in trees(), over in trees()) {
        let mut once = base;
        merge(&mut once, over.clone());
        let mut twice = once.clone();
        merge(&mut twice, over.clone());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn upper_layer_leaves_win(base in trees(), over in trees()) {
        let mut result = base;
        merge(&mut result, over.clone());
        for (path, value) in leaves(&over) {
            if !value.is_object() {
                prop_assert_eq!(get(&result, &path), Some(value));
            }
        }
    }
}

#[test]
fn removes_a_value_and_the_empty_maps_above_it() {
    let mut values = map(json!({"conf": {"keystone": {"token": {"expiration": 1}}}, "pod": {"replicas": {"api": 1}}}));
    for path in ["conf.keystone.token.expiration", "pod.replicas.other", "pod.replicas.api.deeper", "missing.path"] {
        remove(&mut values, &Path::parse(path).unwrap());
    }
    assert_eq!(values, map(json!({"pod": {"replicas": {"api": 1}}})));
}
