//! Quotes strings for shell scripts that osdpl prints or writes.

use std::ffi::OsStr;

/// Quotes a string so that a shell reads it as one word.
pub(crate) fn word(text: &str) -> String {
    quoted(OsStr::new(text))
}

/// Quotes a command's argument so that a shell reads it as one word.
pub(crate) fn quoted(argument: &OsStr) -> String {
    let text = argument.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_shell_words() {
        for (word, quoted_word) in [
            ("--set=a,b", "--set=a,b"),
            ("2026.1.24+0ee5adeff", "2026.1.24+0ee5adeff"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(rm)", "'$(rm)'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(OsStr::new(word)), quoted_word);
        }
    }
}
