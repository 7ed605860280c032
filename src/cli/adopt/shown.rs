//! Reports what was found, and what adopting each release would change, as text and JSON.

mod line;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::effects::Effects;
use super::look::ChartState;
use super::warnings::{self, Warning};
use line::Line;
use osdpl_core::adopt::{Description, IdentifiedReleases};
use osdpl_core::catalog::Level;
use osdpl_core::difference::{Difference, Effect};

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoptReport {
    pub releases: Vec<Line>,
    /// Releases that do not exist here but are needed by others: they are paused.
    pub installs: Vec<String>,
    /// Releases that are ignored, and why.
    pub left: Vec<Left>,
    pub openstack_release: String,
    pub presets: Vec<String>,
    pub findings: Vec<String>,
    /// Publicly known passwords.
    pub shipped: Vec<Warning>,
    /// The note about the cloud's Ceph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceph: Option<String>,
    /// The names of the Secrets that the spec references.
    pub secrets: Vec<String>,
    /// Whether charts were given; without them, the operator's charts are assumed to be those in use.
    pub charts: bool,
}

#[derive(Serialize)]
pub struct Left {
    pub release: String,
    pub why: String,
}

/// The observations about the releases, by the catalogue's names.
pub struct Observations {
    pub owners: BTreeMap<String, String>,
    pub charts: BTreeMap<String, ChartState>,
    pub effects: BTreeMap<String, Effects>,
    /// Whether charts were given.
    pub has_charts: bool,
    /// Publicly known passwords.
    pub shipped: Vec<Warning>,
    /// The note about the cloud's Ceph.
    pub ceph: Option<String>,
}

impl AdoptReport {
    pub fn new(known: &IdentifiedReleases<'_>, described: &Description, mut seen: Observations) -> Self {
        let lines = known.releases.iter().map(|(name, found)| Line::new(name, found, described, &mut seen)).collect();
        let left = known.unknown.iter().map(|(key, why)| Left { release: key.to_string(), why: why.clone() });
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

    /// Returns the report as text; `file` is the written file.
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
                "{name:<14} is not here but needed by others: paused; set `external` of its service if it runs elsewhere"
            );
        }
        for Left { release, why } in &self.left {
            let _ = writeln!(text, "{:<14} {release:<28} ignored: {why}", "-");
        }
        for finding in &self.findings {
            let _ = writeln!(text, "{finding}");
        }
        text.push_str(&warnings::text(&self.shipped));
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

    /// Returns the summary.
    fn summary(&self) -> String {
        let free: Vec<&Line> = self.releases.iter().filter(|line| line.owner.is_none()).collect();
        let same = free.iter().filter(|line| line.is_unchanged()).count();
        let mut text = format!("{same} of {} releases can be adopted unchanged", self.releases.len());
        if same < free.len() {
            let _ = write!(text, ", {} would change{}", free.len() - same, effects(&free));
            text.push_str(" (each waits for approval after adoption)");
        }
        if same < self.releases.len() && !self.charts {
            text.push_str("; no charts are given (--charts), so objects are not compared");
        } else if !self.charts {
            text.push_str(", provided that the operator uses the same charts (--charts compares them)");
        }
        text.push('.');
        text
    }
}

/// Returns the numbers of changed objects by kind of change.
fn effects(lines: &[&Line]) -> String {
    let objects: Vec<&Difference> = lines.iter().flat_map(|line| &line.effects.objects).collect();
    let count = |is: fn(&Effect) -> bool| objects.iter().filter(|object| is(&object.effect)).count();
    let counts = [
        (count(|effect| *effect == Effect::Added), "added"),
        (count(|effect| !matches!(effect, Effect::Added | Effect::Removed | Effect::Kept)), "changed"),
        (count(Effect::ends_pods), "of these with a restart of pods"),
        (count(|effect| matches!(effect, Effect::Recreated { .. })), "to be recreated"),
        (count(|effect| *effect == Effect::Removed), "deleted"),
    ];
    let parts: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if parts.is_empty() { String::new() } else { format!("; objects: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests;
