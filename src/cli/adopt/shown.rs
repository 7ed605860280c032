//! What was found, and what taking each release over would change: for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::adopt::{Description, Known};
use crate::catalog::Level;
use crate::observed::Verdict;

#[derive(Serialize)]
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
    /// The names of the Secrets that the spec refers to.
    pub secrets: Vec<String>,
}

/// One release that can be taken over.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    pub name: String,
    pub release: String,
    pub chart: String,
    pub revision: u32,
    /// Values that the spec overrides for it alone.
    pub overrides: usize,
    /// What taking it over would change; nothing where it is empty.
    pub changes: Vec<String>,
    /// Who else drives it, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

#[derive(Serialize)]
pub struct Left {
    pub release: String,
    pub why: String,
}

impl Shown {
    pub fn new(
        known: &Known<'_>,
        described: &Description,
        owners: &BTreeMap<String, String>,
        charts: &BTreeMap<String, String>,
    ) -> Self {
        let lines = known.releases.iter().map(|(name, found)| {
            let chart = &found.source.chart;
            Line {
                name: name.clone(),
                release: found.key.to_string(),
                chart: format!("{} {}", chart.name, chart.version),
                revision: found.revision,
                overrides: overrides(name, described),
                changes: changes(name, described, charts),
                owner: owners.get(name).cloned(),
            }
        });
        let left = known.strangers.iter().map(|(key, why)| Left { release: key.to_string(), why: why.clone() });
        let findings = described.findings.iter().map(|finding| {
            let word = if finding.level == Level::Error { "error" } else { "warning" };
            format!("{word}: {finding}")
        });
        Self {
            releases: lines.collect(),
            installs: described.installs.clone(),
            left: left.collect(),
            openstack_release: described.spec.openstack_release.clone(),
            presets: described.spec.presets.clone(),
            findings: findings.collect(),
            secrets: described.secrets.keys().cloned().collect(),
        }
    }

    /// For people; `file` is what was written.
    pub fn table(&self, file: Option<&Path>) -> String {
        let mut text = String::new();
        for line in &self.releases {
            let _ = writeln!(text, "{:<14} {:<28} {:<28} {}", line.name, line.release, line.chart, line.sentence());
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
        let presets =
            if self.presets.is_empty() { "no preset".into() } else { format!("presets {}", self.presets.join(", ")) };
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
}

impl Line {
    fn sentence(&self) -> String {
        let own = match self.overrides {
            0 => String::new(),
            1 => " (1 value of its own)".to_owned(),
            count => format!(" ({count} values of its own)"),
        };
        match (&self.owner, self.changes.as_slice()) {
            (Some(owner), _) => format!("can't be taken over: {owner}"),
            (None, []) => format!("taking it over changes nothing{own}"),
            (None, changes) => format!("taking it over would change {}{own}", changes.join(", ")),
        }
    }
}

fn overrides(name: &str, described: &Description) -> usize {
    let own = described.spec.services.values().find_map(|service| service.releases.get(name));
    own.map_or(0, |own| crate::values::leaves(&own.overrides.values).len() + own.overrides.unset.len())
}

fn changes(name: &str, described: &Description, charts: &BTreeMap<String, String>) -> Vec<String> {
    let verdict = described.compared.get(name).map(|compared| &compared.verdict);
    let values = match verdict {
        Some(Verdict::Same) => Vec::new(),
        Some(Verdict::Differs { chart, paths }) => chart.iter().chain(paths).cloned().collect(),
        Some(verdict @ (Verdict::Owned(_) | Verdict::Unknown(_))) => vec![verdict.to_string()],
        None => vec!["everything: the spec does not select it; see the errors below".to_owned()],
    };
    charts.get(name).cloned().into_iter().chain(values).collect()
}
