//! Recognizes values that are probably secrets although no layer of values marks them as secret. osdpl neither shows
//! such values nor writes them into a spec.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::assigned::find_assigned_secrets;
use super::words::{is_secret_key, sounds_secret};
use osdpl_values::{Path, print_large_number};

/// A key that ends with one of these words names a password. If the value of such a key is a map, osdpl treats the
/// strings and lists in the map as secrets, and the numbers with more digits than a port number. A map under any other
/// secret key, such as `token`, may contain settings that are not secret.
const PASSWORDS: [&str; 4] = ["password", "passphrase", "passwd", "pwd"];

/// Whether a value probably is a secret: because of a key on its path, or because it contains a private key, a URL with
/// a password, an assignment to a secret key, or an environment variable with a secret name.
///
/// The values in helm's release records carry no marks for secrets, so the function returns true in cases of doubt. The
/// charts' top-level key `secrets` contains only names of Kubernetes Secrets, which are not secret.
pub fn is_secret_value(path: &Path, value: &Value) -> bool {
    let keys = path.keys();
    if value.is_boolean() || keys.first().is_some_and(|top| top == "secrets") {
        return false;
    }
    let has_secret_key = keys.last().is_some_and(|key| is_secret_key(key));
    if value.is_number() {
        return has_secret_key || is_below_password(keys, value);
    }
    has_secret_key || keys.iter().any(|key| sounds_secret(key)) || has_secret(value)
}

/// Whether a value that a user wrote in the spec probably is a secret.
///
/// The layers of values already mark most secrets of the spec. So this function returns true in fewer cases than
/// [`is_secret_value`]: of the keys above the value's own key, only a key that names a password counts. Below any other
/// secret key, such as `token`, there may be settings, for example `token: {provider: fernet}`.
pub(crate) fn is_secret_in_clear(path: &Path, value: &Value) -> bool {
    let keys = path.keys();
    let own = keys.last().map(|key| Path::root().child(key)).unwrap_or_default();
    let is_plain = value.is_null() || keys.first().is_none_or(|top| top == "secrets");
    !is_plain && (is_secret_value(&own, value) || is_below_password(keys, value))
}

/// Whether one of the keys above a value's own key names a password, and the value is a string, a list, or a number
/// with more digits than a port number.
fn is_below_password(keys: &[String], value: &Value) -> bool {
    let above = keys.split_last().map(|(_, above)| above).unwrap_or_default();
    let names = |key: &String| PASSWORDS.iter().any(|word| key.to_lowercase().ends_with(word));
    above.iter().any(names)
        && match value {
            Value::Number(number) => number.to_string().len() > LONGEST_PORT,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Null | Value::Bool(_) | Value::Object(_) => false,
        }
}

/// Whether a map describes a container's environment variable that has a literal value.
///
/// A variable whose value comes from a Secret has the key `valueFrom` instead of `value`.
fn is_variable(map: &Map<String, Value>) -> bool {
    map.contains_key("name") && map.contains_key("value")
}

/// Whether a value contains a secret: in the text of a string, or in an item of a list or map.
fn has_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            text.contains("PRIVATE KEY-----") || has_login(text) || !find_assigned_secrets(text).is_empty()
        }
        Value::Array(items) => items.iter().any(|item| is_secret_value(&Path::root(), item)),
        Value::Object(map) => {
            map.iter().any(|(key, value)| is_secret_value(&Path::root().child(key), value))
                || is_variable(map) && map["name"].as_str().is_some_and(sounds_secret)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a text contains `scheme://user:password@host`.
fn has_login(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', ' ', '\n', '"']).next().unwrap_or_default();
        authority.split_once('@').is_some_and(|(login, _)| login.contains(':'))
    })
}

/// The maximum number of digits of a port number.
///
/// The scrubber removes only longer numbers from texts, because every address contains a port number.
const LONGEST_PORT: usize = 5;

/// Returns the texts in a secret value that the scrubber must remove from logs: the value's strings, its numbers with
/// more digits than a port number (as written, and as helm prints large numbers), and the secrets that its strings
/// contain.
pub fn collect_secret_scalars(value: &Value) -> Vec<Cow<'_, str>> {
    match value {
        Value::String(text) => [text.as_str()].into_iter().chain(find_assigned_secrets(text)).map(Cow::from).collect(),
        Value::Number(number) => {
            let text = Some(number.to_string()).filter(|text| text.len() > LONGEST_PORT);
            text.into_iter().chain(print_large_number(number)).map(Cow::from).collect()
        }
        Value::Array(items) => items.iter().flat_map(collect_secret_scalars).collect(),
        Value::Object(map) => map.values().flat_map(collect_secret_scalars).collect(),
        Value::Null | Value::Bool(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn detects_secrets_by_key_and_shape() {
        for (path, value, expected) in [
            ("endpoints.identity.auth.admin.password", json!("x"), true),
            ("conf.nova.DEFAULT.transport_url", json!("x"), true),
            ("conf.nova.DEFAULT.connection", json!("mysql://nova:x@mariadb:3306/nova"), true),
            ("conf.tls.key", json!("-----BEGIN PRIVATE KEY-----\nMII"), true),
            ("conf.list", json!([{"secret": "x"}]), true),
            ("conf.heat.DEFAULT.auth_encryption_key", json!("x"), true),
            ("pass.password", json!(12_345_678), true),
            ("conf.keystone.custom.admin_password", json!(12_345_678), true),
            ("conf.keystone.custom.PASSWORD", json!(12_345_678), true),
            ("conf.keystone.custom.db-passwd", json!(12_345_678), true),
            ("conf.neutron.DEFAULT.metadata_proxy_shared_secret", json!(12_345_678), true),
            ("conf.barbican.p11_crypto_plugin.login_pin", json!(1234), true),
            ("conf.barbican.p11_crypto_plugin.login_pin", json!("1234"), true),
            ("conf.barbican.kmip.pin", json!("hunter2"), true),
            ("conf.nova.libvirt.cpu_spin", json!(12_345_678), false),
            ("conf.keystone.token.password_expires_days", json!(90), false),
            ("pod.env.api", json!([{"name": "MY_PASSWORD", "value": "x"}]), true),
            ("pod.env.api", json!([{"name": "MY_COLOUR", "value": "x"}]), false),
            ("conf.nova.DEFAULT.debug", json!(true), false),
            ("secrets.identity.admin", json!("keystone-admin"), false),
            ("conf.keystone.token.expiration", json!(3600), false),
            ("conf.url", json!("https://example.org/a@b:c"), false),
            ("conf.alertmanager", json!("global:\n  smtp_auth_password: 'x'\n"), true),
            ("conf.alertmanager", json!("global:\n  smtp_auth_password: {{ .Values.x }}\n"), false),
            ("endpoints.object_store.auth.glance.tmpurlkey", json!("x"), true),
            ("endpoints.ceph_object_store.auth.rgw.access_key", json!("x"), true),
            ("conf.ironic.glance.swift_temp_url_key", json!("x"), true),
            ("conf.swift.swift-hash.swift_hash_path_suffix", json!("x"), true),
        ] {
            assert_eq!(is_secret_value(&Path::parse(path).unwrap(), &value), expected, "{path}");
        }
    }

    #[test]
    fn detects_secrets_by_own_key_or_password_parent() {
        for (path, value, expected) in [
            ("conf.nova.neutron.password", json!("x"), true),
            ("conf.nova.neutron.password.x", json!("x"), true),
            ("conf.nova.neutron.password.x.y", json!(12_345_678), true),
            ("conf.nova.neutron.Admin-Passphrase.x", json!(["x"]), true),
            ("conf.keystone.token.provider", json!("fernet"), false),
            ("pod.security_context.rabbitmq.container.rabbitmq_password.runAsUser", json!(999), false),
            ("pod.security_context.rabbitmq.container.rabbitmq_password.readOnlyRootFilesystem", json!(true), false),
            ("secrets.password.admin", json!("keystone-admin"), false),
            ("conf.nova.neutron.password", json!(null), false),
            ("password", json!("x"), true),
        ] {
            assert_eq!(is_secret_in_clear(&Path::parse(path).unwrap(), &value), expected, "{path}");
        }
        assert!(is_secret_value(&Path::parse("conf.x.password.pin_of").unwrap(), &json!(12_345_678)));
    }

    #[test]
    fn secrets_within_texts_count_separately() {
        assert_eq!(
            collect_secret_scalars(&json!("user: nova\npassword: hunter2\n")),
            ["user: nova\npassword: hunter2\n", "hunter2"]
        );
    }

    #[test]
    fn long_numbers_count_as_written_and_as_printed() {
        let found = |value: &Value| collect_secret_scalars(value).into_iter().map(Cow::into_owned).collect::<Vec<_>>();
        assert_eq!(found(&json!({"pin": 12_345_678})), ["12345678", "1.2345678e+07"]);
        assert_eq!(found(&json!([1_000_000, 123_456, 3306])), ["1000000", "1e+06", "123456"]);
    }
}
