//! Combines the warnings of several releases about one location into one hazard, or none.

use std::collections::{BTreeMap, BTreeSet};

use super::{IDLE, Location};
use osdpl_core::finding::Finding;

/// A warning about one value of one release.
pub struct Warning {
    pub kind: &'static str,
    pub message: String,
}

/// The warnings by location.
#[derive(Default)]
pub struct Tally(BTreeMap<Location, Entry>);

#[derive(Default)]
struct Entry {
    /// The releases that the value is for.
    releases: BTreeSet<String>,
    /// The first message and the releases by kind.
    warnings: BTreeMap<&'static str, (String, Vec<String>)>,
}

impl Tally {
    /// Adds the result for a value of a release; `is_for` is whether the value concerns the release at all.
    pub fn add(&mut self, spot: Location, release: &str, is_for: bool, warning: Option<Warning>) {
        if !is_for {
            return;
        }
        let entry = self.0.entry(spot).or_default();
        entry.releases.insert(release.to_owned());
        if let Some(Warning { kind, message }) = warning {
            entry.warnings.entry(kind).or_insert_with(|| (message, Vec::new())).1.push(release.to_owned());
        }
    }

    /// Returns one hazard for each location and kind. A value that has an effect somewhere is not reported as idle.
    pub fn hazards(self) -> Vec<Finding> {
        let mut hazards = Vec::new();
        for (spot, Entry { releases, warnings }) in self.0 {
            for (kind, (message, of)) in warnings {
                let is_everywhere = of.len() == releases.len();
                if !is_everywhere && IDLE.contains(&kind) {
                    continue;
                }
                let of = of.join(", ");
                let message = match spot.stands() {
                    Some(_) => format!("{}{message}", spot.before(&of)),
                    None if releases.len() > 1 => format!("{message} (of {of})"),
                    None => message,
                };
                hazards.push(Finding::warning(kind, spot.field.clone(), message));
            }
        }
        hazards
    }
}
