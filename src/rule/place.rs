//! From a field as it is written to the keys that lead to it.

/// The keys of a field: `spec.presets[0]`, `spec.services[nova]`, `spec.common.values.labels."a.b"`; numbers are places in lists.
pub fn keys_of(field: &str) -> Vec<String> {
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
        // What follows a blank is an explanation: `spec.services (release nova)`.
        if after.starts_with(' ') {
            break;
        }
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_field_leads_to_its_keys() {
        let cases = [
            ("spec.presets[0]", vec!["spec", "presets", "0"]),
            ("spec.services[nova].external.host", vec!["spec", "services", "nova", "external", "host"]),
            ("spec.common.values.labels.\"a.b/c\".d", vec!["spec", "common", "values", "labels", "a.b/c", "d"]),
            ("spec.services (release nova)", vec!["spec", "services"]),
            ("spec.images.mirrors[quay.io]", vec!["spec", "images", "mirrors", "quay.io"]),
            ("", vec![]),
        ];
        for (field, keys) in cases {
            assert_eq!(keys_of(field), keys, "{field}");
        }
    }
}
