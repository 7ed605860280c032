//! Reports the differences that `osdpl diff` found, as text and JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::value_change::Change;
use osdpl_core::difference::Difference;
use osdpl_core::finding::Finding;

/// The result of `osdpl diff`: the changes that a reconcile pass would make to the releases.
#[derive(Default, Serialize)]
pub(crate) struct DiffReport {
    pub namespace: String,
    pub name: String,
    /// The releases that differ from their desired state. The keys are the releases' names in the catalogue.
    pub releases: BTreeMap<String, ReleaseDiff>,
    /// The number of releases that match their desired state.
    pub same: usize,
    /// The number of unmanaged releases, which are not compared.
    #[serde(skip_serializing_if = "is_zero")]
    pub unmanaged: usize,
    /// Findings about the `OpenStackDeployment`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Messages about facts that osdpl could not read. Without these facts, the comparison may be wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Whether osdpl could not read a fact that the comparison needs. If so, `same` may count releases that differ.
    #[serde(skip)]
    pub uncertain: bool,
    /// Notes for the user, for example that the operator ignores this `OpenStackDeployment`, because the cluster has an
    /// older one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The changes that a reconcile pass would make in one release: the differences between helm's record and the desired
/// release.
#[derive(Serialize)]
pub(crate) struct ReleaseDiff {
    /// The helm release as `namespace/name`.
    pub release: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Change>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Difference>,
    /// The reason why osdpl could not compare the release's existing objects with the objects that helm would render;
    /// `None` if osdpl compared them, or if the user did not request the comparison (`--manifests`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrendered: Option<String>,
}

/// The effect that a reconcile pass would have on one release.
#[derive(PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub(crate) enum Outcome {
    /// The release would be installed, because it does not exist yet.
    Installed,
    /// The release would be uninstalled, because it is no longer desired.
    Uninstalled,
    /// The release would become unmanaged. Its objects would not change.
    Unmanaged,
    /// The release would be upgraded. `chart` describes a difference that concerns neither values nor objects, such as
    /// a new version of the chart.
    Changed {
        #[serde(skip_serializing_if = "Option::is_none")]
        chart: Option<String>,
    },
    /// The release would not change, because the spec requests something that the operator can't do, such as a move to
    /// another namespace.
    Stays { why: String },
    /// osdpl can't compare the release, because the operator would not run helm for the release, or because osdpl can't
    /// render the release's objects.
    Refused { why: String },
    /// Helm's record of the release can't be read.
    Unreadable { why: String },
}

impl DiffReport {
    /// Whether osdpl could compare every release.
    pub(crate) fn is_complete(&self) -> bool {
        let is_incomplete = |release: &ReleaseDiff| {
            release.unrendered.is_some()
                || matches!(release.outcome, Outcome::Refused { .. } | Outcome::Unreadable { .. })
        };
        !self.uncertain && !self.releases.values().any(is_incomplete)
    }

    /// Whether any release differs from its desired state.
    pub(crate) fn differs(&self) -> bool {
        !self.releases.is_empty()
    }

    /// Returns the differences as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let _ = writeln!(text, "{}: {finding}", finding.level.as_str());
        }
        for (name, release) in &self.releases {
            let _ = writeln!(text, "{name} ({}) {}", release.release, release.outcome);
            for change in &release.values {
                let _ = writeln!(text, "  {}", change.describe());
            }
            if let Some(why) = &release.unrendered {
                let _ = writeln!(text, "  its objects can't be compared: {}", why.replace('\n', "\n  "));
            }
            for object in &release.objects {
                let _ = writeln!(text, "  {object}");
                for field in &object.fields {
                    let _ = writeln!(text, "    {}", field.to_string().replace('\n', "\n    "));
                }
            }
        }
        let _ = writeln!(text, "{}", self.summary());
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for unknown in &self.unknown {
            let _ = writeln!(text, "unknown: {unknown}");
        }
        text
    }

    fn summary(&self) -> String {
        let count =
            |matches: fn(&Outcome) -> bool| self.releases.values().filter(|release| matches(&release.outcome)).count();
        let counts = [
            (count(|outcome| matches!(outcome, Outcome::Changed { .. })), "would be changed"),
            (count(|outcome| *outcome == Outcome::Installed), "installed"),
            (count(|outcome| *outcome == Outcome::Uninstalled), "uninstalled"),
            (self.unmanaged + count(|outcome| *outcome == Outcome::Unmanaged), "unmanaged"),
            (count(|outcome| matches!(outcome, Outcome::Stays { .. })), "unchanged because the change is impossible"),
            (
                count(|outcome| matches!(outcome, Outcome::Refused { .. } | Outcome::Unreadable { .. })),
                "can't be compared",
            ),
        ];
        let parts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, verb)| format!("{count} {verb}, "));
        let objects = self.releases.values().flat_map(|release| &release.objects);
        let restarted = objects.filter(|object| object.effect.ends_pods()).count();
        let pods = match restarted {
            0 => String::new(),
            1 => "; the pods of 1 object restart".to_owned(),
            count => format!("; the pods of {count} objects restart"),
        };
        format!("{}{} as desired{pods}.", parts.collect::<String>(), self.same)
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Installed => formatter.write_str("would be installed"),
            Self::Uninstalled => formatter.write_str("would be uninstalled"),
            Self::Unmanaged => formatter.write_str("would be unmanaged, and keeps running as it is"),
            Self::Changed { chart: None } => formatter.write_str("would be changed"),
            Self::Changed { chart: Some(chart) } => write!(formatter, "would be changed: {chart}"),
            Self::Stays { why } => write!(formatter, "stays as it is: {why}"),
            Self::Refused { why } => write!(formatter, "can't be compared: {why}"),
            Self::Unreadable { why } => write!(formatter, "can't be read: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn release(outcome: Outcome, values: Vec<Change>) -> ReleaseDiff {
        ReleaseDiff { release: "openstack/x".into(), outcome, values, objects: Vec::new(), unrendered: None }
    }

    fn report(releases: Vec<(&str, ReleaseDiff)>) -> DiffReport {
        let releases = releases.into_iter().map(|(name, release)| (name.to_owned(), release)).collect();
        DiffReport { releases, same: 2, ..DiffReport::default() }
    }

    #[test]
    fn formats_every_kind_of_difference() {
        let change = |before: &str, after: &str| Change {
            path: "conf.x".into(),
            before: Some(json!(before)),
            after: Some(json!(after)),
            source: None,
        };
        let chart = || Some("the chart's version from 1 to 2".to_owned());
        let all = report(vec![
            ("a", release(Outcome::Installed, vec![])),
            ("b", release(Outcome::Uninstalled, vec![])),
            (
                "c",
                release(Outcome::Changed { chart: None }, vec![change("1", "2"), change("<redacted>", "<redacted>")]),
            ),
            ("d", release(Outcome::Changed { chart: chart() }, vec![])),
        ]);
        assert_eq!(
            all.text(),
            "a (openstack/x) would be installed\nb (openstack/x) would be uninstalled\nc (openstack/x) would be changed\n  \
             conf.x: \"1\" → \"2\"\n  conf.x: changed (secret, not shown)\nd (openstack/x) would be changed: the chart's version from 1 to 2\n\
             2 would be changed, 1 installed, 1 uninstalled, 2 as desired.\n"
        );
        assert!(all.is_complete() && all.differs());
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!(json["releases"]["a"], json!({"release": "openstack/x", "what": "installed"}));
        let unavailable = report(vec![("e", release(Outcome::Refused { why: "no chart".into() }, vec![]))]);
        assert!(
            !unavailable.is_complete() && unavailable.text().contains("e (openstack/x) can't be compared: no chart\n")
        );
        let moved = report(vec![("f", release(Outcome::Stays { why: "it can't become y/f".into() }, vec![]))]);
        assert_eq!(
            moved.text(),
            "f (openstack/x) stays as it is: it can't become y/f\n1 unchanged because the change is impossible, 2 as desired.\n"
        );
        assert!(moved.is_complete() && moved.differs());
        assert_eq!(report(vec![]).text(), "2 as desired.\n");
    }

    #[test]
    fn reports_incomplete_comparisons() {
        let unmanaged = DiffReport { unmanaged: 1, ..report(vec![("a", release(Outcome::Unmanaged, vec![]))]) };
        assert_eq!(
            unmanaged.text(),
            "a (openstack/x) would be unmanaged, and keeps running as it is\n2 unmanaged, 2 as desired.\n"
        );
        let uncertain = DiffReport { uncertain: true, ..report(vec![]) };
        assert!(!uncertain.is_complete(), "the comparison must count as incomplete if osdpl could not read a fact");
        let unrendered =
            ReleaseDiff { unrendered: Some("no chart x".into()), ..release(Outcome::Changed { chart: None }, vec![]) };
        let incomplete = report(vec![("a", unrendered)]);
        assert!(
            !incomplete.is_complete() && incomplete.text().contains("\n  its objects can't be compared: no chart x\n")
        );
    }
}
