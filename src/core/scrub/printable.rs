//! Removes the parts of a text that a terminal does not show.

/// Returns a text without colours (terminal escape sequences), without control characters other than tabs and line
/// breaks, and without the characters that replace invalid UTF-8.
///
/// Such a part can split a secret, or the word before a secret, such as `password`. The scrubber would then not find
/// the secret, although a person could still read it. So remove these parts before the scrubber searches the text.
pub fn printable(text: &str) -> String {
    text.lines().map(printable_line).collect::<Vec<_>>().join("\n")
}

fn printable_line(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let begin = parts.next().unwrap_or_default().to_owned();
    let uncoloured = parts.fold(begin, |text, part| {
        // The first letter in the escape sequence of a colour is its end.
        let end = part.find(|character: char| character.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
        text + &part[end..]
    });
    let is_shown = |character: &char| *character == '\t' || !(character.is_control() || *character == '\u{fffd}');
    uncoloured.chars().filter(is_shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::Scrubber;

    #[test]
    fn keeps_lines_and_tabs() {
        let text = "no \u{1b}[31mroute\u{1b}[0m\u{fffd}\u{fffd} to\u{0}\r\n\tmariadb\u{7}\n";
        assert_eq!(printable(text), "no route to\n\tmariadb");
    }

    #[test]
    fn unprintable_parts_hide_no_secret() {
        let scrubber = Scrubber::new(["correct-horse", "battery\u{1}staple"]);
        for (text, expected) in [
            ("\u{1b}[36mpassword\u{1b}[0m=hunter2", "password=[redacted]"),
            ("mysql://nova:hunter2\u{0}@\u{1b}[1mmariadb", "mysql://nova:[redacted]@mariadb"),
            ("correct\u{1b}[1m-\u{1b}[mhorse", "[redacted]"),
            ("correct\u{fffd}-\u{0}horse", "[redacted]"),
            ("battery\u{1}staple", "[redacted]"),
        ] {
            assert_eq!(scrubber.scrub_output(text), expected, "{text:?}");
        }
    }
}
