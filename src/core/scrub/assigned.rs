//! Finds secrets in values that contain a whole configuration file: `smtp_auth_password: hunter2`,
//! `bind_password = 'hunter2'`.

use super::detect::{is_secret_key, sounds_secret};

/// In a configuration file, a value is secret if its key ends with one of these texts. In the values of a chart, such
/// keys do not mark secrets.
const KEYS: [&str; 3] = ["credentials", "service_key", "slack_api_url"];

/// Values that are never secret, even if their key sounds secret; in lower case.
const NOTHING: [&str; 9] = ["true", "false", "yes", "no", "none", "null", "~", "[]", "{}"];

/// Returns the secrets that a text assigns to keys, without quotes.
///
/// References such as `{{ … }}` and `$(…)` are no secrets.
pub(super) fn find_assigned_secrets(text: &str) -> Vec<&str> {
    let separators = text.match_indices([':', '=']);
    let found = separators.filter(|(index, _)| is_secret(key(&text[..*index]))).map(|(index, _)| value(&text[index..]));
    found.filter(|value| is_written(value)).collect()
}

/// Returns the key before a separator (`:` or `=`), without quotes.
fn key(before: &str) -> &str {
    let before = before.trim_end_matches([' ', '\t', '"', '\'']);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    &before[before.trim_end_matches(is_part).len()..]
}

fn is_secret(key: &str) -> bool {
    let lower = key.to_lowercase();
    is_secret_key(key) || lower.ends_with("key") && sounds_secret(key) || KEYS.iter().any(|key| lower.ends_with(key))
}

/// Returns the value after a separator (`:` or `=`): the text in quotes, a whole reference such as `$(…)`, or the first
/// word.
fn value(behind: &str) -> &str {
    let line = behind.lines().next().unwrap_or_default().trim_start_matches([':', '=', ' ', '\t']);
    if let Some(quote) = line.chars().next().filter(|first| "\"'".contains(*first)) {
        return line[1..].split(quote).next().unwrap_or_default();
    }
    let is_reference = ["{{", "{%", "$(", "${"].iter().any(|start| line.starts_with(start)) || is_call(line);
    let word = line.split_whitespace().next().unwrap_or_default();
    if is_reference { line } else { word.trim_end_matches([',', ';', '}', ']', ')', '"', '\'']) }
}

/// Whether a value is itself a secret: it is not empty, and not a reference, variable or placeholder.
fn is_written(value: &str) -> bool {
    let is_reference = ["{{", "{%", "$(", "${", "%(", "<redacted>"].iter().any(|part| value.contains(part));
    if is_call(value) {
        return false;
    }
    let is_variable = value.strip_prefix('$').is_some_and(|name| {
        name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_')
    });
    !value.is_empty() && !is_reference && !is_variable && !NOTHING.contains(&value.to_lowercase().as_str())
}

/// Whether a text is a function call in a script: `function(…)`.
fn is_call(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter))
    };
    text.trim_end().ends_with(')') && text.split_once('(').is_some_and(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_secrets_in_all_notations() {
        for (text, found) in [
            ("global:\n  smtp_auth_password: 'hunter2'\n  smtp_from: a@b.c\n", vec!["hunter2"]),
            ("bind_dn = \"cn=admin\"\nbind_password = 'hunter2'\n", vec!["hunter2"]),
            ("[client]\nuser=nova\npassword=hunter2\n", vec!["hunter2"]),
            ("userPassword: {SSHA}hunter2\nuserPassword:: aHVudGVyMg==\n", vec!["{SSHA}hunter2", "aHVudGVyMg=="]),
            ("wsrep_sst_auth=root:hunter2\n", vec!["root:hunter2"]),
            ("options: {host: 10.0.0.1, api_token: hunter2, port: 53}", vec!["hunter2"]),
            ("{\"auth\": {\"api_password\": \"hunter2\", \"user\": \"x\"}}", vec!["hunter2"]),
            ("SECRET_KEY = 'hunter2'\n", vec!["hunter2"]),
            ("authorization: {credentials: hunter2}", vec!["hunter2"]),
            ("password: $6$hunter2", vec!["$6$hunter2"]),
            ("password: {{ .Values.endpoints.x.password | quote }}\nsecret: \"{{ .x }}\"\n", vec![]),
            ("export OS_PASSWORD=$(cat /run/secret) DB_PASSWORD=$PASSWORD token=${1}\n", vec![]),
            ("password:\n  min_length: 8\ntoken: \"\"\nsecret: null\nis_private: true\n", vec![]),
            ("secret = kubernetes('GET', f'/secrets/{name}')\nself.password = getpass()\n", vec![]),
            ("auth_type = password\nimagePullSecrets: [x]\nsecretName: tls\nprovider = fernet\n", vec![]),
            ("password_expires_days = 90\ntoken_provider: fernet\nprivate_key_path: /etc/x\n", vec![]),
        ] {
            assert_eq!(find_assigned_secrets(text), found, "{text}");
        }
    }

    #[test]
    fn ignores_separators_without_a_secret() {
        for text in ["", ":", "=", "password", "password:", "password: '", "é: é", "password: \"\n\"x\""] {
            assert!(find_assigned_secrets(text).is_empty(), "{text}");
        }
    }
}
