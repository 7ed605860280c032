//! Matches texts against regular expressions with the syntax of CEL and of the schemas of CRDs.

use regex::{Regex, RegexBuilder};

/// The largest size of a compiled pattern, in bytes.
///
/// A search can take time in proportion to this size for each byte of the text. Even a short pattern can be large when
/// compiled: `[ab]*a[ab]{1000}`.
const MAX_COMPILED: usize = 256 << 10;

/// Whether `text` matches the regular expression `pattern`. An invalid pattern matches nothing.
pub fn matches(text: &str, pattern: &str) -> bool {
    compile(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

/// Returns why a regular expression is invalid; `None` if it is valid.
pub fn pattern_error(pattern: &str) -> Option<String> {
    let message = compile(pattern).err()?.to_string();
    let last = message.lines().last().unwrap_or_default();
    Some(last.trim_start_matches("error: ").to_owned())
}

pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build()
}

/// Returns the steps to count for a search.
pub(super) fn steps(text: &str, pattern: &str) -> usize {
    let compile = pattern.len().saturating_add(2000);
    compile.saturating_add(text.len().saturating_mul(pattern.len().max(64)) / 8)
}
