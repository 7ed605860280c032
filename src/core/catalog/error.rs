//! What can be wrong with a catalogue.

use std::fmt;

use osdpl_values as values;
use osdpl_values::expr;
use osdpl_values::yaml;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A file is no YAML or not of its schema.
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
        /// What is wrong.
        error: expr::Error,
    },
    /// A path is wrong.
    #[error("{file}: {field}: {error}")]
    Path {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// What is wrong.
        error: values::PathError,
    },
    /// A name is used that nothing has.
    #[error("{file}: {field}: there is no {kind} {name:?}{hint}; correct the name or add its file")]
    Unknown {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// What kind of thing is missing.
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// `, did you mean …?`, or nothing.
        hint: String,
    },
    /// Releases need each other in a circle.
    #[error(
        "releases need each other in a circle: {0}; remove one of these needs (pods that wait for each other need none)"
    )]
    Cycle(String),
    /// Anything else.
    #[error("{file}: {problem}")]
    Other {
        /// The file.
        file: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// Everything that is wrong, at once.
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

/// `, did you mean "nova"?` for the candidate nearest to `name`, where one is near enough.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map(|candidate| format!(", did you mean {candidate:?}?")).unwrap_or_default()
}

#[cfg(debug_assertions)]
thread_local! {
    /// How often a near name was looked for.
    pub static LOOKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The candidate nearest to `name`, where one is near enough: a letter or two of it are others, or it is the only one that has all of its words.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    #[cfg(debug_assertions)]
    LOOKED.set(LOOKED.get() + 1);
    let lower = name.to_lowercase();
    let mut all: Vec<(usize, &str)> =
        candidates.into_iter().map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate)).collect();
    all.sort_unstable();
    all.dedup();
    // Of two numbers that are as near by their digits, the one that is nearer by its value.
    all.sort_by(|(one, left), (two, right)| {
        one.cmp(two).then_with(|| apart(name, left).total_cmp(&apart(name, right)))
    });
    let letters = lower.chars().count();
    let near = all.first().filter(|(distance, _)| *distance <= 1.max(letters / 3) && *distance < letters);
    let own = words(name);
    let mut related = all.iter().filter(|(_, candidate)| are_related(&own, &words(candidate)));
    let only = related.next().filter(|_| related.next().is_none());
    near.or(only).map(|(_, candidate)| *candidate)
}

/// The words of a name: `node_selector_key`, `storageClass`, `barbican-api`.
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
    // A letter alone is no word, and years are alike.
    words.retain(|word| word.len() > 1 && word.contains(char::is_alphabetic));
    words
}

/// How far two numbers are apart; 0 where one is none.
fn apart(one: &str, two: &str) -> f64 {
    one.parse::<f64>().ok().zip(two.parse::<f64>().ok()).map_or(0.0, |(one, two)| (one - two).abs())
}

/// Whether one has every word of the other, and not many more.
fn are_related(one: &[String], two: &[String]) -> bool {
    let (fewer, more) = if one.len() <= two.len() { (one, two) } else { (two, one) };
    !fewer.is_empty() && more.len() <= 2 * fewer.len() && fewer.iter().all(|word| more.contains(word))
}

/// Levenshtein's distance, by which two neighbours that changed places are one step (optimal string alignment).
fn distance(one: &str, two: &str) -> usize {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=two.len()).collect()];
    for (i, left) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in two.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(left != right);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *left == two[j - 1] && one[i - 1] == *right {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_numbers_that_are_as_near_the_nearer_one_is_suggested() {
        let releases = ["2025.1", "2025.2", "2026.1"];
        for (name, meant) in [("2027.1", "2026.1"), ("2024.1", "2025.1"), ("2025.3", "2025.2")] {
            assert_eq!(did_you_mean(name, releases), format!(", did you mean {meant:?}?"), "{name}");
        }
        assert_eq!(did_you_mean("secretKeyRef", ["key", "kind", "name"]), "", "a word of many is not meant");
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let names =
            ["nova", "neutron", "placement", "openvswitch", "storageClass", "node_selector_key", "ha", "heat", "a"];
        for (name, meant) in [
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
            let said = did_you_mean(name, names);
            let expected = if meant.is_empty() { String::new() } else { format!(", did you mean {meant:?}?") };
            assert_eq!(said, expected, "{name}");
        }
    }
}
