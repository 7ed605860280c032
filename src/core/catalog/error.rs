//! Errors in the files of a catalogue, and suggestions for misspelled names.

use std::fmt;

use osdpl_values as values;
use osdpl_values::expr;
use osdpl_values::yaml;
use strsim::osa_distance;

/// An error in a file of the catalogue, with its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A file is not valid YAML, or does not match its schema.
    #[error("{0}; correct the file")]
    Yaml(#[from] yaml::Error),
    /// A CEL expression can't be compiled.
    #[error("{file}:{line}: {field}: {error}")]
    Expression {
        /// The path of the file, such as `values/services/nova.yaml`.
        file: String,
        /// The line number of the expression in the file, from 1; 0 if it is not known.
        line: usize,
        /// The field that contains the expression.
        field: String,
        /// The error from the CEL compiler.
        error: expr::Error,
    },
    /// A path in helm values is malformed.
    #[error("{file}: {field}: {error}")]
    Path {
        /// The path of the file, such as `values/services/nova.yaml`.
        file: String,
        /// The field that contains the path.
        field: String,
        /// The reason why the path is malformed.
        error: values::PathError,
    },
    /// A file refers to a name that no file declares.
    #[error("{file}: {field}: there is no {kind} {name:?}{hint}; correct the name, or declare it in a catalogue file")]
    Unknown {
        /// The path of the file, such as `values/services/nova.yaml`.
        file: String,
        /// The field that contains the unknown name.
        field: String,
        /// The kind of item that the name should refer to, in the words of the message: `release`, `component`,
        /// `credential`.
        kind: &'static str,
        /// The name that no file declares.
        name: String,
        /// The suggestion of a similar name: ` (did you mean …?)`; empty if no name is similar.
        hint: String,
    },
    /// Releases need or await components of each other in a cycle, such as `nova → neutron → nova`.
    #[error(
        "releases need each other in a cycle: {0}; move one of these dependencies from `needs` or `awaits` to `alongside`, because osdpl does not wait for components in `alongside`"
    )]
    Cycle(String),
    /// Any other error, with the problem and the remedy as text.
    #[error("{file}: {problem}")]
    Other {
        /// The path of the file, such as `values/services/nova.yaml`.
        file: String,
        /// The problem and the remedy.
        problem: String,
    },
}

/// All errors that osdpl found in the files of a catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Error>);

impl fmt::Display for Errors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(formatter, "{}{error}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Returns ` (did you mean "nova"?)` with the candidate that is most similar to `name`; an empty string if no candidate
/// is similar enough.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = nearest_of(name, &mut candidates.into_iter());
    nearest.map(|candidate| format!(" (did you mean {candidate:?}?)")).unwrap_or_default()
}

#[cfg(debug_assertions)]
thread_local! {
    /// Counts the calls of `nearest_of`, so that a test can check that few searches for a similar name take place.
    pub static SEARCHES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the candidate that is most similar to `name`, if any candidate is similar enough.
///
/// A candidate is similar enough in two cases: it differs from `name` in few letters, or it is the only candidate that
/// shares most words with `name` (see `share_words`).
pub fn nearest_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_of(name, &mut candidates.into_iter())
}

/// The maximum length, in bytes, of names that [`nearest_name`] compares. Users provide the names, and the time for a
/// comparison grows with the product of the lengths.
const MAX_NAME: usize = 250;

/// Does the work of [`nearest_name`], but is not generic, so that the program contains the code only once.
fn nearest_of<'a>(name: &str, candidates: &mut dyn Iterator<Item = &'a str>) -> Option<&'a str> {
    #[cfg(debug_assertions)]
    SEARCHES.set(SEARCHES.get() + 1);
    if name.len() > MAX_NAME {
        return None;
    }
    let lower = name.to_lowercase();
    let candidates = candidates.filter(|candidate| candidate.len() <= MAX_NAME);
    let mut all: Vec<(usize, &str)> =
        candidates.map(|candidate| (osa_distance(&lower, &candidate.to_lowercase()), candidate)).collect();
    all.sort_unstable();
    all.dedup();
    // `name` may be a number, such as `2026.1`. If several candidates differ from it in equally many digits, prefer the
    // candidate with the nearest value.
    all.sort_by(|(one, left), (two, right)| {
        one.cmp(two).then_with(|| numeric_difference(name, left).total_cmp(&numeric_difference(name, right)))
    });
    let letters = lower.chars().count();
    let near = all.first().filter(|(distance, _)| *distance <= 1.max(letters / 3) && *distance < letters);
    let own = words(name);
    let mut related = all.iter().filter(|(_, candidate)| share_words(&own, &words(candidate)));
    let only = related.next().filter(|_| related.next().is_none());
    near.or(only).map(|(_, candidate)| *candidate)
}

/// Splits a name such as `node_selector_key`, `storageClass` or `barbican-api` into its words in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if !letter.is_alphanumeric() || letter.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    // Ignore single letters and numbers: two names are not similar just because both contain the same number, such as
    // the year of an OpenStack release.
    words.retain(|word| word.len() > 1 && word.contains(char::is_alphabetic));
    words
}

/// Returns the difference between two strings that are numbers; 0 if one of them is not a number.
fn numeric_difference(one: &str, two: &str) -> f64 {
    one.parse::<f64>().ok().zip(two.parse::<f64>().ok()).map_or(0.0, |(one, two)| (one - two).abs())
}

/// Whether the longer of two names contains every word of the shorter one, and has at most twice as many words.
fn share_words(one: &[String], two: &[String]) -> bool {
    let (fewer, more) = if one.len() <= two.len() { (one, two) } else { (two, one) };
    !fewer.is_empty() && more.len() <= 2 * fewer.len() && fewer.iter().all(|word| more.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearer_number() {
        let releases = ["2025.1", "2025.2", "2026.1"];
        for (name, expected) in [("2027.1", "2026.1"), ("2024.1", "2025.1"), ("2025.3", "2025.2")] {
            assert_eq!(did_you_mean(name, releases), format!(" (did you mean {expected:?}?)"), "{name}");
        }
        assert_eq!(
            did_you_mean("secretKeyRef", ["key", "kind", "name"]),
            "",
            "osdpl suggests no name that has only one of the three words in `secretKeyRef`"
        );
    }

    #[test]
    fn suggests_only_near_names() {
        let names =
            ["nova", "neutron", "placement", "openvswitch", "storageClass", "node_selector_key", "ha", "heat", "a"];
        for (name, expected) in [
            ("nvoa", "nova"),
            ("Nova", "nova"),
            ("neutrn", "neutron"),
            ("storage-class", "storageClass"),
            ("storageclas", "storageClass"),
            ("selector_key", "node_selector_key"),
            ("hA", "ha"),
            ("placment-api", ""),
            ("placement-api", "placement"),
            ("kova", "nova"),
            ("kora", ""),
            ("ovn", ""),
            ("hot", ""),
            ("b", ""),
            ("", ""),
        ] {
            let suggestion = did_you_mean(name, names);
            let expected = if expected.is_empty() { String::new() } else { format!(" (did you mean {expected:?}?)") };
            assert_eq!(suggestion, expected, "{name}");
        }
    }

    #[test]
    fn ignores_long_names() {
        let long = "n".repeat(MAX_NAME + 1);
        assert_eq!(nearest_name(&long, [long.as_str()]), None);
        assert_eq!(nearest_name(&long[1..], [&long, &long[2..]]), Some(&long[2..]));
    }
}
