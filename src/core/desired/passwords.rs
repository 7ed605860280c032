//! Finds the passwords that a user wrote into features in plain text, and the values that contain them.
//!
//! Fragments of the catalogue copy settings of features into values. So osdpl must redact these passwords in the values
//! of releases, too.

use serde_json::Value;

use crate::scrub::{MIN_SECRET_LENGTH, find_secret_paths, is_secret_in_clear, is_secret_key, is_secret_value};
use osdpl_values::{Layer, Path, Values, leaves};

/// Returns the strings in features that osdpl considers passwords: strings whose key looks like the name of a password,
/// and strings that look like a secret themselves, such as a URL with a password. Ignores strings that are shorter than
/// [`MIN_SECRET_LENGTH`].
pub(super) fn find_passwords(features: &Values) -> Vec<String> {
    let mut found = Vec::new();
    in_map(features, &mut found);
    found
}

/// Returns the paths of a layer at which the value contains one of the passwords. If the password is in an item of a
/// list, the result contains the path of the list.
pub(super) fn find_paths(layer: &Layer, passwords: &[String]) -> Vec<Path> {
    if passwords.is_empty() {
        return Vec::new();
    }
    let has_one = |value: &Value| passwords.iter().any(|password| contains(value, password));
    leaves(&layer.values).into_iter().filter(|(_, value)| has_one(value)).map(|(path, _)| path).collect()
}

/// Returns the paths at which a user wrote a secret in plain text. osdpl never shows the values at these paths.
pub(super) fn plain_text_secret_paths(values: &Values) -> Vec<Path> {
    let found =
        leaves(values).into_iter().filter(|(path, value)| is_secret_in_clear(path, value)).map(|(path, _)| path);
    found.chain(find_secret_paths(values)).collect()
}

fn in_map(map: &Values, found: &mut Vec<String>) {
    map.iter().for_each(|(key, value)| in_value(key, value, found));
}

/// Adds to `found` the passwords in `value`, which is a value of a map. `key` is the key of this value, or of the list
/// that contains it.
fn in_value(key: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.len() >= MIN_SECRET_LENGTH => {
            let is_password = is_secret_key(key) && !names_something_else(key) || is_secret_value(&Path::root(), value);
            found.extend(is_password.then(|| text.clone()));
        }
        Value::Object(map) => in_map(map, found),
        Value::Array(items) => items.iter().for_each(|item| in_value(key, item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a key looks like the name of a password, but has another meaning.
///
/// The value of `secret`, or of a key that ends in `Secret`, is the name of a Secret. A key with a colon is a policy
/// rule (`secrets:post`).
fn names_something_else(key: &str) -> bool {
    key == "secret" || key.ends_with("Secret") || key.contains(':')
}

/// The minimum length, in bytes, of a password that osdpl also finds within longer strings, such as URLs. A shorter
/// password may occur in other words by chance, so osdpl finds it only if it is the whole string.
const WITHIN: usize = 8;

fn contains(value: &Value, password: &str) -> bool {
    match value {
        Value::String(text) => text == password || password.len() >= WITHIN && text.contains(password),
        Value::Array(items) => items.iter().any(|item| contains(item, password)),
        Value::Object(map) => map.values().any(|value| contains(value, password)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_values::Origin;

    fn map(value: Value) -> Values {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn finds_passwords_by_key_and_skips_names_of_secrets() {
        let features = map(json!({
            "volumes": {"backends": [{"name": "array", "secret": "account", "options": {"san_login": "admin", "san_password": "hunter2"}}]},
            "identity": {"ldap": {"url": "ldap://reader:letmein@ldap", "passwordSecret": "ldap", "tokens": {"provider": "fernet"}},
                         "compliance": {"passwordRegex": "^.{12,}$"}},
            "policies": {"barbican": {"secret:decrypt": "role:admin", "identity:create_credential": "role:admin"}},
            "brokers": {"pullSecrets": ["registry"], "password": ["opensesame"], "urls": ["http://plain", "amqp://nova:friend@rabbit"]},
        }));
        let found = ["opensesame", "amqp://nova:friend@rabbit", "ldap://reader:letmein@ldap", "hunter2"];
        assert_eq!(find_passwords(&features), found);
    }

    #[test]
    fn redacts_only_paths_that_contain_a_password() {
        let conf = json!({"array": {"san_ip": "10.0.0.9", "key": "hunter2"}, "list": [{"a": "hunter2"}], "other": ["a hunter2"],
                          "url": "http://a:long-enough@b"});
        let values = map(json!({"conf": conf}));
        let layer = Layer::new(Origin::Field("x".into()), values);
        let hidden = |passwords: &[&str]| {
            let passwords: Vec<String> = passwords.iter().map(ToString::to_string).collect();
            find_paths(&layer, &passwords).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(hidden(&["hunter2"]), ["conf.array.key", "conf.list"]);
        assert_eq!(hidden(&["long-enough"]), ["conf.url"]);
        assert_eq!(hidden(&[]), Vec::<String>::new());
    }
}
