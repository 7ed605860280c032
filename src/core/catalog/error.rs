//! Errors of a catalogue.

use std::fmt;

use osdpl_values as values;
use osdpl_values::expr;
use osdpl_values::yaml;
use strsim::osa_distance;

/// An error and its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A file is not valid YAML or does not match its schema.
    #[error("{0}; correct the file")]
    Yaml(#[from] yaml::Error),
    /// An expression is wrong.
    #[error("{file}:{line}: {field}: {error}")]
    Expression {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The field.
        field: String,
        /// The problem.
        error: expr::Error,
    },
    /// A path is wrong.
    #[error("{file}: {field}: {error}")]
    Path {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// The problem.
        error: values::PathError,
    },
    /// An unknown name is used.
    #[error("{file}: {field}: there is no {kind} {name:?}{hint}; correct the name or add its file")]
    Unknown {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// The kind of the missing item.
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// `, did you mean …?`, or empty.
        hint: String,
    },
    /// Releases need each other in a cycle.
    #[error(
        "releases need each other in a circle: {0}; remove one of these needs; pods can wait for each other without them"
    )]
    Cycle(String),
    /// Anything else.
    #[error("{file}: {problem}")]
    Other {
        /// The file.
        file: String,
        /// The problem and the remedy.
        problem: String,
    },
}

/// All errors of a catalogue.
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

/// Returns `, did you mean "nova"?` for the candidate nearest to `name`, if one is near enough.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest_name(name, candidates).map(|candidate| format!(", did you mean {candidate:?}?")).unwrap_or_default()
}

#[cfg(debug_assertions)]
thread_local! {
    /// Counts the searches for a near name.
    pub static SEARCHES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the candidate nearest to `name`, if one is near enough: it differs in a letter or two, or it is the only one
/// that shares all words.
pub fn nearest_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    #[cfg(debug_assertions)]
    SEARCHES.set(SEARCHES.get() + 1);
    let lower = name.to_lowercase();
    let mut all: Vec<(usize, &str)> =
        candidates.into_iter().map(|candidate| (osa_distance(&lower, &candidate.to_lowercase()), candidate)).collect();
    all.sort_unstable();
    all.dedup();
    // If two numbers are equally near by their digits, prefer the one with the nearer value.
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

/// Splits a name into lower-case words: `node_selector_key`, `storageClass`, `barbican-api`.
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
    // Ignore single letters, and numbers, because years resemble each other.
    words.retain(|word| word.len() > 1 && word.contains(char::is_alphabetic));
    words
}

/// Returns the difference of two numbers; 0 if either is not a number.
fn numeric_difference(one: &str, two: &str) -> f64 {
    one.parse::<f64>().ok().zip(two.parse::<f64>().ok()).map_or(0.0, |(one, two)| (one - two).abs())
}

/// Whether one name has every word of the other, and not many more.
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
            assert_eq!(did_you_mean(name, releases), format!(", did you mean {expected:?}?"), "{name}");
        }
        assert_eq!(did_you_mean("secretKeyRef", ["key", "kind", "name"]), "", "one word of several is not enough");
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
            let expected = if expected.is_empty() { String::new() } else { format!(", did you mean {expected:?}?") };
            assert_eq!(suggestion, expected, "{name}");
        }
    }
}
