//! Finds the secrets in assignments such as `smtp_auth_password: hunter2` or `bind_password = 'hunter2'`. The text may
//! be a whole configuration file, because charts take such files as one string in their values.

use super::words::{is_secret_key, sounds_secret};

/// The endings of keys that mark a secret only in an assignment within a text, such as `service_key=x`. A chart's
/// values may contain a key with such an ending, but there it does not mark a secret.
const KEYS: [&str; 3] = ["credentials", "service_key", "slack_api_url"];

/// Values that are never secret, even if the key before them sounds secret; in lower case.
const NOTHING: [&str; 9] = ["true", "false", "yes", "no", "none", "null", "~", "[]", "{}"];

/// The maximum number of assignments to search within the value of another assignment. For example, `password=token=x`
/// assigns the secret `token=x`, which in turn assigns the secret `x`.
///
/// Without this limit, each `password=` in `password=password=…` would assign another secret, and each secret would
/// contain the rest of the text.
const NESTED: usize = 8;

/// The maximum length in bytes of a secret that begins within another secret, see [`NESTED`]. The scrubber stores each
/// secret in many encodings, so without this limit, the secrets of one large text could fill the memory.
const LONGEST_NESTED: usize = 4 << 10;

/// Returns the secrets that a text assigns to keys, without the quotes around each secret.
///
/// References such as `{{ … }}` and `$(…)` are no secrets.
pub(super) fn find_assigned_secrets(text: &str) -> Vec<&str> {
    text.lines().flat_map(in_line).collect()
}

fn in_line(line: &str) -> Vec<&str> {
    let (mut end, mut nested, mut found) = (0, 0, Vec::new());
    for (index, _) in line.match_indices([':', '=']).filter(|(index, _)| is_secret(key(&line[..*index]))) {
        nested = if index < end { nested + 1 } else { 0 };
        if nested > NESTED {
            continue;
        }
        let value = value(&line[index..]);
        if nested > 0 && value.len() > LONGEST_NESTED {
            continue;
        }
        end = end.max(value.as_ptr().addr() - line.as_ptr().addr() + value.len());
        found.extend(is_written(value).then_some(value));
    }
    found
}

/// Returns the key at the end of `before`, which is the part of a line before a separator (`:` or `=`). The result
/// contains neither the quotes around the key nor the backslashes before these quotes.
fn key(before: &str) -> &str {
    let before = before.trim_end_matches([' ', '\t', '"', '\'', '\\']);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    &before[before.trim_end_matches(is_part).len()..]
}

fn is_secret(key: &str) -> bool {
    let lower = key.to_lowercase();
    is_secret_key(key) || lower.ends_with("key") && sounds_secret(key) || KEYS.iter().any(|key| lower.ends_with(key))
}

/// Returns the value that an assignment gives to its key. `behind` is the part of the line behind the key, and begins
/// with a separator (`:` or `=`).
///
/// The value is the text in quotes, or the first word. It is empty for a reference such as `$(…)` and for a function
/// call.
fn value(behind: &str) -> &str {
    let line = behind.trim_start_matches([':', '=', ' ', '\t']);
    let quoted = line.trim_start_matches('\\');
    if let Some(text) = quoted.strip_prefix('\'') {
        return text.split('\'').next().unwrap_or_default();
    }
    if let Some(text) = quoted.strip_prefix('"') {
        return in_double_quotes(text, line.len() - quoted.len());
    }
    if ["{{", "{%", "$(", "${"].iter().any(|start| line.starts_with(start)) || is_call(line) {
        return &line[..0];
    }
    // In JSON without blanks, only a comma or bracket separates a value from the next field. So a short number, or a
    // value such as `null`, ends at this separator.
    let scalar = line.split([',', '}', ']']).next().unwrap_or_default();
    let is_number = scalar.len() <= 5 && scalar.chars().all(|letter| letter.is_ascii_digit());
    if scalar.len() < line.len() && (is_number || NOTHING.contains(&scalar)) {
        return scalar;
    }
    let word = line.split_whitespace().next().unwrap_or(&line[..0]);
    word.trim_end_matches([',', ';', '}', ']', ')', '"', '\'', '\\'])
}

/// Returns the part of `text` before the closing quote. `text` begins directly after the opening quote. `escaped` is
/// the number of backslashes before the opening quote: in JSON within JSON, quotes have backslashes.
///
/// In `text`, each backslash of the content is written as 2 × (`escaped` + 1) backslashes. So before the closing quote
/// there are `escaped` backslashes and, if the content ends with backslashes, a multiple of 2 × (`escaped` + 1)
/// backslashes.
fn in_double_quotes(text: &str, escaped: usize) -> &str {
    let is_closing = |at: &usize| {
        let backslashes = at - text[..*at].trim_end_matches('\\').len();
        backslashes.checked_sub(escaped).is_some_and(|more| more % (2 * (escaped + 1)) == 0)
    };
    let end = text.match_indices('"').map(|(at, _)| at).find(is_closing);
    end.map_or(text, |end| &text[..end - escaped])
}

/// Whether a value can be a secret. An empty value, a reference to a secret, a variable, a function call and a word
/// such as `null` can't.
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
    let after = text.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter));
    after.len() < text.len() && after.starts_with('(') && text.trim_end().ends_with(')')
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
            (r#"{\"a\": {\"password\": \"hunter2\", \"user\": \"x\"}}"#, vec!["hunter2"]),
            (r#"{"password": "a\"b\\", "user": "x"}"#, vec![r#"a\"b\\"#]),
            (r#"{\"password\": \"a\\\"b\", \"user\": \"x\"}"#, vec![r#"a\\\"b"#]),
            (r#"{\"line\": \"password=hunter2\"}"#, vec!["hunter2"]),
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
    fn limits_the_secrets_within_a_secret() {
        assert_eq!(find_assigned_secrets("password=token=hunter2"), ["token=hunter2", "hunter2"]);
        for text in ["password=".repeat(1000), "token:'".repeat(1000), "a: {pin=${secret=".repeat(1000)] {
            let found = find_assigned_secrets(&text);
            assert!(found.iter().map(|secret| secret.len()).sum::<usize>() <= (NESTED + 1) * text.len(), "{text}");
        }
        assert_eq!(find_assigned_secrets(&"password=".repeat(10_000)).len(), 1);
        let flow = format!("{{{}password: {{{{ x }}}}, pin: hunter2}}", "token: ${x}, ".repeat(20));
        assert_eq!(find_assigned_secrets(&flow), ["hunter2"]);
    }

    #[test]
    fn ignores_separators_without_a_secret() {
        for text in ["", ":", "=", "password", "password:", "password: '", "é: é", "password: \"\n\"x\""] {
            assert!(find_assigned_secrets(text).is_empty(), "{text}");
        }
    }
}
