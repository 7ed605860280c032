//! Compares the results of this crate's evaluation with those of the interpreter of the crate cel.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn variables() -> Values {
    map(json!({
        "spec": {"none": null, "flag": true, "whole": 3, "part": 1.5, "text": "a,b", "list": [1, "a", 3],
                 "map": {"a": {"b": 1}, "c": 2}, "maps": [{"name": "x", "size": 2}, {"name": "y"}]},
        "features": {"large": u64::MAX, "small": -7, "empty": [], "nested": [[1, 2], [], [3]]},
    }))
}

/// Evaluates an expression with the interpreter of cel; `None` if the evaluation fails, or if JSON can't represent the
/// result.
fn by_cel(text: &str) -> Option<Value> {
    let mut context = cel::Context::default();
    for (name, value) in variables() {
        context.add_variable_from_value(name, to_cel(&value));
    }
    to_json(cel::Program::compile(text).unwrap().execute(&context).ok()?)
}

fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => {
            let whole = number.as_i64().map(cel::Value::Int).or_else(|| number.as_u64().map(cel::Value::UInt));
            whole.unwrap_or_else(|| cel::Value::Float(number.as_f64().unwrap()))
        }
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_cel).collect::<Vec<_>>().into(),
        Value::Object(map) => {
            let map: std::collections::HashMap<String, _> =
                map.iter().map(|(key, value)| (key.clone(), to_cel(value))).collect();
            map.into()
        }
    }
}

fn to_json(value: cel::Value) -> Option<Value> {
    Some(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(flag) => flag.into(),
        cel::Value::Int(number) => number.into(),
        cel::Value::UInt(number) => number.into(),
        cel::Value::Float(number) => number.into(),
        cel::Value::String(text) => text.as_str().into(),
        cel::Value::List(items) => items.iter().cloned().map(to_json).collect::<Option<Vec<_>>>()?.into(),
        cel::Value::Map(map) => {
            let pairs = map.map.iter().map(|(key, value)| Some((key.to_string(), to_json(value.clone())?)));
            Value::Object(pairs.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn compare(text: &str) {
    let evaluated = Expression::compile(text).unwrap().evaluate(&Scope::new(variables()));
    assert_eq!(evaluated.as_ref().ok(), by_cel(text).as_ref(), "{text}: {evaluated:?}");
}

#[test]
fn evaluates_like_cel() {
    for text in [
        "spec.text.a.b",
        "spec.none.a",
        "spec.map.b",
        "has(spec.text.a) || has(spec.map.a.b)",
        "-features.small + 2 * 3 % 4 - 9 / 2",
        "1.5 * 2.0 - 3.0 / 4.0",
        "1 + 1.5",
        "1 == 1.0",
        "1 < 1.5 && features.large > 1 && features.small < features.large",
        "9223372036854775807 + 1",
        "1 / 0",
        "1 % 0",
        "'b' > 'a' && true > false",
        "spec.list + [spec.text + 'x'] + []",
        "[1, 2] == [1, 2] && {'a': 1} != {'a': 2}",
        "'a' in spec.map && 3 in spec.list && !('z' in spec.map)",
        "spec.list[1] + spec.maps[0]['name'] + ['a', 'b'][1]",
        "spec.list[3]",
        "spec.list['a']",
        "spec.map['z']",
        "{1: 'a', true: 'b', 'c': spec.map}",
        "[1, 2, 3].map(x, x * 2)",
        "[1, 2, 3].map(x, x % 2 == 1, [x])",
        "[1, 2, 3, 2].filter(x, x != 2)",
        "[1, 2, 2].exists_one(x, x == 1) && ![1, 2, 2].exists_one(x, x == 2)",
        "features.nested.map(x, x.map(x, x + 1))",
        "features.nested.filter(x, x.exists(y, y > 2)).map(z, size(z))",
        "spec.maps.exists(m, has(m.size) && m.size == 2)",
        "spec.maps.all(m, m.size == 2)",
        "{'only': 1}.map(k, k)",
        "spec.text.map(x, x)",
        "(1 / 0 == 1) || true",
        "(1 / 0 == 1) && false",
        "false || (1 / 0 == 1)",
        "true ? 1 : spec.missing",
        "size('ü') + size([1]) + size(spec.map) + 'abc'.size()",
        "'abc'.contains('b') && spec.list.contains(3) && spec.map.contains('a') && !spec.list.contains(4)",
        "'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.matches('^[a-c]+$')",
        "max(1, 3, 2) + min([4, 5]) + max([7])",
        "max([])",
        "max(1, 'a')",
        "string(max(spec.text))",
        "string(1) + string(1.5) + string(2.0) + string('x')",
        "int('7') + int(2.9) + int(3)",
        "int('x')",
        "uint(3)",
        "uint(-1)",
        "double('1.5') + double(2)",
    ] {
        compare(text);
    }
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "0",
        "2",
        "1.5",
        "'a'",
        "'a,b'",
        "true",
        "null",
        "[]",
        "spec.list",
        "spec.map",
        "spec.maps",
        "spec.text",
        "spec.whole",
        "features.nested",
        "features.large",
        "features.small",
        "spec.missing",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let operator =
            prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", "&&", "||", "in"]);
        let fold = prop::sample::select(vec!["map", "filter", "all", "exists", "exists_one"]);
        let function = prop::sample::select(vec!["size", "string", "int", "max", "double"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(one, sign, other)| format!("({one}) {sign} ({other})")),
            (inner.clone(), fold, inner.clone())
                .prop_map(|(list, fold, body)| format!("({list}).{fold}(x, x == {body})")),
            (inner.clone(), inner.clone()).prop_map(|(list, body)| format!("({list}).map(x, [x, {body}])")),
            (function, inner.clone()).prop_map(|(name, argument)| format!("{name}({argument})")),
            (inner.clone(), inner.clone()).prop_map(|(of, at)| format!("({of})[{at}]")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(one, two, three)| format!("({one}) ? ({two}) : ({three})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]
    #[test]
    fn evaluates_any_expression_like_cel(text in expression()) {
        if Expression::compile(&text).is_ok() {
            compare(&text);
        }
    }
}
