//! Finds private keys in PEM format, even if a text contains only the first or the last lines of a key.

use super::{SHORTEST_LINE, end_of_break};

/// The minimum length in bytes of a base64 word that counts as a part of a key anywhere in the text before the key's
/// last line. [`rest_of_key`] says where a shorter word counts. Programs write PEM in lines of 64 or more characters.
const LONG: usize = 40;

/// The names of the headers in an encrypted key. They precede the key's lines in base64.
const HEADERS: [&str; 4] = ["Proc-Type:", "DEK-Info:", "Key-Info:", "Content-Domain:"];

/// Returns the byte ranges of private keys, without their lines `-----BEGIN …` and `-----END …`.
pub(super) fn private_keys(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut done = 0;
    for (at, begin) in text.match_indices("PRIVATE KEY-----") {
        let start = at + begin.len();
        if let Some(end) = end_of_key(&text[..at]) {
            // `done` is the offset up to which the loop has searched the text, and `end` is the offset of the key's
            // last line. If `done` has reached `end`, the loop has already found the whole key.
            if done < end {
                rest_of_key(text, done, end, &mut found);
            }
            done = done.max(start);
        } else if start > done {
            let end = text[start..].find("-----END").map_or(text.len(), |length| start + length);
            found.push((start, end));
            done = end;
        }
    }
    found
}

/// Returns the offset at which the last line of a key begins, such as `-----END RSA PRIVATE KEY-----`.
///
/// `before` is the text before `PRIVATE KEY-----`. The result is `None` if `PRIVATE KEY-----` ends another line, such
/// as the first line of a key.
fn end_of_key(before: &str) -> Option<usize> {
    let (key, label) = before.rsplit_once("-----")?;
    (label.starts_with("END") && !label.contains('\n')).then_some(key.len())
}

/// Finds the rest of a key whose beginning was cut off.
///
/// `end` is the offset at which the key's last line begins: `-----END … PRIVATE KEY-----`. The function searches the
/// text from `start` to `end`. This text may also contain messages, which must stay. So the function finds only these
/// words:
///
/// * Long base64 words (see [`is_long`]) anywhere in the text, because messages rarely contain such words.
/// * Backwards from `end`, the last base64 word of each line, up to the first line that does not look like a line of a
///   key. This rule also finds shorter words, because the base64 text of a key usually ends with a shorter line. Only
///   the last word of a line belongs to the key: in a log, a prefix such as the time may precede it.
fn rest_of_key(text: &str, start: usize, end: usize, found: &mut Vec<(usize, usize)>) {
    let mut add = |word: &str| {
        let at = word.as_ptr().addr() - text.as_ptr().addr();
        found.push((at, at + word.len()));
    };
    let (lines, last) = lines(text, start, end);
    // If a program wrote the whole key into one line, the last word before `end` is the rest of the key.
    let word = last_word(last).1;
    let is_key = word.len() >= SHORTEST_LINE || word.contains(['+', '/', '=']);
    if is_key || last.split_whitespace().any(is_long) {
        add(word);
    }
    // In a log, each line may begin with a prefix, such as the time. `last` is the prefix of the key's last line. In
    // the other lines of the key, at most as many words as in `last` precede the base64 word.
    let prefix = last.split_whitespace().count();
    let body =
        lines.iter().rev().map(|line| last_word(line)).take_while(|(before, word)| is_body(before, word, prefix));
    body.for_each(|(_, word)| add(word));
    for line in lines.iter().chain([&last]) {
        line.split(|letter| !is_base64(letter)).filter(|word| is_long(word)).for_each(&mut add);
    }
}

/// Splits the text from `start` to `end` into complete lines and an incomplete last line, which `end` cuts off. Line
/// breaks may be escaped as in JSON.
fn lines(text: &str, start: usize, end: usize) -> (Vec<&str>, &str) {
    let (mut lines, mut done) = (Vec::new(), start);
    for (at, _) in text[start..end].match_indices(['\n', '\\']) {
        let at = start + at;
        if let Some(next) = end_of_break(text, at).filter(|next| at >= done && *next <= end) {
            lines.push(&text[done..at]);
            done = next;
        }
    }
    (lines, &text[done..end])
}

fn is_base64(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+/=".contains(letter)
}

/// Splits a line into the text before its last base64 word, and this word. The word may be empty.
fn last_word(line: &str) -> (&str, &str) {
    let line = line.trim_end();
    line.split_at(line.trim_end_matches(is_base64).len())
}

/// Whether a line looks like a line of a key. `word` is the base64 word at the end of the line, and `before` is the
/// text before it.
///
/// The line looks like a line of a key in three cases:
///
/// * `before` is empty, or ends with a blank and has at most `prefix` words. So a blank line looks like a line of a
///   key.
/// * `before` contains a header of an encrypted key.
/// * A quote directly precedes `word`, as in JSON.
fn is_body(before: &str, word: &str, prefix: usize) -> bool {
    let is_separate = before.is_empty() || before.ends_with(char::is_whitespace);
    let is_alone = is_separate && before.split_whitespace().count() <= prefix;
    is_alone
        || HEADERS.iter().any(|header| before.contains(header))
        || !word.is_empty() && before.ends_with(['"', '\''])
}

/// Whether a word in base64 looks like part of a key, and not like a name or a path: it has at least [`LONG`]
/// characters, and contains letters of both cases and digits.
fn is_long(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.bytes().any(|letter| is(&letter));
    word.len() >= LONG && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::Scrubber;

    /// A line of a key: 64 base64 characters.
    const LINE: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKB";

    #[test]
    fn finds_no_key_within_another_one() {
        assert_eq!(private_keys(&"PRIVATE KEY-----".repeat(1000)).len(), 1);
        assert_eq!(private_keys(&"-----END PRIVATE KEY-----".repeat(1000)).len(), 0);
    }

    #[test]
    fn keeps_messages_before_the_rest_of_a_key() {
        let end = "-----END RSA PRIVATE KEY-----";
        for (text, expected) in [
            ("MII\nabc\nEND\nb", "[redacted]\n[redacted]\nEND\nb"),
            (
                "can't read the key: it is too short\nLINE\nabc=\nEND",
                "can't read the key: it is too short\n[redacted]\n[redacted]\nEND",
            ),
            (
                "it failed\n\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A1B\n\nLINE\r\nab\r\nEND",
                "it failed\n\nProc-Type: 4,[redacted]\nDEK-Info: AES-256-CBC,[redacted]\n\n[redacted]\r\n[redacted]\r\nEND",
            ),
            (
                "12:00 it failed\n12:00 LINE\n12:00 abc\n12:00 END",
                "12:00 it failed\n12:00 [redacted]\n12:00 [redacted]\n12:00 END",
            ),
            (
                "LINE\nanother thread wrote this\nLINE\nabc\nEND",
                "[redacted]\nanother thread wrote this\n[redacted]\n[redacted]\nEND",
            ),
            (
                r#"{"error": "it failed\nLINE\nabc\nEND\n", "x": 1}"#,
                r#"{"error": "it failed\n[redacted]\n[redacted]\nEND\n", "x": 1}"#,
            ),
            (
                r#"{"error": "it failed", "key": "abc\\n1=\\nEND\\n"}"#,
                r#"{"error": "it failed", "key": "[redacted]\\n[redacted]\\nEND\\n"}"#,
            ),
            ("it failed: LINE LINE ab END", "it failed: [redacted] [redacted] [redacted] END"),
            ("ab= END", "[redacted] END"),
            ("the file has no first line, found END", "the file has no first line, found END"),
            ("END it failed\nLINE\nEND", "END it failed\n[redacted]\nEND"),
        ] {
            let whole = |text: &str| text.replace("END", end).replace("LINE", LINE);
            assert_eq!(Scrubber::default().scrub(&whole(text)), whole(expected), "{text}");
        }
    }

    #[test]
    fn reads_a_long_text_once() {
        let end = "-----END PRIVATE KEY-----";
        for part in ["a\n", "\\", "\\n", "a ", &format!("a\n{end}"), &format!("{LINE}\n")] {
            let text = part.repeat((1 << 20) / part.len()) + end;
            assert!(private_keys(&text).len() <= text.len() / 2, "{part}");
        }
    }
}
