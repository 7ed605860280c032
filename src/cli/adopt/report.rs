//! Reports the existing releases, and the changes that the adoption of each release would cause, as text and JSON.

mod release;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::discover::ChartState;
use super::effects::Effects;
use super::warnings::{self, Warning};
use osdpl_core::adopt::{Description, IdentifiedReleases};
use osdpl_core::catalog::Level;
use osdpl_core::difference::{Difference, Effect};
use release::ReleaseReport;

/// The existing releases and the effects of their adoption, as `osdpl adopt` prints them.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdoptReport {
    pub releases: Vec<ReleaseReport>,
    /// Releases that existing releases need, but that do not exist. The spec that `osdpl adopt` writes pauses these
    /// missing releases, so that the operator does not install them.
    pub installs: Vec<String>,
    /// Helm releases that osdpl leaves out of the `OpenStackDeployment` that it writes, each with the reason.
    pub ignored: Vec<IgnoredRelease>,
    pub openstack_release: String,
    pub presets: Vec<String>,
    pub findings: Vec<String>,
    /// The passwords of the existing cloud that equal publicly known defaults of upstream's charts.
    pub shipped: Vec<Warning>,
    /// A note about the cloud's Ceph cluster; absent if the cloud uses no Ceph. The note says whether the spec that
    /// `osdpl adopt` writes declares the Ceph cluster, and what the user must check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceph: Option<String>,
    /// The names of the Secrets that the spec references. osdpl writes them to the file of `--out`, together with the
    /// `OpenStackDeployment`.
    pub secrets: Vec<String>,
    /// Whether the user gave charts (`--charts`). Without `--charts`, the report assumes that the operator will use the
    /// charts in helm's records.
    pub charts: bool,
}

/// A helm release that osdpl leaves out of the `OpenStackDeployment` that it writes, and the reason.
#[derive(Serialize)]
pub(crate) struct IgnoredRelease {
    pub release: String,
    pub why: String,
}

/// The facts that osdpl observed about the existing releases: the input of [`AdoptReport`]. The keys of the maps are
/// the names of the releases in the catalogue.
pub(crate) struct Observations {
    pub owners: BTreeMap<String, String>,
    pub charts: BTreeMap<String, ChartState>,
    pub effects: BTreeMap<String, Effects>,
    /// Whether the user gave charts (`--charts`). If so, osdpl compared them with the charts in helm's records.
    pub has_charts: bool,
    /// The passwords of the existing cloud that equal publicly known defaults of upstream's charts.
    pub shipped: Vec<Warning>,
    /// A note about the cloud's Ceph cluster; `None` if the cloud uses no Ceph. The note says whether the spec that
    /// `osdpl adopt` writes declares the Ceph cluster, and what the user must check.
    pub ceph: Option<String>,
}

impl AdoptReport {
    pub(crate) fn new(known: &IdentifiedReleases<'_>, described: &Description, mut observations: Observations) -> Self {
        let releases = known
            .releases
            .iter()
            .map(|(name, found)| ReleaseReport::new(name, found, described, &mut observations))
            .collect();
        let ignored =
            known.unknown.iter().map(|(key, why)| IgnoredRelease { release: key.to_string(), why: why.clone() });
        let findings = described.findings.iter().map(|finding| {
            let word = if finding.level == Level::Error { "error" } else { "warning" };
            format!("{word}: {finding}")
        });
        Self {
            releases,
            installs: described.installs.clone(),
            ignored: ignored.collect(),
            openstack_release: described.spec.openstack_release.clone(),
            presets: described.spec.presets.clone(),
            findings: findings.collect(),
            shipped: observations.shipped,
            ceph: observations.ceph,
            secrets: described.secrets.keys().cloned().collect(),
            charts: observations.has_charts,
        }
    }

    /// Returns the report as text. `file` is the path of the file that osdpl wrote; `None` if osdpl wrote no file.
    pub(crate) fn table(&self, file: Option<&Path>) -> String {
        let mut text = String::new();
        for release in &self.releases {
            let ReleaseReport { name, release: key, chart, .. } = release;
            let _ = writeln!(text, "{name:<14} {key:<28} {chart:<28} {}", release.sentence());
            for detail in release.details() {
                let _ = writeln!(text, "    {detail}");
            }
        }
        for name in &self.installs {
            let _ = writeln!(
                text,
                "{name:<14} does not exist, but other releases need it; the spec pauses it. If its service runs outside of this cluster, set the service's `external`"
            );
        }
        for IgnoredRelease { release, why } in &self.ignored {
            let _ = writeln!(text, "{:<14} {release:<28} ignored: {why}", "-");
        }
        for finding in &self.findings {
            let _ = writeln!(text, "{finding}");
        }
        text.push_str(&warnings::format(&self.shipped));
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
                "osdpl wrote the resource and {secrets} Secrets to {file}; run `kubectl apply --server-side -f {file}`, then `osdpl plan`"
            );
        }
        text
    }

    /// Returns one sentence: how many releases osdpl can adopt without a change, how many would change, and how many
    /// objects these changes affect.
    fn summary(&self) -> String {
        let adoptable: Vec<&ReleaseReport> = self.releases.iter().filter(|release| release.owner.is_none()).collect();
        let same = adoptable.iter().filter(|release| release.is_unchanged()).count();
        let mut text = format!("{same} of {} releases can be adopted unchanged", self.releases.len());
        if same < adoptable.len() {
            let _ = write!(text, ", {} would change{}", adoptable.len() - same, count_effects(&adoptable));
            text.push_str(" (each waits for approval after adoption)");
        }
        if same < self.releases.len() && !self.charts {
            text.push_str("; no charts are given (--charts), so objects are not compared");
        } else if !self.charts {
            text.push_str(", provided that the operator uses the same charts as the releases (--charts compares them)");
        }
        text.push('.');
        text
    }
}

/// Returns, as text, the numbers of objects that the adoption of the releases would add, change, recreate and delete.
fn count_effects(releases: &[&ReleaseReport]) -> String {
    let objects: Vec<&Difference> = releases.iter().flat_map(|release| &release.effects.objects).collect();
    let count = |is: fn(&Effect) -> bool| objects.iter().filter(|object| is(&object.effect)).count();
    let counts = [
        (count(|effect| *effect == Effect::Added), "added"),
        (count(|effect| !matches!(effect, Effect::Added | Effect::Removed | Effect::Kept)), "changed"),
        (count(Effect::ends_pods), "of these with a restart of pods"),
        (count(|effect| matches!(effect, Effect::Recreated { .. })), "to be recreated"),
        (count(|effect| *effect == Effect::Removed), "deleted"),
    ];
    let parts: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, change)| format!("{n} {change}")).collect();
    if parts.is_empty() { String::new() } else { format!("; objects: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests;
