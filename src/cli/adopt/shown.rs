//! What was found, and what taking each release over would change: for people and for programs.

mod line;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::effects::Effects;
use super::look::ChartSaid;
use super::warnings::{self, Warning};
use line::Line;
use osdpl_core::adopt::{Description, Known};
use osdpl_core::catalog::Level;
use osdpl_core::difference::{Difference, Effect};

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    pub releases: Vec<Line>,
    /// Releases that do not run here and that others need: they are paused.
    pub installs: Vec<String>,
    /// Releases that are left alone, and why.
    pub left: Vec<Left>,
    pub openstack_release: String,
    pub presets: Vec<String>,
    pub findings: Vec<String>,
    /// Passwords that everyone knows.
    pub shipped: Vec<Warning>,
    /// What is said of the cloud's Ceph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceph: Option<String>,
    /// The names of the Secrets that the spec refers to.
    pub secrets: Vec<String>,
    /// Whether charts were at hand: without, that the operator's are those which run is taken for granted.
    pub charts: bool,
}

#[derive(Serialize)]
pub struct Left {
    pub release: String,
    pub why: String,
}

/// What was found out of the releases, each by the catalogue's name.
pub struct Seen {
    pub owners: BTreeMap<String, String>,
    pub charts: BTreeMap<String, ChartSaid>,
    pub effects: BTreeMap<String, Effects>,
    /// Whether charts were at hand.
    pub has_charts: bool,
    /// Passwords that everyone knows.
    pub shipped: Vec<Warning>,
    /// What is said of the cloud's Ceph.
    pub ceph: Option<String>,
}

impl Shown {
    pub fn new(known: &Known<'_>, described: &Description, mut seen: Seen) -> Self {
        let lines = known.releases.iter().map(|(name, found)| Line::new(name, found, described, &mut seen)).collect();
        let left = known.strangers.iter().map(|(key, why)| Left { release: key.to_string(), why: why.clone() });
        let findings = described.findings.iter().map(|finding| {
            let word = if finding.level == Level::Error { "error" } else { "warning" };
            format!("{word}: {finding}")
        });
        Self {
            releases: lines,
            installs: described.installs.clone(),
            left: left.collect(),
            openstack_release: described.spec.openstack_release.clone(),
            presets: described.spec.presets.clone(),
            findings: findings.collect(),
            shipped: seen.shipped,
            ceph: seen.ceph,
            secrets: described.secrets.keys().cloned().collect(),
            charts: seen.has_charts,
        }
    }

    /// For people; `file` is what was written.
    pub fn table(&self, file: Option<&Path>) -> String {
        let mut text = String::new();
        for line in &self.releases {
            let _ = writeln!(text, "{:<14} {:<28} {:<28} {}", line.name, line.release, line.chart, line.sentence());
            for detail in line.details() {
                let _ = writeln!(text, "    {detail}");
            }
        }
        for name in &self.installs {
            let _ = writeln!(
                text,
                "{name:<14} is not here and others need it: paused; say `external` of its service where it runs elsewhere"
            );
        }
        for Left { release, why } in &self.left {
            let _ = writeln!(text, "{:<14} {release:<28} left alone: {why}", "-");
        }
        for finding in &self.findings {
            let _ = writeln!(text, "{finding}");
        }
        text.push_str(&warnings::told(&self.shipped));
        if let Some(note) = &self.ceph {
            let _ = writeln!(text, "{note}");
        }
        let presets =
            if self.presets.is_empty() { "no preset".into() } else { format!("presets {}", self.presets.join(", ")) };
        let _ = writeln!(text, "{}", self.summary());
        let _ = writeln!(text, "OpenStack {}, {presets}; nothing was written to the cluster.", self.openstack_release);
        if let Some(file) = file {
            let secrets = self.secrets.len();
            let file = file.display();
            let _ = writeln!(
                text,
                "{file} has the resource and {secrets} Secrets: kubectl apply --server-side -f {file}, then osdpl plan"
            );
        }
        text
    }

    /// All of it in a sentence.
    fn summary(&self) -> String {
        let free: Vec<&Line> = self.releases.iter().filter(|line| line.owner.is_none()).collect();
        let same = free.iter().filter(|line| line.is_nothing()).count();
        let mut text = format!("{same} of {} releases come in with nothing changed", self.releases.len());
        if same < free.len() {
            let _ = write!(text, ", {} would change{}", free.len() - same, effects(&free));
            text.push_str(" (each waits for approval once it is taken over)");
        }
        if same < self.releases.len() && !self.charts {
            text.push_str("; no charts are at hand (--charts), so that objects are not told");
        } else if !self.charts {
            text.push_str(", provided that the operator's charts are those that run (--charts compares them)");
        }
        text.push('.');
        text
    }
}

/// What becomes of objects, counted.
fn effects(lines: &[&Line]) -> String {
    let objects: Vec<&Difference> = lines.iter().flat_map(|line| &line.effects.objects).collect();
    let count = |is: fn(&Effect) -> bool| objects.iter().filter(|object| is(&object.effect)).count();
    let counts = [
        (count(|effect| *effect == Effect::Added), "added"),
        (count(|effect| !matches!(effect, Effect::Added | Effect::Removed | Effect::Kept)), "changed"),
        (count(Effect::ends_pods), "of these with their pods anew"),
        (count(|effect| matches!(effect, Effect::Recreated { .. })), "to be recreated"),
        (count(|effect| *effect == Effect::Removed), "deleted"),
    ];
    let told: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if told.is_empty() { String::new() } else { format!("; objects: {}", told.join(", ")) }
}

#[cfg(test)]
mod tests;
