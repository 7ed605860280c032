//! Computes the values with which helm renders a chart: merges the given values over the chart's defaults.

use serde_json::{Number, Value};

use super::Values;

/// The limit below which a float represents every whole number exactly: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Merges `given` over the chart's `defaults`, as helm does before it renders.
///
/// In `given`, a null removes the key's default, a map is merged over a default that is a map, and any other value
/// replaces the default. The result keeps a null of `given` whose key has no default, but only at the top level and in
/// maps without a default. Source: `coalesceValues` and `coalesceTables` in helm v3.22.0 and v4.3.1.
pub fn coalesce(defaults: &Values, given: &Values) -> Values {
    let mut result = given.clone();
    for (key, default) in defaults {
        match result.get_mut(key) {
            None => drop(result.insert(key.clone(), default.clone())),
            Some(Value::Null) => drop(result.remove(key)),
            Some(Value::Object(over)) => {
                if let Value::Object(default) = default {
                    *over = table(default, over);
                }
            }
            Some(_) => {}
        }
    }
    result
}

/// Merges the nested map `given` over the nested map `defaults`. Unlike at the top level, helm here also removes a null
/// of `given` whose key has no default.
fn table(defaults: &Values, given: &Values) -> Values {
    let mut result = coalesce(defaults, given);
    result.retain(|key, value| !value.is_null() || !given.get(key).is_some_and(Value::is_null));
    result
}

/// Removes nulls, and maps that contain only nulls, because templates treat a null like a missing key.
pub fn remove_nulls(values: &mut Values) {
    values.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(map) if !map.is_empty() => {
            remove_nulls(map);
            !map.is_empty()
        }
        _ => true,
    });
}

/// Converts whole floats to integers, because helm's release record contains `1` where a chart or a user wrote `1.0`.
pub fn normalize_numbers(values: &mut Values) {
    values.values_mut().for_each(normalize_number);
}

#[expect(clippy::cast_possible_truncation, reason = "only whole numbers below 2^53")]
fn normalize_number(value: &mut Value) {
    match value {
        Value::Object(map) => normalize_numbers(map),
        Value::Array(items) => items.iter_mut().for_each(normalize_number),
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT);
            if let Some(whole) = whole {
                *number = Number::from(whole as i64);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Values {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn coalesces_as_helm_does() {
        for (defaults, given, expected) in [
            (json!({"a": 1}), json!({}), json!({"a": 1})),
            (json!({"a": 1}), json!({"a": null}), json!({})),
            (json!({}), json!({"a": null}), json!({"a": null})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}}), json!({"a": {"c": 2}})),
            (json!({"a": {"b": 1}}), json!({"a": {"c": null}}), json!({"a": {"b": 1}})),
            (json!({"a": {"b": [1, 2]}}), json!({"a": {"b": [3]}}), json!({"a": {"b": [3]}})),
            (json!({"a": {"b": 1}}), json!({"a": "text"}), json!({"a": "text"})),
            (json!({"a": "text"}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
            (json!({"a": null}), json!({}), json!({"a": null})),
        ] {
            let result = coalesce(&map(defaults.clone()), &map(given.clone()));
            assert_eq!(Value::Object(result), expected, "{defaults} under {given}");
        }
    }

    #[test]
    fn removes_nulls_and_keeps_empty_maps() {
        let mut values = map(json!({"a": {"b": {"c": null}, "d": 1}, "e": {"f": null}, "g": {}, "h": [null]}));
        remove_nulls(&mut values);
        assert_eq!(Value::Object(values), json!({"a": {"d": 1}, "g": {}, "h": [null]}));
    }

    #[test]
    fn normalizes_whole_numbers() {
        let mut one = map(json!({"a": [1.0, 0.5], "b": {"c": -3.0, "d": "1.0"}}));
        normalize_numbers(&mut one);
        assert_eq!(Value::Object(one), json!({"a": [1, 0.5], "b": {"c": -3, "d": "1.0"}}));
    }
}
