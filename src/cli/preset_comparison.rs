//! Compares two clouds, each of which results from its own list of presets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use crate::document::{Document, locate};
use crate::value_change::Change;
use osdpl_core::desired::{Desired, DesiredRelease, Selection, redact};
use osdpl_core::finding::Finding;
use osdpl_values::{CollectSorted, changed_paths, get};

/// The cloud that results from one list of presets.
pub(crate) struct Cloud {
    pub presets: Vec<String>,
    pub selection: Selection,
    pub desired: Desired,
    /// One line for each fact that a placeholder replaces, except for credentials.
    pub placeholders: Vec<String>,
}

/// The differences between the cloud with the first presets (`before`) and the cloud with the second presets (`after`).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    pub before: Vec<String>,
    pub after: Vec<String>,
    pub services: Services,
    /// Releases that only the second cloud has.
    pub added: Vec<String>,
    /// Releases that only the first cloud has.
    pub removed: Vec<String>,
    /// The changed values of each release that both clouds have.
    pub changed: BTreeMap<String, Vec<Change>>,
    /// The releases of both clouds whose values osdpl can't determine in at least one of the clouds, each with the
    /// reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
    /// Findings that only the second cloud has.
    pub findings: Vec<Finding>,
    /// One line for each fact that a placeholder replaces in at least one of the clouds, except for credentials.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub placeholders: BTreeSet<String>,
    /// Whether neither cloud has a release, so that there is nothing to compare. This happens, for example, if all
    /// presets are sizes: a size only scales the releases of other presets.
    #[serde(skip)]
    has_no_releases: bool,
}

/// The names of services that only one of the clouds has.
#[derive(Serialize)]
pub(crate) struct Services {
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl Comparison {
    /// Compares two clouds. `document` is the file with the spec of both clouds; `None` if there is no file.
    pub(crate) fn of(before: &Cloud, after: &Cloud, document: Option<&Document>) -> Self {
        // A cloud can select a service although the cloud's features disable all releases of the service: for example,
        // the service ovn if the feature `network` selects the backend ovs. Leave out such services.
        let services = |cloud: &Cloud| -> BTreeSet<String> {
            let installed = cloud.desired.releases.values().map(|release| &release.service);
            installed.chain(cloud.selection.external.keys()).cloned().collect_set()
        };
        let (services_before, services_after) = (services(before), services(after));
        let names = |cloud: &Cloud| -> BTreeSet<String> { cloud.desired.releases.keys().cloned().collect_set() };
        let (names_before, names_after) = (names(before), names(after));
        let is_new = |finding: &&Finding| !before.desired.findings.contains(finding);
        let new = after.desired.findings.iter().filter(is_new).map(|finding| locate(finding, document));
        let mut findings: Vec<Finding> = new.collect();
        findings.sort_by_cached_key(|finding| {
            (finding.line(), finding.level.as_str(), finding.field().to_owned(), finding.text())
        });
        findings.dedup();
        let mut comparison = Self {
            before: before.presets.clone(),
            after: after.presets.clone(),
            services: Services {
                added: only(&services_after, &services_before),
                removed: only(&services_before, &services_after),
            },
            added: only(&names_after, &names_before),
            removed: only(&names_before, &names_after),
            changed: BTreeMap::new(),
            unknown: BTreeMap::new(),
            findings,
            placeholders: before.placeholders.iter().chain(&after.placeholders).cloned().collect_set(),
            has_no_releases: names_before.is_empty() && names_after.is_empty(),
        };
        for name in names_before.intersection(&names_after) {
            let (old, new) = (&before.desired.releases[name], &after.desired.releases[name]);
            if let Some(blocked) = [old, new].iter().find_map(|release| release.blocked.as_ref()) {
                comparison.unknown.insert(name.clone(), blocked.message.clone());
                continue;
            }
            let changes = changes(old, new);
            if !changes.is_empty() {
                comparison.changed.insert(name.clone(), changes);
            }
        }
        comparison
    }

    /// Returns the comparison as text.
    pub(crate) fn text(&self) -> String {
        let (before, after) = (self.before.join(","), self.after.join(","));
        let mut text = String::new();
        let mut add_line = |title: &str, names: &[String]| {
            if !names.is_empty() {
                let _ = writeln!(text, "{title}: {}", names.join(", "));
            }
        };
        add_line("services added", &self.services.added);
        add_line("services removed", &self.services.removed);
        add_line("releases added", &self.added);
        add_line("releases removed", &self.removed);
        for (name, changes) in &self.changed {
            let _ = writeln!(text, "{name}");
            for change in changes {
                let _ = writeln!(text, "  {change}");
            }
        }
        for (name, why) in &self.unknown {
            let _ = writeln!(text, "{name}: its values can't be compared: {why}");
        }
        if self.has_no_releases {
            let _ = writeln!(
                text,
                "neither {before} nor {after} adds a service, so there is nothing to compare; begin both lists with a preset that adds services, for example: core,{before} core,{after}"
            );
        } else if text.is_empty() {
            let _ = writeln!(text, "{after} is the same as {before}");
        }
        for finding in &self.findings {
            let _ = writeln!(text, "with {after}: {}: {finding}", finding.level.as_str());
        }
        for placeholder in &self.placeholders {
            let _ = writeln!(text, "placeholder: {placeholder}");
        }
        text
    }
}

/// Returns the entries of `set` that are not in `other`.
fn only<T: Clone + Ord>(set: &BTreeSet<T>, other: &BTreeSet<T>) -> Vec<T> {
    set.difference(other).cloned().collect()
}

/// Returns the values of a release that differ between the two clouds, without secrets.
fn changes(before: &DesiredRelease, after: &DesiredRelease) -> Vec<Change> {
    let redacted = |release: &DesiredRelease| redact(&release.values, &release.secret);
    let (old, new) = (redacted(before), redacted(after));
    let change = |path: &_| Change {
        path: format!("{path}"),
        before: get(&old, path).cloned(),
        after: get(&new, path).cloned(),
        source: None,
    };
    changed_paths(&before.values, &after.values).iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use osdpl_core::catalog::Catalog;
    use osdpl_core::desired::{resolve, select};
    use osdpl_core::placeholder;

    fn compared(before: &[&str], after: &[&str]) -> Comparison {
        let extra = "service: extra\ndescription: One more.\ngroup: openstack\nreleases: {extra: {}}\n";
        compared_with(extra, before, after)
    }

    fn compared_with(extra: &str, before: &[&str], after: &[&str]) -> Comparison {
        let files = osdpl_core::testing::files(&[
            (
                "presets/large.yaml",
                "preset: large\ndescription: More of it.\nservices: [extra]\nfragments:\n- releases: {front: {values: {replicas: 3, conf: {region: elsewhere, password: '${credentials.front.user}!'}}}}\n",
            ),
            ("values/services/extra.yaml", extra),
        ]);
        let catalog = Catalog::load(&files).unwrap();
        let cloud = |presets: &[&str]| {
            let spec = serde_json::from_value(json!({"openstackRelease": "2026.1", "presets": presets})).unwrap();
            let selection = select("cloud", "openstack", &spec, &catalog);
            let desired = resolve(&spec, &catalog, &selection, &placeholder::facts(&catalog, &selection));
            let presets = presets.iter().map(|name| (*name).to_owned()).collect();
            Cloud { presets, selection, desired, placeholders: Vec::new() }
        };
        Comparison::of(&cloud(before), &cloud(after), None)
    }

    #[test]
    fn compares_services_releases_and_values_without_secrets() {
        let comparison = compared(&["small"], &["small", "large"]);
        let json = serde_json::to_value(&comparison).unwrap();
        assert_eq!(json["services"], json!({"added": ["extra"], "removed": []}));
        assert_eq!(
            json["changed"]["front"][0],
            json!({"path": "conf.password", "before": "<redacted>", "after": "<redacted>"})
        );
        assert_eq!(json["changed"]["front"][2], json!({"path": "replicas", "after": 3}));
        assert_eq!(
            comparison.text(),
            "services added: extra\nreleases added: extra\nfront\n  conf.password: \"<redacted>\" → \"<redacted>\"\n  \
             conf.region: \"RegionOne\" → \"elsewhere\"\n  replicas: 3 (new)\n"
        );
    }

    #[test]
    fn ignores_services_without_releases() {
        let idle = "service: extra\ndescription: One more.\ngroup: openstack\nreleases: {extra: {when: 'false'}}\n";
        let comparison = compared_with(idle, &["small"], &["small", "large"]);
        assert!(comparison.services.added.is_empty() && comparison.added.is_empty(), "{}", comparison.text());
    }

    #[test]
    fn reports_removals_and_equal_clouds() {
        let back = compared(&["small", "large"], &["small"]);
        assert_eq!(
            (back.services.removed.as_slice(), back.removed.as_slice()),
            (&["extra".to_owned()][..], &["extra".to_owned()][..])
        );
        assert!(back.text().contains("  replicas: 3 (removed)\n"), "{}", back.text());
        assert_eq!(compared(&["small"], &["small"]).text(), "small is the same as small\n");
        assert_eq!(
            serde_json::to_value(compared(&["small"], &["small"])).unwrap()["changed"],
            Value::Object(serde_json::Map::new())
        );
    }
}
