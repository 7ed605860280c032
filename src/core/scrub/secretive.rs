//! Which values must not be shown, nor stand in a spec that many may read, whatever their layer says of them.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::assigned::assigned;
use osdpl_values::Path;

/// Words in a key whose value is to be hidden.
const WORDS: [&str; 21] = [
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
    "access_key",
    "url_key",
    "tmpurlkey",
    "hash_path",
    "sst_auth",
];

/// Keys' last words below which nothing is a setting: whatever someone writes there, it is what the key names.
const PASSWORDS: [&str; 4] = ["password", "passphrase", "passwd", "pwd"];

/// A word that, alone or as a key's last, says that a number is to be hidden as well: too short to be looked for anywhere within a key.
const PIN: &str = "pin";

/// Whether a value is taken for a secret: its key says so, or it holds a private key, an address with a password, or a key with one. A record knows
/// no marks, so too much is hidden rather than too little; below the charts' own `secrets` there are the names of Secrets.
pub fn secretive(path: &Path, value: &Value) -> bool {
    let keys = path.keys();
    if value.is_boolean() || keys.first().is_some_and(|top| top == "secrets") {
        return false;
    }
    if value.is_number() {
        return keys.last().is_some_and(|key| names_secret(key)) || is_below_password(keys, value);
    }
    keys.iter().any(|key| sounds_secret(key)) || holds(value)
}

/// Whether what someone has written where it can be read is taken for a secret. A layer marks what it knows itself, so that this is less than
/// [`secretive`]: below a key that only sounds like a secret (`token: {provider: fernet}`) there are settings.
pub fn written(path: &Path, value: &Value) -> bool {
    let keys = path.keys();
    let own = keys.last().map(|key| Path::root().child(key)).unwrap_or_default();
    let is_plain = value.is_null() || keys.first().is_none_or(|top| top == "secrets");
    !is_plain && (secretive(&own, value) || is_below_password(keys, value))
}

/// Whether a text, or a number too long for a setting, stands below a key that names a password.
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

pub(super) fn sounds_secret(name: &str) -> bool {
    WORDS.iter().any(|word| name.to_lowercase().contains(word))
}

/// Whether a key's last word names a secret: settings about one (`token.expiration`, `password_expires_days`) are numbers as well.
pub fn names_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    key.rsplit(['_', '-', '.']).next() == Some(PIN) || WORDS.iter().any(|word| key.ends_with(word))
}

/// A container's environment variable with its value written out: one that comes from a Secret has `valueFrom`.
fn is_variable(map: &Map<String, Value>) -> bool {
    map.contains_key("name") && map.contains_key("value")
}

/// Whether a secret is written in it.
fn holds(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("PRIVATE KEY-----") || has_login(text) || !assigned(text).is_empty(),
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

/// All texts within a value that came out of a Secret, with the secrets that they say themselves, and long numbers.
pub fn scalars(value: &Value) -> Vec<Cow<'_, str>> {
    match value {
        Value::String(text) => [text.as_str()].into_iter().chain(assigned(text)).map(Cow::from).collect(),
        Value::Number(number) => {
            let text = Some(number.to_string()).filter(|text| text.len() > LONGEST_PORT);
            text.into_iter().chain(printed(number)).map(Cow::from).collect()
        }
        Value::Array(items) => items.iter().flat_map(scalars).collect(),
        Value::Object(map) => map.values().flat_map(scalars).collect(),
        Value::Null | Value::Bool(_) => Vec::new(),
    }
}

/// From this exponent on Go's `%v` writes a float with it (`strconv`, format `g`, the shortest that says it).
const GO_EXPONENT: i32 = 6;

/// A long number as templates print it, for which helm reads every number as a float: `12345678` is `1.2345678e+07`.
fn printed(number: &Number) -> Option<String> {
    let text = format!("{:e}", number.as_f64()?);
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    (exponent >= GO_EXPONENT).then(|| format!("{mantissa}e+{exponent:02}"))
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
            ("conf.keystone.custom.admin_password", json!(12_345_678), true),
            ("conf.keystone.custom.PASSWORD", json!(12_345_678), true),
            ("conf.keystone.custom.db-passwd", json!(12_345_678), true),
            ("conf.neutron.DEFAULT.metadata_proxy_shared_secret", json!(12_345_678), true),
            ("conf.barbican.p11_crypto_plugin.login_pin", json!(1234), true),
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
            assert_eq!(secretive(&Path::parse(path).unwrap(), &value), is, "{path}");
        }
    }

    #[test]
    fn what_someone_wrote_is_a_secret_by_its_own_key_or_below_one_that_names_a_password() {
        for (path, value, is) in [
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
            assert_eq!(written(&Path::parse(path).unwrap(), &value), is, "{path}");
        }
        assert!(secretive(&Path::parse("conf.x.password.pin_of").unwrap(), &json!(12_345_678)));
    }

    #[test]
    fn what_a_text_says_is_known_alone_as_well() {
        assert_eq!(scalars(&json!("user: nova\npassword: hunter2\n")), ["user: nova\npassword: hunter2\n", "hunter2"]);
    }

    #[test]
    fn a_long_number_is_known_as_it_is_written_and_as_templates_print_it() {
        let found = |value: &Value| scalars(value).into_iter().map(Cow::into_owned).collect::<Vec<_>>();
        assert_eq!(found(&json!({"pin": 12_345_678})), ["12345678", "1.2345678e+07"]);
        assert_eq!(found(&json!([1_000_000, 123_456, 3306])), ["1000000", "1e+06", "123456"]);
    }
}
