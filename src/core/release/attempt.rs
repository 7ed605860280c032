//! Identifies one run of helm by osdpl. A label stores this identity on the record that the run makes.

use std::fmt;
use std::str::FromStr;

/// The maximum length of a label value in Kubernetes.
const LABEL_VALUE_MAX: usize = 63;

/// The maximum length of the part of an attempt label that names the operator process.
///
/// A label value has at most 63 characters. After the name of the operator process, an attempt label contains up to 23
/// more characters: "-4294967295" for the number of the attempt, and "-v4294967295" for the revision.
pub(crate) const INSTANCE_MAX: usize = 40;

/// Identifies one attempt of osdpl to make a revision. The label value is `<instance>-<number>-v<revision>`.
///
/// The label proves that osdpl made a revision only if it contains the number of that revision. If it contains another
/// number, helm copied the label from another record: for an upgrade by someone else, from the record of the
/// previous revision; for a rollback, from the record of the restored revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    instance: String,
    number: u32,
    revision: u32,
}

impl Attempt {
    /// Creates the identity of an attempt to make the revision `revision` of a release.
    ///
    /// `instance` names the operator process: at most 40 characters of `[A-Za-z0-9._-]`, of which the first is a letter
    /// or digit. `number` counts the attempts of that process.
    ///
    /// # Errors
    /// Returns an error if `instance` is too long or is not valid in a label.
    pub fn new(instance: &str, number: u32, revision: u32) -> Result<Self, BadAttempt> {
        let bad = |why| BadAttempt { text: instance.to_owned(), why };
        if instance.len() > INSTANCE_MAX {
            return Err(bad("<instance> is longer than 40 characters"));
        }
        if !instance.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter)) {
            return Err(bad("<instance> has a character that is not allowed in a label"));
        }
        if !instance.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
            return Err(bad("<instance> does not begin with a letter or digit"));
        }
        Ok(Self { instance: instance.to_owned(), number, revision })
    }

    /// Creates the identity of an attempt without the checks of `Attempt::new`, because the caller knows that
    /// `instance` is valid.
    pub fn trusted(instance: &str, number: u32, revision: u32) -> Self {
        Self { instance: instance.to_owned(), number, revision }
    }

    /// Returns the name of the operator process that ran helm in this attempt.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the number of the attempt. Each operator process numbers its own attempts.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the number of the revision that osdpl tried to make.
    pub fn revision(&self) -> u32 {
        self.revision
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}-v{}", self.instance, self.number, self.revision)
    }
}

/// The error for a string that is not the value of an attempt label, or that can't name an operator process in such a
/// label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an attempt of osdpl (<instance>-<number>-v<revision>): {why}")]
pub struct BadAttempt {
    /// The rejected string: a label value, or the name of an operator process.
    pub text: String,
    /// Why osdpl rejects the string.
    pub why: &'static str,
}

impl FromStr for Attempt {
    type Err = BadAttempt;

    fn from_str(text: &str) -> Result<Self, BadAttempt> {
        let bad = |why| BadAttempt { text: text.to_owned(), why };
        if text.len() > LABEL_VALUE_MAX {
            return Err(bad("it is longer than 63 characters"));
        }
        let (rest, revision) = text.rsplit_once("-v").ok_or_else(|| bad("<revision> is missing"))?;
        let (instance, number) = rest.rsplit_once('-').ok_or_else(|| bad("<number> is missing"))?;
        let number = canonical(number).ok_or_else(|| bad("<number> is not a plain decimal number"))?;
        let revision = canonical(revision).ok_or_else(|| bad("<revision> is not a plain decimal number"))?;
        Self::new(instance, number, revision).map_err(|error| bad(error.why))
    }
}

/// Parses a number as osdpl writes it, without sign and leading zeros. Returns `None` for any other string, such as
/// `+1` or `01`.
fn canonical(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longest_attempt_fits_a_label() {
        let attempt = Attempt::new(&"a".repeat(INSTANCE_MAX), u32::MAX, u32::MAX).unwrap();
        assert_eq!(attempt.to_string().len(), LABEL_VALUE_MAX);
        assert_eq!(attempt.to_string().parse(), Ok(attempt));
    }

    #[test]
    fn rejects_invalid_attempts_with_the_reason() {
        for (text, why) in [
            ("", "<revision> is missing"),
            ("pod-1", "<revision> is missing"),
            ("pod-v1", "<number> is missing"),
            ("pod-x-v1", "<number> is not a plain decimal number"),
            ("pod-01-v1", "<number> is not a plain decimal number"),
            ("pod-1-v+1", "<revision> is not a plain decimal number"),
            ("pod-1-v99999999999", "<revision> is not a plain decimal number"),
            ("-1-v1", "<instance> does not begin with a letter or digit"),
            ("p/d-1-v1", "<instance> has a character that is not allowed in a label"),
        ] {
            assert_eq!(text.parse::<Attempt>().unwrap_err().why, why, "{text:?}");
        }
        let long = format!("{}-1-v1", "a".repeat(INSTANCE_MAX + 1));
        assert!(long.parse::<Attempt>().unwrap_err().to_string().contains("longer than 40"));
    }

    proptest! {
        #[test]
        fn attempts_round_trip(instance in "[a-z0-9][a-z0-9._-]{0,39}", number: u32, revision: u32) {
            let attempt = Attempt::new(&instance, number, revision).unwrap();
            prop_assert_eq!(attempt.to_string().parse(), Ok(attempt));
        }

        #[test]
        fn parsing_never_panics(text in ".{0,80}") {
            let _ = text.parse::<Attempt>();
        }
    }
}
