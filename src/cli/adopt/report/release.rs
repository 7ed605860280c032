//! Reports the changes that the adoption of one release would cause, for `osdpl adopt`.

use serde::Serialize;

use super::Observations;
use crate::adopt::discover::ChartState;
use crate::adopt::effects::Effects;
use osdpl_core::adopt::{Description, InstalledRelease};
use osdpl_core::observed::ComparisonResult;

/// The changes that the adoption of one release would cause.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleaseReport {
    pub name: String,
    pub release: String,
    pub chart: String,
    pub revision: u32,
    /// The number of values that `osdpl adopt` writes to the `overrides` of this release in the spec.
    pub overrides: usize,
    /// Differences other than those of `effects`: another version of the chart, or the reason why osdpl could not
    /// compare the release with the spec that `osdpl adopt` writes.
    pub changes: Vec<String>,
    #[serde(flatten)]
    pub effects: Effects,
    /// The tool that manages the release, and how the user ends this management, so that osdpl can adopt the release;
    /// absent if no other tool owns the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

impl ReleaseReport {
    pub(crate) fn new(
        name: &str,
        found: &InstalledRelease,
        described: &Description,
        observations: &mut Observations,
    ) -> Self {
        let chart = &found.source.chart;
        Self {
            name: name.to_owned(),
            release: found.key.to_string(),
            chart: format!("{} {}", chart.name, chart.version),
            revision: found.revision,
            overrides: count_overrides(name, described),
            changes: changes(name, described, observations),
            effects: observations.effects.remove(name).unwrap_or_default(),
            owner: observations.owners.remove(name),
        }
    }

    /// Whether the release would stay as it is after its adoption. False if osdpl could not compare the release's
    /// objects.
    pub(crate) fn is_unchanged(&self) -> bool {
        let Effects { values, objects, unrendered } = &self.effects;
        self.changes.is_empty() && values.is_empty() && objects.is_empty() && unrendered.is_none()
    }

    /// Returns one sentence about the changes that the adoption of the release would cause.
    pub(crate) fn sentence(&self) -> String {
        let overrides = match self.overrides {
            0 => String::new(),
            1 => " (the spec overrides 1 value)".to_owned(),
            count => format!(" (the spec overrides {count} values)"),
        };
        if let Some(owner) = &self.owner {
            return format!("can't be adopted: {owner}");
        }
        if self.is_unchanged() {
            return format!("adopting it changes nothing{overrides}");
        }
        let Effects { values, objects, unrendered } = &self.effects;
        let counted = |count: usize, noun: &str| {
            (count > 0).then(|| format!("{count} {noun}{}", if count == 1 { "" } else { "s" }))
        };
        let mut parts = self.changes.clone();
        parts.extend(counted(values.len(), "value"));
        parts.extend(counted(objects.len(), "object"));
        let parts = if parts.is_empty() { "no value".to_owned() } else { parts.join(", ") };
        let unrendered = unrendered.as_ref().map(|why| format!("; objects not compared: {why}")).unwrap_or_default();
        format!("adopting it would change {parts}{overrides}{unrendered}")
    }

    /// Returns one line for each value and each object that an upgrade after the adoption would change.
    pub(crate) fn details(&self) -> Vec<String> {
        if self.owner.is_some() {
            return Vec::new();
        }
        let values = self.effects.values.iter().map(crate::value_change::Change::describe);
        values.chain(self.effects.objects.iter().map(ToString::to_string)).collect()
    }
}

/// Returns how many values the release's `overrides` set or unset in the spec that `osdpl adopt` writes.
fn count_overrides(name: &str, described: &Description) -> usize {
    let release = described.spec.services.values().find_map(|service| service.releases.get(name));
    release.map_or(0, |release| osdpl_values::leaves(&release.overrides.values).len() + release.overrides.unset.len())
}

/// Returns, as texts, what [`Effects`] can't express: how the chart changes, or why osdpl could not compare the
/// existing release with the spec that `osdpl adopt` writes.
fn changes(name: &str, described: &Description, observations: &Observations) -> Vec<String> {
    let verdict = described.compared.get(name).map(|compared| &compared.result);
    let compared_change = match verdict {
        Some(ComparisonResult::Same) => None,
        Some(ComparisonResult::Differs { chart, .. }) => chart.clone(),
        Some(result @ (ComparisonResult::Owned(_) | ComparisonResult::Unknown(_))) => Some(result.to_string()),
        None => Some("the whole release, because the spec does not select it (the errors below say why)".to_owned()),
    };
    let chart = match observations.charts.get(name) {
        Some(ChartState::Other(change)) => Some(change.clone()),
        Some(ChartState::Unknown(_)) | None => None,
    };
    chart.into_iter().chain(compared_change).collect()
}
