//! Removes secrets from texts that other programs write, such as helm's error output and the logs of failing Jobs.
//!
//! The scrubber finds secrets in two ways. First, it searches for the *values* of the secrets that osdpl knows: for a
//! value in each encoding in which scripts and API errors print it, and for single lines of the value. Second, it finds
//! unknown secrets by their *shape*, or by the shape of the text around them, such as `scheme://user:password@host` or
//! `password=…`.

mod assigned;
mod detect;
mod extra_objects;
mod pem;
mod printable;
mod shapes;
mod words;

pub(crate) use detect::is_secret_in_clear;
pub use detect::{collect_secret_scalars, is_secret_value};
pub use extra_objects::{collect_secret_texts, find_secret_paths};
pub use printable::printable;
pub(crate) use words::is_secret_key;

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use osdpl_values::CollectSorted;

use shapes::ends_a_url;

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// The minimum length in bytes of a secret that the scrubber searches for. A shorter secret would also match parts of
/// ordinary words.
pub(crate) const MIN_SECRET_LENGTH: usize = 4;

/// The minimum length in bytes of secrets that the scrubber also searches for inside larger base64 texts.
///
/// In the base64 of a larger text, the first and last characters of the secret also depend on the text around it, so
/// the scrubber searches only for the characters between them. For a shorter secret, there are so few of these
/// characters that they may also occur in ordinary texts.
const SHORTEST_INSIDE_BASE64: usize = 8;

/// The minimum length in bytes of two kinds of texts that the scrubber searches for: single lines of a secret, and
/// secrets that a program printed with line breaks in them. A shorter text may be an ordinary word.
const SHORTEST_LINE: usize = 20;

/// The scrubber, which removes secrets from logs and messages: the secrets that it knows, and texts that have the shape
/// of a secret.
#[derive(Clone, Default)]
pub struct Scrubber {
    /// The texts to search for: every secret in every encoding, the longest text first.
    forms: Vec<String>,
    /// The texts in `forms` that contain line breaks, without these line breaks, if at least `SHORTEST_LINE` bytes
    /// remain. With these texts, the scrubber finds secrets that a program printed with other line breaks: the lines of
    /// a key may be indented.
    joined: Vec<String>,
}

/// Formats the scrubber for debug output: only the number of texts in `forms`, because the texts are secrets.
impl fmt::Debug for Scrubber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scrubber").field("forms", &self.forms.len()).finish_non_exhaustive()
    }
}

impl Scrubber {
    /// Creates a scrubber that removes `secrets`. The scrubber ignores secrets shorter than `MIN_SECRET_LENGTH`.
    pub fn new<Secret: AsRef<str>>(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut all = BTreeSet::new();
        for secret in secrets {
            let secret = secret.as_ref();
            all.extend(forms(secret));
            // A secret from a file may end with a newline, but programs usually print the secret without the newline.
            // So search for the secret with and without it.
            all.extend(forms(secret.trim()));
            // A text that `printable` has returned contains a secret without the secret's control characters.
            all.extend(forms(&printable(secret)));
        }
        Self::from_forms(all)
    }

    /// Creates a scrubber that searches for the texts in `all`, which are the secrets in all encodings.
    /// [`Scrubber::new`] is generic, so the compiler may generate its code several times. The code of this function
    /// exists only once.
    fn from_forms(all: BTreeSet<String>) -> Self {
        let joined = all.iter().map(|form| join_lines(form).0);
        let joined = joined.filter(|form| form.len() >= SHORTEST_LINE && !all.contains(form)).collect_set();
        let mut forms: Vec<String> = all.into_iter().filter(|form| form.len() >= MIN_SECRET_LENGTH).collect();
        forms.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        Self { joined: joined.into_iter().collect(), forms }
    }

    /// Returns the text with [`REDACTED`] in place of all known secrets and of texts that have the shape of a secret.
    pub fn scrub(&self, text: &str) -> String {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for form in &self.forms {
            found.extend(text.match_indices(form.as_str()).map(|(start, matched)| (start, start + matched.len())));
        }
        found.extend(self.across_lines(text));
        found.extend(self.parts(text));
        found.extend(shapes::find(text));
        replace(text, found)
    }

    /// Scrubs the output of a container, or a message of Kubernetes that may quote such output. Also removes colours
    /// and control characters, see [`printable()`].
    pub fn scrub_output(&self, text: &str) -> String {
        self.scrub(&printable(text))
    }

    /// Finds the secrets that a program printed with line breaks in them. Returns the byte ranges of the secrets in
    /// `text`.
    fn across_lines(&self, text: &str) -> Vec<(usize, usize)> {
        if !text.contains(['\n', '\\']) {
            return Vec::new();
        }
        let (joined, removed) = join_lines(text);
        // Converts the offset of a byte in `joined` to its offset in `text`.
        let offset = |at: usize| {
            let before = removed.partition_point(|(start, _)| *start <= at);
            at + before.checked_sub(1).map_or(0, |last| removed[last].1)
        };
        let mut found = Vec::new();
        // Base64 often has lines of 64 or 76 characters, so also search for the texts without line breaks.
        let long = self.forms.iter().take_while(|form| form.len() >= SHORTEST_LINE);
        for form in self.joined.iter().chain(long) {
            let matches = joined.match_indices(form.as_str());
            found.extend(matches.map(|(start, form)| (offset(start), offset(start + form.len() - 1) + 1)));
        }
        found
    }

    /// Finds single lines of secrets, and returns their byte ranges in `text`. A log may contain a prefix before each
    /// line of a key, or only some lines of the key, so that a search for the whole key finds nothing.
    fn parts(&self, text: &str) -> impl Iterator<Item = (usize, usize)> {
        // `forms` begins with the longest text. So the search for a text that contains the line ends at the first text
        // that is not longer than the line. An equal text is no match: the line is then a whole secret, which `scrub`
        // has found already.
        let is_known = move |line: &str| {
            self.forms.iter().take_while(|form| form.len() > line.len()).any(|form| form.contains(line))
        };
        key_lines(text).filter(move |(_, line)| is_known(line)).map(|(start, line)| (start, start + line.len()))
    }

    /// Scrubs a text whose end was cut off. The text may now end with the beginning of a secret. If so, the function
    /// also removes this beginning.
    pub fn scrub_beginning(&self, text: &str) -> String {
        let cut = self.forms.iter().filter_map(|form| overlap(text, form)).max().unwrap_or(0);
        let rest = &text[..text.len() - cut];
        // Remove a URL at the end of the text. It may contain a password whose `@` was cut off, and without the `@`,
        // `shapes::find` does not recognize the password.
        let last_word = rest.rsplit(ends_a_url).next().unwrap_or(rest);
        let kept = if last_word.contains("://") { &rest[..rest.len() - last_word.len()] } else { rest };
        self.scrub(kept)
    }

    /// Scrubs a text whose beginning was cut off. The text may now begin with the end of a secret. If so, the function
    /// also removes this end.
    pub fn scrub_end(&self, text: &str) -> String {
        let cut = self.forms.iter().filter_map(|form| overlap(form, text)).max().unwrap_or(0);
        let rest = &text[cut..];
        // Remove the first word of the text if it contains `@`: it may be the rest of a URL with a password.
        let first_word = rest.find(ends_a_url).unwrap_or(rest.len());
        let kept = if rest[..first_word].contains('@') { &rest[first_word..] } else { rest };
        self.scrub(kept)
    }
}

/// Joins the lines of a text: removes the blanks at both ends of each line, and all line breaks, including line breaks
/// that are escaped as in JSON.
///
/// Returns the joined text, and two numbers for each line: the offset of the line in the joined text, and how many
/// bytes of `text` the function removed before the line.
fn join_lines(text: &str) -> (String, Vec<(usize, usize)>) {
    let (mut joined, mut removed) = (String::with_capacity(text.len()), Vec::new());
    let mut done = 0;
    let breaks = text.match_indices(['\n', '\\']).filter_map(|(at, _)| Some((at, end_of_break(text, at)?)));
    for (start, end) in breaks.chain([(text.len(), text.len())]) {
        let line = text[done..start].trim();
        removed.push((joined.len(), line.as_ptr().addr() - text.as_ptr().addr() - joined.len()));
        joined.push_str(line);
        done = end;
    }
    (joined, removed)
}

/// Returns the end of the line break that begins at `at`; `None` if no line break begins there. A line break is a
/// newline character, or an escape such as `\n`. In JSON within JSON, the escape has several backslashes.
fn end_of_break(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    // If a line break has several backslashes, it begins only at the first of them.
    if rest.starts_with('\\') && text[..at].ends_with('\\') {
        return None;
    }
    let escaped = rest.trim_start_matches('\\');
    let is_break = if rest.len() > escaped.len() { escaped.starts_with(['n', 'r']) } else { rest.starts_with('\n') };
    is_break.then(|| at + rest.len() - escaped.len() + 1)
}

/// Returns the words of a text that look like a line of a key or of base64, each with its offset in the text.
fn key_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let ends = |letter: char| !letter.is_ascii_alphanumeric() && !"+/=_-".contains(letter);
    let has = |word: &str, is: fn(char) -> bool| word.contains(is);
    let is_key = move |word: &str| {
        has(word, |letter| letter.is_ascii_uppercase()) && has(word, |letter| letter.is_ascii_lowercase())
    };
    let offset = move |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    // The first letter of a word may be the `n` or `r` of an escaped line break (`\n`, `\r`). Such a letter does not
    // belong to the word.
    let is_escaped = move |word: &str| text[..offset(word)].ends_with('\\') && word.starts_with(['n', 'r']);
    let words = text.split(ends).map(move |word| if is_escaped(word) { &word[1..] } else { word });
    let words = words.filter(move |word| word.len() >= SHORTEST_LINE && is_key(word));
    words.map(move |word| (offset(word), word))
}

/// Returns the length in bytes of the longest suffix of `left` that is a prefix of `right`; `None` if there is none.
///
/// Uses the algorithm of Knuth, Morris and Pratt, whose time is linear even if the texts repeat themselves.
fn overlap(left: &str, right: &str) -> Option<usize> {
    let longest = left.len().min(right.len());
    let (suffix, prefix) = (&left.as_bytes()[left.len() - longest..], &right.as_bytes()[..longest]);
    // If the first `n` bytes of `prefix` match but the next one does not, `shorter[n]` bytes still match: the longest
    // part that is both the end of these `n` bytes and the beginning of `prefix`.
    let mut shorter = vec![0; longest + 1];
    let next = |shorter: &[usize], mut matched: usize, letter: u8| {
        while matched == longest || prefix[matched] != letter {
            if matched == 0 {
                return 0;
            }
            matched = shorter[matched];
        }
        matched + 1
    };
    for length in 1..longest {
        shorter[length + 1] = next(&shorter, shorter[length], prefix[length]);
    }
    let matched = suffix.iter().fold(0, |matched, letter| next(&shorter, matched, *letter));
    (matched > 0).then_some(matched)
}

/// Returns the secret in every encoding in which a program could print it: plain, base64, percent-encoded, and escaped
/// as in JSON. Also returns the texts by which the scrubber finds a longer secret inside the base64 of a larger text.
/// The result is empty for a secret shorter than `MIN_SECRET_LENGTH`.
fn forms(secret: &str) -> Vec<String> {
    if secret.len() < MIN_SECRET_LENGTH {
        return Vec::new();
    }
    let mut all = vec![
        secret.to_owned(),
        STANDARD.encode(secret),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
        percent_encoded(secret, false),
        percent_encoded(secret, true),
        percent_encoded(secret, false).replace("%20", "+"),
    ];
    all.extend(escaped(secret));
    if secret.len() >= SHORTEST_INSIDE_BASE64 {
        all.extend(inside_base64(secret));
    }
    let base64 = [STANDARD.encode(secret), URL_SAFE.encode(secret)];
    all.extend(base64.iter().flat_map(|text| [percent_encoded(text, false), percent_encoded(text, true)]));
    all
}

/// Returns the texts by which the scrubber finds the secret inside the base64 of a larger text.
///
/// Base64 encodes three bytes as four characters, so a secret has one of three encodings, depending on its position in
/// the larger text. The result contains all three encodings, without the characters that also depend on the bytes
/// before or after the secret.
fn inside_base64(secret: &str) -> Vec<String> {
    let mut all = Vec::new();
    for offset in 0..3_usize {
        let padded = [&[0; 2][..offset], secret.as_bytes()].concat();
        let last = padded.len() * 8 / 6;
        let first = (offset * 8).div_ceil(6);
        let standard = &STANDARD.encode(&padded)[first..last];
        all.extend([standard.to_owned(), percent_encoded(standard, false), percent_encoded(standard, true)]);
        all.push(URL_SAFE.encode(&padded)[first..last].to_owned());
    }
    all
}

/// Percent-encodes all bytes of a secret except the unreserved characters of RFC 3986. The hexadecimal digits are in
/// lower case if `lower` is true, else in upper case.
fn percent_encoded(secret: &str, lower: bool) -> String {
    let encode = |byte: u8| match (byte.is_ascii_alphanumeric() || b"-._~".contains(&byte), lower) {
        (true, _) => char::from(byte).to_string(),
        (false, true) => format!("%{byte:02x}"),
        (false, false) => format!("%{byte:02X}"),
    };
    secret.bytes().map(encode).collect()
}

/// Returns the secret as three kinds of programs write it in a JSON string, without the quotes:
///
/// * with only the escapes that JSON requires
/// * with further escapes for HTML, as Go programs write it
/// * with further escapes for characters that are not ASCII, as Python programs write it
fn escaped(secret: &str) -> [String; 3] {
    let quoted = serde_json::Value::from(secret).to_string();
    let json = &quoted[1..quoted.len() - 1];
    let escape = |escapes: fn(char) -> bool| {
        json.chars().fold(String::new(), |mut text, letter| {
            if escapes(letter) {
                text.extend(letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
            } else {
                text.push(letter);
            }
            text
        })
    };
    [json.to_owned(), escape(|letter| "&<>\u{2028}\u{2029}".contains(letter)), escape(|letter| !letter.is_ascii())]
}

/// Replaces the byte ranges `found` of a text with [`REDACTED`].
fn replace(text: &str, mut found: Vec<(usize, usize)>) -> String {
    found.retain(|(start, end)| start < end);
    found.sort_unstable();
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    for (start, end) in found {
        if start >= done {
            clean.push_str(&text[done..start]);
            clean.push_str(REDACTED);
        }
        done = done.max(end);
    }
    clean.push_str(&text[done..]);
    clean
}

#[cfg(test)]
mod tests;
