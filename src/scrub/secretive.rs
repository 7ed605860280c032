//! Which values must not be shown, nor stand in a spec that many may read, whatever their layer says of them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::values::Path;

/// Words in a key whose value is to be hidden.
const WORDS: [&str; 16] = [
    "password",
    "passphrase",
    "passwd",
    "secret",
    "token",
    "private",
    "credential",
    "keyring",
    "transport_url",
    "api_key",
    "encryption_key",
    "heartbeat_key",
    "cookie",
    "apikey",
    "pwd",
    "kek",
];

/// Keys whose value is to be hidden even where it is a number: settings like `token.expiration` are numbers as well.
const OF_NUMBERS: [&str; 4] = ["password", "passphrase", "passwd", "pin"];

/// Whether a value is taken for a secret: its key says so, or it holds a private key or an address with a password. A record knows no marks, so
/// too much is hidden rather than too little; below the charts' own `secrets` there are the names of Secrets.
pub fn secretive(path: &Path, value: &Value) -> bool {
    let keys = path.keys();
    if value.is_boolean() || keys.first().is_some_and(|top| top == "secrets") {
        return false;
    }
    if value.is_number() {
        return keys.last().is_some_and(|key| OF_NUMBERS.contains(&key.as_str()));
    }
    keys.iter().any(|key| sounds_secret(key)) || holds(value)
}

fn sounds_secret(name: &str) -> bool {
    WORDS.iter().any(|word| name.to_lowercase().contains(word))
}

/// A container's environment variable with its value written out: one that comes from a Secret has `valueFrom`.
fn is_variable(map: &Map<String, Value>) -> bool {
    map.contains_key("name") && map.contains_key("value")
}

/// Whether a secret is written in it.
fn holds(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("PRIVATE KEY-----") || has_login(text),
        Value::Array(items) => items.iter().any(|item| secretive(&Path::root(), item)),
        Value::Object(map) => {
            map.iter().any(|(key, value)| secretive(&Path::root().child(key), value))
                || is_variable(map) && map["name"].as_str().is_some_and(sounds_secret)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// `scheme://user:password@host`
fn has_login(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', ' ', '\n', '"']).next().unwrap_or_default();
        authority.split_once('@').is_some_and(|(login, _)| login.contains(':'))
    })
}

/// Shorter numbers are no secrets, and would be taken out of every address.
const LONGEST_PORT: usize = 5;

/// All texts within a value that came out of a Secret, and long numbers.
pub fn scalars(value: &Value) -> Vec<Cow<'_, str>> {
    match value {
        Value::String(text) => vec![text.as_str().into()],
        Value::Number(number) => {
            Some(number.to_string()).filter(|text| text.len() > LONGEST_PORT).into_iter().map(Cow::from).collect()
        }
        Value::Array(items) => items.iter().flat_map(scalars).collect(),
        Value::Object(map) => map.values().flat_map(scalars).collect(),
        Value::Null | Value::Bool(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_named_or_looks_like_a_secret_is_one() {
        for (path, value, is) in [
            ("endpoints.identity.auth.admin.password", json!("x"), true),
            ("conf.nova.DEFAULT.transport_url", json!("x"), true),
            ("conf.nova.DEFAULT.connection", json!("mysql://nova:x@mariadb:3306/nova"), true),
            ("conf.tls.key", json!("-----BEGIN PRIVATE KEY-----\nMII"), true),
            ("conf.list", json!([{"secret": "x"}]), true),
            ("conf.heat.DEFAULT.auth_encryption_key", json!("x"), true),
            ("pass.password", json!(12_345_678), true),
            ("conf.keystone.token.password_expires_days", json!(90), false),
            ("pod.env.api", json!([{"name": "MY_PASSWORD", "value": "x"}]), true),
            ("pod.env.api", json!([{"name": "MY_COLOUR", "value": "x"}]), false),
            ("conf.nova.DEFAULT.debug", json!(true), false),
            ("secrets.identity.admin", json!("keystone-admin"), false),
            ("conf.keystone.token.expiration", json!(3600), false),
            ("conf.url", json!("https://example.org/a@b:c"), false),
        ] {
            assert_eq!(secretive(&Path::parse(path).unwrap(), &value), is, "{path}");
        }
    }
}
