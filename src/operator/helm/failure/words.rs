//! Condenses helm's stderr to one line with the error.

/// The numbers of bytes that [`condense`] keeps of a long message: [`FIRST`] from its beginning, which names the
/// object, and [`LAST`] from its end, which contains the reason.
const FIRST: usize = 320;
const LAST: usize = 200;

/// The maximum length, in bytes, of a dumped object that [`condense`] keeps. [`condense`] replaces a longer dump, for
/// example of a pod template, with `…`.
const SHORT_VALUE: usize = 60;

/// The text that replaces a removed part of helm's message.
const GAP: &str = "…";

/// Condenses helm's error to one line of at most about 520 bytes, without dumps of objects.
///
/// The line keeps the name of the object, the failure and the reason. The caller must already have removed secrets from
/// `text`.
pub(crate) fn condense(text: &str) -> String {
    let error_text = error_text(text);
    let mut line = String::new();
    for part in error_text.lines().map(trim_line).filter(|part| !part.is_empty()) {
        line.push_str(match line.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        });
        line.push_str(part);
    }
    let line = line.replace("; &&", " &&").replace("&&; ", "&& ");
    let prefixes = ["Error: ", "UPGRADE FAILED: ", "INSTALLATION FAILED: "];
    shorten(prefixes.iter().fold(line.as_str(), |line, prefix| line.strip_prefix(prefix).unwrap_or(line)))
}

/// Removes a bullet at the beginning of a line, and a count at its end. Go writes a count such as `2 errors occurred:`
/// before a list of errors.
fn trim_line(line: &str) -> &str {
    let line = line.trim().trim_start_matches("* ");
    let counted = line.strip_suffix(" error occurred:").or_else(|| line.strip_suffix(" errors occurred:"));
    counted.map_or(line, |counted| counted.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end())
}

fn shorten(line: &str) -> String {
    if line.len() <= FIRST + LAST {
        return line.to_owned();
    }
    let boundaries = || line.char_indices().map(|(position, _)| position);
    let first = boundaries().take_while(|position| *position <= FIRST).last().unwrap_or_default();
    let last = boundaries().find(|position| *position >= line.len() - LAST).unwrap_or(line.len());
    format!("{} {GAP} {}", line[..first].trim_end(), line[last..].trim_start())
}

/// Returns the error in helm's stderr, without the warnings before the error and without dumps of objects.
///
/// helm 4 logs a failed upgrade twice: first as a warning, then as an error. The function returns only the error.
pub(super) fn error_text(text: &str) -> String {
    let start = ["Error: ", "panic: ", "fatal error: "].iter().find_map(|prefix| line_start(text, prefix));
    let error = start.map_or_else(|| last_lines(text), |start| &text[start..]);
    without_dumps(error)
}

fn line_start(text: &str, prefix: &str) -> Option<usize> {
    let lines = text.rmatch_indices(prefix).map(|(position, _)| position);
    lines.into_iter().find(|position| *position == 0 || text[..*position].ends_with('\n'))
}

fn last_lines(text: &str) -> &str {
    let text = text.trim_end();
    let start = text.rmatch_indices('\n').nth(2).map_or(0, |(position, _)| position + 1);
    &text[start..]
}

/// Replaces each long dump of an object with `…`. The API server can write such a dump after `Invalid value: `.
fn without_dumps(text: &str) -> String {
    const INTRODUCTION: &str = "Invalid value: ";
    let mut kept = String::new();
    let mut rest = text;
    while let Some(position) = rest.find(INTRODUCTION) {
        let (before, value) = rest.split_at(position + INTRODUCTION.len());
        let length = dump_length(value);
        kept.push_str(before);
        kept.push_str(if length > SHORT_VALUE { GAP } else { &value[..length] });
        rest = &value[length..];
    }
    kept + rest
}

/// Returns the length of the dumped object at the start of `text`; 0 if `text` does not start with a dump.
///
/// A dump is a JSON object, or a struct in Go's notation, such as `core.PodTemplateSpec{…}`.
fn dump_length(text: &str) -> usize {
    let opening = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || "._&*[]".contains(letter)));
    if opening.is_none_or(|position| !text[position..].starts_with('{')) {
        return 0;
    }
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (position, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' if !quoted => depth += 1,
            '}' if !quoted => {
                depth = depth.saturating_sub(1);
                // If the operator has dropped the middle of a long stderr, braces are missing and `depth` is wrong. So
                // also require that `: ` follows the brace, as it does only after the last brace of a dump.
                if depth == 0 && text[position + 1..].starts_with(": ") {
                    return position + 1;
                }
            }
            _ => {}
        }
    }
    // The braces do not match, because the operator has dropped a part of the dump. So look for the end of the dump at
    // the last `}: `.
    text.rfind("}: ").map_or(text.len(), |position| position + 1)
}

/// Returns the part of `text` after the first `mark`; `None` if `text` does not contain `mark`.
pub(super) fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

/// Returns the part of `text` between the first `start` and the next `end`.
///
/// If there is no `end`, the result is the rest of the text. If there is no `start`, the result is empty.
pub(super) fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = after(text, start).unwrap_or_default();
    rest.split_once(end).map_or(rest, |(found, _)| found)
}
