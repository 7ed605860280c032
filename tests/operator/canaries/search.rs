//! Searches texts for secrets in every encoding in which a program could print them. This module shares no code with
//! osdpl's scrubber, so that the search also finds secrets that the scrubber overlooks.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regex::bytes::Regex;

/// The minimum length of a secret. The search ignores shorter secrets, because ordinary words can contain them.
const SHORTEST: usize = 6;

/// The minimum length of a line of a secret. The search looks for each line of a secret separately, but ignores shorter
/// lines, because they may be ordinary words.
const SHORTEST_LINE: usize = 24;

/// A line break within base64, with the indentation after it. The line break is in plain text or in a JSON string.
/// `openssl` breaks base64 into lines of 64 characters, and `base64` into lines of 76 characters.
static BASE64_BREAK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)([A-Za-z0-9+/_-]{64})(?:\r\n|\n|\\r\\n|\\n)[ \t\r\n\x0C]*").unwrap());

/// A set of secrets to search for.
pub struct Search {
    /// Finds the encoded secrets.
    automaton: AhoCorasick,
    /// The name of the encoding of each pattern of `automaton`.
    encodings: Vec<&'static str>,
}

/// A secret that a text contains.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The encoding of the secret, such as `base64`.
    pub encoding: &'static str,
    /// The text around the secret.
    pub around: String,
}

impl Search {
    /// Prepares a search for these secrets. Ignores secrets that are too short.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a String>) -> Self {
        let mut all = BTreeSet::new();
        for secret in secrets {
            let secret = secret.trim();
            all.extend(forms(secret));
            // A log may contain single lines of a key or a file, so search for the lines, too. The first and the last
            // line of a PEM file are not secret.
            let lines = secret.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE && *line != secret);
            all.extend(lines.filter(|line| !line.starts_with("-----")).flat_map(forms));
        }
        all.retain(|(form, _)| form.len() >= SHORTEST);
        let automaton = AhoCorasick::new(all.iter().map(|(form, _)| form)).unwrap();
        Self { automaton, encodings: all.into_iter().map(|(_, encoding)| encoding).collect() }
    }

    /// Returns the first secret in a text. Also finds secrets in base64 that a program has broken into lines.
    pub fn find(&self, text: &[u8]) -> Option<Found> {
        self.find_in(text).or_else(|| self.find_in(&join_base64(text)?))
    }

    fn find_in(&self, text: &[u8]) -> Option<Found> {
        let found = self.automaton.find(text)?;
        let (from, to) = (found.start().saturating_sub(80), (found.end() + 40).min(text.len()));
        let around = String::from_utf8_lossy(&text[from..to]).into_owned();
        Some(Found { encoding: self.encodings[found.pattern()], around })
    }
}

/// Returns the text without the line breaks in base64, and without the indentation after them; `None` if the text has
/// no such line break.
fn join_base64(text: &[u8]) -> Option<Vec<u8>> {
    match BASE64_BREAK.replace_all(text, b"$1") {
        Cow::Borrowed(_) => None,
        Cow::Owned(joined) => Some(joined),
    }
}

/// Returns the secret in each encoding, with the name of the encoding.
fn forms(secret: &str) -> Vec<(String, &'static str)> {
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let mut forms = vec![(secret.to_owned(), "plain")];
    for json in [escaped(secret), escaped_by_go(secret)] {
        forms.extend([(escaped(&json), "JSON in JSON"), (json, "JSON")]);
    }
    for keep in ["-._~", "-._~/", "-._*", ""] {
        for is_upper in [true, false] {
            let url = percent_encoded(secret, keep, is_upper);
            forms.push((url.replace("%20", "+"), "URL"));
            forms.push((url, "URL"));
        }
    }
    let encoded = base64_forms(secret.as_bytes());
    // Also search for base64 of base64: a Secret's values are in base64, and a dump of Secrets can be in base64, too.
    let twice = encoded.iter().flat_map(|form| base64_forms(form.as_bytes()));
    forms.extend(twice.map(|form| (form, "base64 of base64")));
    forms.extend(encoded.into_iter().map(|form| (form, "base64")));
    forms
}

/// Returns the text as it is between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns the text as Go programs, such as helm and the API server, write it between the quotes of a JSON string.
fn escaped_by_go(text: &str) -> String {
    let escapes = [('&', "\\u0026"), ('<', "\\u003c"), ('>', "\\u003e")];
    escapes.iter().fold(escaped(text), |text, (letter, escape)| text.replace(*letter, escape))
}

/// Returns the text with `%XX` for all bytes except for letters, digits and those in `keep`.
fn percent_encoded(text: &str, keep: &str, is_upper: bool) -> String {
    let encode = |byte: u8| match char::from(byte) {
        letter if letter.is_ascii_alphanumeric() || keep.contains(letter) => letter.to_string(),
        _ if is_upper => format!("%{byte:02X}"),
        _ => format!("%{byte:02x}"),
    };
    text.bytes().map(encode).collect()
}

/// Returns the possible forms of a secret in the base64 of a longer text. The forms differ, because base64 encodes
/// groups of three bytes, and the secret can begin at each position of a group. The forms contain only characters that
/// depend on no other part of the text.
fn base64_forms(secret: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let text = [vec![0; before], secret.to_vec()].concat();
        // A base64 character has 6 bits. The first characters also contain bits of the text before the secret, and the
        // last character contains bits of the text after it. So leave these characters out.
        let (first, end) = ((before * 8).div_ceil(6), text.len() * 8 / 6);
        forms.extend(
            [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)].map(|all| all[first..end].to_owned()),
        );
    }
    forms
}

#[test]
fn finds_each_encoding() {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    let secret = "p@ss/w\"ö+rd?>~ x".to_owned();
    let search = Search::new([&secret]);
    let found = |text: &str| search.find(text.as_bytes()).map(|found| found.encoding);
    assert_eq!(found(&format!("a={secret};")), Some("plain"));
    assert_eq!(found(&serde_json::json!({"a": secret}).to_string()), Some("JSON"));
    assert_eq!(found(r#"{"a":"p@ss/w\"ö+rd?\u003e~ x"}"#), Some("JSON"));
    let nested = serde_json::json!({"a": serde_json::json!({"b": secret}).to_string()});
    assert_eq!(found(&nested.to_string()), Some("JSON in JSON"));
    for url in [
        "p%40ss%2Fw%22%C3%B6%2Brd%3F%3E~%20x",
        "p%40ss%2fw%22%c3%b6%2brd%3f%3e~%20x",
        "p%40ss/w%22%C3%B6%2Brd%3F%3E~%20x",
        "p%40ss%2Fw%22%C3%B6%2Brd%3F%3E%7E+x",
    ] {
        assert_eq!(found(&format!("mysql://root:{url}@host")), Some("URL"), "{url}");
    }
    for before in ["", "a", "ab", "abc", "user: nova, password: "] {
        for after in ["", "\n", " and more"] {
            let text = format!("{before}{secret}{after}");
            for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                assert_eq!(found(&format!("data: {encoded}")), Some("base64"), "{text:?}");
            }
            assert_eq!(found(&STANDARD.encode(STANDARD.encode(&text))), Some("base64 of base64"), "{text:?}");
        }
    }
    assert_eq!(found("p@ss/word"), None);
    assert_eq!(Search::new([&"short".to_owned()]).find(b"short"), None);
}

#[test]
fn finds_base64_in_lines() {
    use base64::engine::general_purpose::STANDARD;
    let secret = "p@ss/w\"ö+rd?>~ x".to_owned();
    let search = Search::new([&secret]);
    for width in [64, 76] {
        // The secret is on both sides of the first line break.
        let encoded = STANDARD.encode(format!("{}{secret} and more", "x".repeat(width * 3 / 4 - 6)));
        let lines: Vec<_> = encoded.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
        for line_break in ["\n", "\r\n", "\n    ", "\\n"] {
            let text = format!("data:\n{}\n", lines.join(line_break));
            assert_eq!(search.find(text.as_bytes()).map(|found| found.encoding), Some("base64"), "{text}");
        }
    }
    assert_eq!(join_base64(b"two\nordinary lines"), None);
}

#[test]
fn finds_lines_of_keys() {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj";
    let key = format!("-----BEGIN PRIVATE KEY-----\n{line}\nAgEAAoIB\n-----END PRIVATE KEY-----\n");
    let search = Search::new([&key]);
    assert!(search.find(format!("12:00 {line}").as_bytes()).is_some());
    assert!(search.find(key.as_bytes()).is_some());
    assert_eq!(search.find(b"-----BEGIN PRIVATE KEY-----\nAgEAAoIB\n-----END PRIVATE KEY-----\n"), None);
}
