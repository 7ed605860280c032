//! What is said of one place of the resource by several releases is one hazard, or none.

use std::collections::{BTreeMap, BTreeSet};

use super::{Hazard, IDLE, Spot};

/// What is said of one value of one release.
pub struct Said {
    pub kind: &'static str,
    pub message: String,
}

/// All that is said.
#[derive(Default)]
pub struct Tally(BTreeMap<Spot, Heard>);

#[derive(Default)]
struct Heard {
    /// How many releases the value is for.
    releases: BTreeSet<String>,
    /// What is said, by kind: the first message, and of which releases.
    said: BTreeMap<&'static str, (String, Vec<String>)>,
}

impl Tally {
    /// Notes what the value at a place does to a release; `is_for` says whether it concerns it at all.
    pub fn add(&mut self, spot: Spot, release: &str, is_for: bool, said: Option<Said>) {
        if !is_for {
            return;
        }
        let heard = self.0.entry(spot).or_default();
        heard.releases.insert(release.to_owned());
        if let Some(Said { kind, message }) = said {
            heard.said.entry(kind).or_insert_with(|| (message, Vec::new())).1.push(release.to_owned());
        }
    }

    /// One hazard for each place and kind. What has an effect somewhere is not without one.
    pub fn hazards(self) -> Vec<Hazard> {
        let mut hazards = Vec::new();
        for (spot, Heard { releases, said }) in self.0 {
            for (kind, (message, of)) in said {
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
                hazards.push(Hazard { kind, field: spot.field.clone(), message });
            }
        }
        hazards
    }
}
