//! Recognizes secrets whose values osdpl does not know, by the shape of the secret or of the text around it.

use super::assigned::find_assigned_secrets;
use super::pem;

/// The beginning and the minimum length in bytes of each kind of token: Keystone's Fernet tokens, JSON Web Tokens, and
/// keys of Ceph.
const TOKENS: [(&str, usize); 6] = [("gAAAAA", 60), ("eyJ", 40), ("AQA", 40), ("AQB", 40), ("AQC", 40), ("AQD", 40)];

/// The words before a secret in the HTTP header `Authorization`. The words in lower case also occur in sentences, so an
/// ordinary word after them does not count as a secret.
const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "bearer ", "basic "];

/// The minimum length in bytes of a secret after one of the [`SCHEMES`], and of an unquoted secret after `password: `.
const SHORTEST: usize = 6;

/// Returns the byte ranges of secrets in a text.
pub(super) fn find(text: &str) -> Vec<(usize, usize)> {
    let mut found = in_urls(text);
    found.extend(assigned(text));
    found.extend(tokens(text));
    found.extend(pem::private_keys(text));
    found
}

/// Finds values that are assigned to a secret key: `password=…`, `"token": "…"`.
///
/// In a sentence such as `cannot get a token: connection refused`, the word after the colon is no secret. So the
/// function returns an unquoted value after a colon only if the value has at least [`SHORTEST`] bytes and does not look
/// like a word.
fn assigned(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let values = find_assigned_secrets(text).into_iter().map(move |value| {
        let start = value.as_ptr().addr() - text.as_ptr().addr();
        (start, start + value.len())
    });
    values.filter(move |(start, end)| {
        let (before, value) = (&text[..*start], &text[*start..*end]);
        let is_unquoted = before.trim_end().ends_with(':');
        !is_unquoted || value.len() >= SHORTEST && !is_word(value)
    })
}

/// Whether a text looks like a part of a sentence (a word, name or URL), or of a printed data structure such as
/// `Token:(*bool)(nil)`.
fn is_word(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphabetic() || "-_./'{}()[]<>\",:".contains(letter);
    text.contains("://") || text.chars().all(is_plain) || is_dump(text)
}

/// Whether a text begins like a value in a printed data structure: `(*string)(0xc000)`, `{"name":`, `v1.Secret{`.
fn is_dump(text: &str) -> bool {
    let name = text.find(['(', '{', '[', '<', '"']).map(|end| &text[..end]);
    let is_letter = |letter: char| letter.is_alphabetic() || "&*._".contains(letter);
    name.is_some_and(|name| name.trim_start_matches(['&', '*']).trim_start_matches("v1").chars().all(is_letter))
}

/// Finds tokens by their first letters (`TOKENS`), and the secrets in the HTTP header `Authorization`.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_.=+/~".contains(letter);
    let mut found = Vec::new();
    let mut add = |begin: &str, skip: usize, shortest: usize| {
        let begins = |at: &usize| skip > 0 || !text[..*at].ends_with(|before| before != '=' && is_part(before));
        let is_sentence = |value: &str| begin.starts_with(['b']) && is_word(value);
        let mut done = 0;
        for at in text.match_indices(begin).map(|(at, _)| at).filter(begins) {
            let start = at + skip;
            if start < done {
                continue;
            }
            let length = text[start..].find(|letter: char| !is_part(letter)).unwrap_or(text.len() - start);
            done = start + length;
            let is_secret = length >= shortest && !is_sentence(&text[start..start + length]);
            found.extend(is_secret.then_some((start, start + length)));
        }
    };
    for (begin, shortest) in TOKENS {
        add(begin, 0, shortest);
    }
    for scheme in SCHEMES {
        add(scheme, scheme.len(), SHORTEST);
    }
    found
}

pub(super) fn ends_a_url(letter: char) -> bool {
    letter.is_whitespace() || "\"'`<>".contains(letter)
}

/// Finds the passwords in `scheme://user:password@host`. A URL may list several hosts, separated by commas, as the URLs
/// of message queues do.
fn in_urls(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut end = 0;
    for (scheme_end, separator) in text.match_indices("://") {
        let start = scheme_end + separator.len();
        // Skip a `://` within a URL that the loop has already searched.
        if start <= end {
            continue;
        }
        end = text[start..].find(ends_a_url).map_or(text.len(), |length| start + length);
        let (mut host, mut piece) = (start, start);
        let mut last: Option<(usize, usize)> = None;
        let commas = text[start..end].match_indices(',').map(|(offset, _)| start + offset);
        for piece_end in commas.chain([end]) {
            // A comma separates hosts, but a password may also contain commas, and `@`. So split the URL into pieces at
            // the commas, and join each piece without `@` to the next piece. The last `@` of a piece ends the password.
            let at = text[piece..piece_end].rfind('@').map(|offset| piece + offset);
            piece = piece_end + 1;
            let Some(at) = at else { continue };
            let colon = text[host..at].find(':').map(|offset| host + offset + 1);
            let password = colon.or(last.map(|(password, _)| password)).map(|password| (password, at));
            found.extend(password);
            (last, host) = (password, piece);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::scrub::Scrubber;

    #[test]
    fn finds_unknown_secrets() {
        let fernet = format!("gAAAAA{}", "Bq7x-_".repeat(20));
        for (text, expected) in [
            ("connect password=hunter2 user=nova", "connect password=[redacted] user=nova"),
            ("{\"token\": \"hunter\", \"user\": \"x\"}", "{\"token\": \"[redacted]\", \"user\": \"x\"}"),
            ("OS_PASSWORD='hunter 2' openstack", "OS_PASSWORD='[redacted]' openstack"),
            ("X-Auth-Token: hunter22", "X-Auth-Token: [redacted]"),
            ("Authorization: Bearer hunter-two", "Authorization: Bearer [redacted]"),
            (&format!("token {fernet} expired"), "token [redacted] expired"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\nabc\n-----END RSA PRIVATE KEY-----\nb",
                "a\n-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nb",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMII", "-----BEGIN PRIVATE KEY-----[redacted]"),
            ("{\\\"password\\\": \\\"hunter2\\\", x}", "{\\\"password\\\": \\\"[redacted]\\\", x}"),
            ("\"password\": \"a\\\"b\", x", "\"password\": \"[redacted]\", x"),
            ("password: x7]Kp2:q9", "password: [redacted]"),
            ("authorization: bearer hunter-2", "authorization: bearer [redacted]"),
            (
                "key = AQBSdFhcAAAAABAAcJ0zoBd5WeJ9Gp1GX3nNqg==\n--key=AQDSdFhcAAAAABAAcJ0zoBd5WeJ9Gp1GX3nNqg==",
                "key = [redacted]\n--key=[redacted]",
            ),
        ] {
            assert_eq!(Scrubber::default().scrub(text), expected);
        }
    }

    #[test]
    fn finds_no_secret_within_another_one() {
        assert_eq!(super::in_urls(&"://a:b@c".repeat(1000)).len(), 1);
    }

    #[test]
    fn keeps_ordinary_messages() {
        for text in [
            "Access denied for user 'nova'@'10.0.0.1' (using password: YES)",
            "cannot get a token: connection refused",
            "requesting a token: Post https://keystone/v3/auth/tokens: EOF",
            "MountVolume.SetUp failed for volume \"etc\" : secret \"nova-etc\" not found",
            "adminPassword: Invalid type. Expected: string, given: integer",
            "the Bearer of bad news, Basic rules",
            "the bearer certificate, basic authentication",
            "Token:(*string)(0xc000123), secret: v1.SecretKeySelector{Name:nova-2}, secret:{\"name\":\"x1\"}",
            "requesting a token: https://keystone:5000/v3/auth/tokens: EOF",
            "gAAAAA is short",
            "{\"automountServiceAccountToken\":false,\"containers\":[{\"image\":\"nova:2026.1\"}]}",
            "{\"token\":null,\"port\":5000,\"password\":3600}",
            "Secret:&v1.SecretVolumeSource{SecretName:nova-etc2,}",
        ] {
            assert_eq!(Scrubber::default().scrub(text), text);
        }
    }
}
