//! What texts say of secrets: many a program's whole configuration stands in one value (`smtp_auth_password: hunter2`, `bind_password = 'hunter2'`).

use super::secretive::{names_secret, sounds_secret};

/// Keys that are secret within a text, where a value's own key tells less.
const KEYS: [&str; 3] = ["credentials", "service_key", "slack_api_url"];

/// What stands where a secret belongs and is none.
const NOTHING: [&str; 9] = ["true", "false", "yes", "no", "none", "null", "~", "[]", "{}"];

/// The secrets that a text gives to keys, each without its quotes. One that is made of something else (`{{ … }}`, `$(…)`) is none by itself.
pub fn assigned(text: &str) -> Vec<&str> {
    let marks = text.match_indices([':', '=']);
    let found = marks.filter(|(at, _)| is_secret(key(&text[..*at]))).map(|(at, _)| value(&text[at..]));
    found.filter(|value| is_written(value)).collect()
}

/// What stands before a mark, without its quotes.
fn key(before: &str) -> &str {
    let before = before.trim_end_matches([' ', '\t', '"', '\'']);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    &before[before.trim_end_matches(is_part).len()..]
}

fn is_secret(key: &str) -> bool {
    let lower = key.to_lowercase();
    names_secret(key) || lower.ends_with("key") && sounds_secret(key) || KEYS.iter().any(|key| lower.ends_with(key))
}

/// What stands behind a mark, in its line.
fn value(behind: &str) -> &str {
    let line = behind.lines().next().unwrap_or_default().trim_start_matches([':', '=', ' ', '\t']);
    if let Some(quote) = line.chars().next().filter(|first| "\"'".contains(*first)) {
        return line[1..].split(quote).next().unwrap_or_default();
    }
    let is_made = ["{{", "{%", "$(", "${"].iter().any(|made| line.starts_with(made)) || is_call(line);
    let word = line.split_whitespace().next().unwrap_or_default();
    if is_made { line } else { word.trim_end_matches([',', ';', '}', ']', ')', '"', '\'']) }
}

/// Whether a value is a secret itself.
fn is_written(value: &str) -> bool {
    let is_made = ["{{", "{%", "$(", "${", "%(", "<redacted>"].iter().any(|made| value.contains(made));
    if is_call(value) {
        return false;
    }
    let is_variable = value.strip_prefix('$').is_some_and(|name| {
        name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_')
    });
    !value.is_empty() && !is_made && !is_variable && !NOTHING.contains(&value.to_lowercase().as_str())
}

/// `function(…)`, as scripts have it.
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
    fn a_text_tells_the_secrets_that_it_gives_to_keys_in_whichever_way() {
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
            assert_eq!(assigned(text), found, "{text}");
        }
    }

    #[test]
    fn a_mark_at_either_end_is_none_of_a_secret() {
        for text in ["", ":", "=", "password", "password:", "password: '", "é: é", "password: \"\n\"x\""] {
            assert!(assigned(text).is_empty(), "{text}");
        }
    }
}
