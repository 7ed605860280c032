//! Matches strings against regular expressions, which have the same syntax as in CEL and in the schemas of CRDs.

use std::collections::BTreeMap;

use regex::{Error, Regex, RegexBuilder};

use super::Work;

/// The size classes of compiled regular expressions: the maximum size in bytes, and the number of evaluation steps that
/// a search costs for each byte of the text. A pattern belongs to the smallest class that it fits into.
///
/// The time of a search is in proportion to the size of the compiled pattern, multiplied by the length of the text.
/// Even a short pattern can be large when compiled: `[ab]*a[ab]{2000}`. In the catalogue, only one pattern needs more
/// than 8 KiB. Unicode character classes, such as `\d` and `\w`, make a compiled pattern large. Above 32 KiB, the steps
/// grow faster than the size, because large patterns do not fit into the processor's caches.
const SIZES: [(usize, usize); 5] = [(2 << 10, 4), (8 << 10, 16), (32 << 10, 64), (64 << 10, 256), (256 << 10, 2048)];

/// The number of bytes that [`Pattern::search_steps`] adds to the length of the text, so that a search also counts
/// steps for the compilation.
///
/// A pattern with a larger compiled form takes longer to compile. [`Pattern::compile_steps`] can't count this time,
/// because the size is unknown before the compilation.
const COMPILED_AS: usize = 16;

/// The maximum length of a pattern in bytes.
const LONGEST: usize = 1000;

/// The number of evaluation steps that every compilation costs, in addition to the steps for the pattern's length and
/// its character classes.
const COMPILE: usize = 2000;

/// The number of evaluation steps that the compilation of a Unicode character class costs. Such a class, for example
/// `\w`, has hundreds of ranges.
const CLASS: usize = 1000;

/// A compiled regular expression.
pub(super) struct Pattern {
    regex: Regex,
    /// The number of evaluation steps that a search costs for each byte of the text.
    steps: usize,
}

impl Pattern {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// Returns an error if the regular expression is invalid, or too large.
    pub(crate) fn compile(pattern: &str) -> Result<Self, Error> {
        let mut result = Err(Error::CompiledTooBig(LONGEST));
        for (size, steps) in SIZES.into_iter().filter(|_| pattern.len() <= LONGEST) {
            let regex = RegexBuilder::new(pattern).size_limit(size).dfa_size_limit(size).build();
            result = regex.map(|regex| Self { regex, steps });
            if !matches!(result, Err(Error::CompiledTooBig(_))) {
                break;
            }
        }
        result
    }

    /// Returns the number of evaluation steps that [`Pattern::compile`] costs.
    pub(crate) fn compile_steps(pattern: &str) -> usize {
        let is_class = |escaped: &&str| escaped.starts_with(|letter: char| letter.is_ascii_alphabetic());
        let classes = pattern.split('\\').skip(1).filter(is_class).count();
        COMPILE.saturating_add(pattern.len().saturating_mul(4)).saturating_add(classes.saturating_mul(CLASS))
    }

    /// Returns the number of evaluation steps that a search in `text` costs.
    pub(crate) fn search_steps(&self, text: &str) -> usize {
        text.len().saturating_add(COMPILED_AS).saturating_mul(self.steps)
    }

    /// Whether the pattern matches a part of `text`.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// A cache of compiled regular expressions. All compilations and searches of one cache share one limit of steps
/// (`Work::OF_ALL`).
pub struct Patterns<'a> {
    compiled: BTreeMap<&'a str, Option<Pattern>>,
    left: usize,
}

impl Default for Patterns<'_> {
    fn default() -> Self {
        Self { compiled: BTreeMap::new(), left: Work::OF_ALL.steps }
    }
}

impl<'a> Patterns<'a> {
    /// Whether `text` matches the regular expression `pattern`. Returns `false` if the pattern is invalid or too large,
    /// and `None` if the compilation or the search needs more steps than remain.
    pub fn matches(&mut self, text: &str, pattern: &'a str) -> Option<bool> {
        if !self.compiled.contains_key(pattern) {
            self.count(Pattern::compile_steps(pattern))?;
            self.compiled.insert(pattern, Pattern::compile(pattern).ok());
        }
        let steps = match &self.compiled[pattern] {
            Some(pattern) => pattern.search_steps(text),
            None => return Some(false),
        };
        self.count(steps)?;
        Some(self.compiled[pattern].as_ref().is_some_and(|pattern| pattern.is_match(text)))
    }

    fn count(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(steps)?;
        Some(())
    }
}

/// Whether `text` matches the regular expression `pattern`. Returns `false` if the pattern is invalid or too large, or
/// if the compilation or the search would take too long.
pub fn matches(text: &str, pattern: &str) -> bool {
    Patterns::default().matches(text, pattern) == Some(true)
}

/// Returns why a regular expression is invalid or too large; `None` if it is neither.
pub fn pattern_error(pattern: &str) -> Option<String> {
    let message = match Pattern::compile(pattern).err()? {
        Error::CompiledTooBig(_) => {
            "it is too large; shorten it, use smaller numbers of repetitions, or use [0-9] instead of \\d".to_owned()
        }
        error => error.to_string(),
    };
    let last = message.lines().last().unwrap_or_default();
    Some(last.trim_start_matches("error: ").to_owned())
}
