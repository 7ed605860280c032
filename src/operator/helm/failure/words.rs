//! From kilobytes of stderr to the sentence that matters.

/// How much of a condensed text is kept at each end: the object is named first, the reason last.
const FIRST: usize = 320;
const LAST: usize = 200;

/// A quoted value up to this length helps; a longer one is a pod template.
const SHORT_VALUE: usize = 60;

/// What stands where something was left out.
const GAP: &str = "…";

/// helm's error in one line, without the objects it dumps: what happened to which object, and the reason. Secrets must be
/// out of `said` already. At most about 520 bytes.
pub fn condense(said: &str) -> String {
    let essence = essence(said);
    let mut line = String::new();
    for part in essence.lines().map(trimmed).filter(|part| !part.is_empty()) {
        line.push_str(match line.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        });
        line.push_str(part);
    }
    let line = line.replace("; &&", " &&").replace("&&; ", "&& ");
    let prefixes = ["Error: ", "UPGRADE FAILED: ", "INSTALLATION FAILED: "];
    shortened(prefixes.iter().fold(line.as_str(), |line, prefix| line.strip_prefix(prefix).unwrap_or(line)))
}

/// Go's multi-error adds a count and bullets.
fn trimmed(line: &str) -> &str {
    let line = line.trim().trim_start_matches("* ");
    let counted = line.strip_suffix(" error occurred:").or_else(|| line.strip_suffix(" errors occurred:"));
    counted.map_or(line, |counted| counted.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end())
}

fn shortened(line: &str) -> String {
    if line.len() <= FIRST + LAST {
        return line.to_owned();
    }
    let boundaries = || line.char_indices().map(|(place, _)| place);
    let first = boundaries().take_while(|place| *place <= FIRST).last().unwrap_or_default();
    let last = boundaries().find(|place| *place >= line.len() - LAST).unwrap_or(line.len());
    format!("{} {GAP} {}", line[..first].trim_end(), line[last..].trim_start())
}

/// helm's error itself, without the warnings before it and the objects dumped in it.
///
/// helm 4 logs every failed upgrade twice, as a warning and as the error: only the last counts.
pub(super) fn essence(said: &str) -> String {
    let start = ["Error: ", "panic: ", "fatal error: "].iter().find_map(|word| line_start(said, word));
    let error = start.map_or_else(|| last_lines(said), |start| &said[start..]);
    without_dumps(error)
}

fn line_start(said: &str, word: &str) -> Option<usize> {
    let lines = said.rmatch_indices(word).map(|(place, _)| place);
    lines.into_iter().find(|place| *place == 0 || said[..*place].ends_with('\n'))
}

fn last_lines(said: &str) -> &str {
    let said = said.trim_end();
    let start = said.rmatch_indices('\n').nth(2).map_or(0, |(place, _)| place + 1);
    &said[start..]
}

/// `Invalid value: {…8 KB…}: field is immutable` without the eight kilobytes.
fn without_dumps(text: &str) -> String {
    const INTRODUCTION: &str = "Invalid value: ";
    let mut kept = String::new();
    let mut rest = text;
    while let Some(place) = rest.find(INTRODUCTION) {
        let (before, value) = rest.split_at(place + INTRODUCTION.len());
        let length = dump(value);
        kept.push_str(before);
        kept.push_str(if length > SHORT_VALUE { GAP } else { &value[..length] });
        rest = &value[length..];
    }
    kept + rest
}

/// The length of a printed value at the start of a text: JSON, or Go's `core.PodTemplateSpec{…}`. 0 when it is a word.
fn dump(text: &str) -> usize {
    let opening = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || "._&*[]".contains(letter)));
    if opening.is_none_or(|place| !text[place..].starts_with('{')) {
        return 0;
    }
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (place, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' if !quoted => depth += 1,
            '}' if !quoted => {
                depth = depth.saturating_sub(1);
                // Where the middle is missing, a brace may only seem to be the last.
                if depth == 0 && text[place + 1..].starts_with(": ") {
                    return place + 1;
                }
            }
            _ => {}
        }
    }
    // Cut off in the middle: what follows the last brace is the reason, if anything is.
    text.rfind("}: ").map_or(text.len(), |place| place + 1)
}

/// What follows the first `mark`.
pub(super) fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

/// What lies between the first `start` and the next `end`; to the text's end without one, nothing without a start.
pub(super) fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = after(text, start).unwrap_or_default();
    rest.split_once(end).map_or(rest, |(found, _)| found)
}
