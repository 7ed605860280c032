//! Splits the path of a field, such as `spec.presets[0]`, into keys, and quotes keys that contain a dot.

use serde_json::Value;

use osdpl_core::catalog::schema::field_path;

/// Returns `field` with quotes around each key that contains a dot.
///
/// `object` is the object that contains the field. The first key of `gpu.nodes.names` can be `gpu` or `gpu.nodes`. The
/// function takes the key that exists in `object`.
pub(crate) fn quote_keys(object: &Value, field: &str) -> String {
    let mut found = String::new();
    let (mut value, mut rest) = (object, field.trim_start_matches('.'));
    while !rest.is_empty() {
        let (key, after) = split_first(value, rest);
        let index = key.strip_prefix('[').and_then(|key| key.strip_suffix(']'));
        match index {
            Some(_) => found.push_str(key),
            None => found = field_path(&found, key),
        }
        value = match index.map(str::parse::<usize>) {
            Some(index) => index.ok().and_then(|index| value.get(index)),
            None => value.get(key),
        }
        .unwrap_or(&Value::Null);
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    found
}

/// Splits `field` after its first key. Keys can contain dots, so the first key is the longest beginning of `field` that
/// is a key of the map `value`. If there is none, the first key ends before the first dot or bracket.
fn split_first<'a>(value: &Value, field: &'a str) -> (&'a str, &'a str) {
    if let Some(end) = field.find(']').filter(|_| field.starts_with('[')) {
        return field.split_at(end + 1);
    }
    let begins = |key: &&String| {
        field.strip_prefix(key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let known = value.as_object().into_iter().flat_map(|map| map.keys()).filter(begins).map(String::len).max();
    field.split_at(
        known.filter(|length| *length > 0).unwrap_or_else(|| field.find(['.', '[']).unwrap_or(field.len()).max(1)),
    )
}

/// Splits a field such as `spec.presets[0]`, `spec.services[nova]` or `spec.common.values.labels."a.b"` into its keys.
///
/// A key that is a number is the index of a list.
pub fn keys_of_field(field: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (key, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted.split_once('"').unwrap_or((quoted, ""))
        } else if let Some(inside) = rest.strip_prefix('[') {
            inside.split_once(']').unwrap_or((inside, ""))
        } else {
            rest.split_at(rest.find(['.', '[', ' ']).unwrap_or(rest.len()))
        };
        if !key.is_empty() {
            keys.push(key.to_owned());
        }
        // The field may end with a blank and an explanation, as in `spec.services (release nova)`. Ignore the
        // explanation.
        if after.starts_with(' ') {
            break;
        }
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    keys
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quotes_keys_with_dots() {
        let object =
            json!({"spec": {"nodes": {"roles": {"gpu.nodes": {"names": []}, "gpu": {}}}, "list": [{"a.b": {"c": 1}}]}});
        for (field, expected) in [
            ("spec.nodes.roles.gpu.nodes", "spec.nodes.roles.\"gpu.nodes\""),
            (".spec.nodes.roles.gpu.nodes.names[0]", "spec.nodes.roles.\"gpu.nodes\".names[0]"),
            ("spec.nodes.roles.gpu", "spec.nodes.roles.gpu"),
            ("spec.list[0].a.b.c", "spec.list[0].\"a.b\".c"),
            ("spec.nothing.of.it", "spec.nothing.of.it"),
            ("", ""),
        ] {
            assert_eq!(quote_keys(&object, field), expected);
        }
    }

    #[test]
    fn parses_every_form_of_a_field() {
        let cases = [
            ("spec.presets[0]", vec!["spec", "presets", "0"]),
            ("spec.services[nova].external.host", vec!["spec", "services", "nova", "external", "host"]),
            ("spec.common.values.labels.\"a.b/c\".d", vec!["spec", "common", "values", "labels", "a.b/c", "d"]),
            ("spec.services (release nova)", vec!["spec", "services"]),
            ("spec.images.mirrors[quay.io]", vec!["spec", "images", "mirrors", "quay.io"]),
            ("", vec![]),
        ];
        for (field, keys) in cases {
            assert_eq!(keys_of_field(field), keys, "{field}");
        }
    }
}
