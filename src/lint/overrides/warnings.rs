//! Combines warnings of several releases about a value at the same location into one finding.
//!
//! A value at one location, such as `spec.common`, may apply to several releases. If the value has an effect in at
//! least one of them, the module drops all warnings that the value has no effect.

use std::collections::{BTreeMap, BTreeSet};

use super::{HIDDEN_KEY, OPTION_VALUE, TYPE_CHANGED};
use crate::cloud::Location;
use osdpl_core::finding::Finding;

/// The kinds of warnings that say that a value has no effect.
///
/// osdpl drops a warning of these kinds if the value has an effect in at least one release.
const WITHOUT_EFFECT: [&str; 3] = ["no-effect", "preset-repeated", "null-nothing"];

/// A warning about one value of one release.
pub(super) struct Warning {
    pub kind: &'static str,
    pub message: String,
}

impl Warning {
    /// Whether the warning says that the value has no effect.
    pub(crate) fn is_without_effect(&self) -> bool {
        WITHOUT_EFFECT.contains(&self.kind)
    }
}

/// The warnings about values, by the location of the value.
#[derive(Default)]
pub(super) struct Warnings(BTreeMap<Location, Entry>);

#[derive(Default)]
struct Entry {
    /// The releases to which the value applies.
    releases: BTreeSet<String>,
    /// For each kind of warning, the message of the first warning, and the releases with such a warning.
    by_kind: BTreeMap<&'static str, (String, Vec<String>)>,
}

impl Warnings {
    /// Adds the result of checking the value at `location` for the release `release`.
    ///
    /// `warning` is `None` if the check found nothing.
    pub(crate) fn add(&mut self, location: Location, release: &str, warning: Option<Warning>) {
        let entry = self.0.entry(location).or_default();
        entry.releases.insert(release.to_owned());
        if let Some(Warning { kind, message }) = warning {
            entry.by_kind.entry(kind).or_insert_with(|| (message, Vec::new())).1.push(release.to_owned());
        }
    }

    /// Returns one finding for each location and each kind of warning about the location.
    ///
    /// Leaves out a warning that a value has no effect, if the value has an effect in at least one release.
    pub(crate) fn findings(self) -> Vec<Finding> {
        let mut found = Vec::new();
        for (location, Entry { releases, mut by_kind }) in self.0 {
            // Drop the warning about the option's value, because the warning about the type already says which value
            // the option takes.
            if by_kind.contains_key(TYPE_CHANGED) || by_kind.contains_key(HIDDEN_KEY) {
                by_kind.remove(OPTION_VALUE);
            }
            for (kind, (message, affected)) in by_kind {
                let has_effect = affected.len() < releases.len();
                if has_effect && WITHOUT_EFFECT.contains(&kind) {
                    continue;
                }
                let affected = affected.join(", ");
                let message = match location.addition() {
                    Some(_) => format!("{}{message}", location.message_prefix(&affected)),
                    None if releases.len() > 1 => format!("{message} (affected releases: {affected})"),
                    None => message,
                };
                found.push(Finding::warning(kind, location.field.clone(), message));
            }
        }
        found
    }
}
