//! Writes the page about a preset in the reference documentation.

use std::fmt::Write as _;

use serde_json::json;

use super::table::{code, summary_table};
use super::{Description, Reference, fragments};
use osdpl_core::catalog::file;

impl Reference {
    /// Describes a preset: its services, features, values and checks.
    pub(super) fn preset(&self, entry: &file::Preset) -> Description {
        let file::Preset { preset, description, services, features, fragments, excludes, connections, checks } = entry;
        let mut page = format!("# {preset}\n\n{}\n", description.trim());
        if !services.is_empty() {
            let _ = write!(page, "\n## Services\n\n{}.\n", services.join(", "));
            for service in services {
                if let Some(when) = self.condition(service) {
                    let _ = write!(page, "\n{service} is installed only if {}.\n", code(&when));
                }
            }
        }
        if !features.is_empty() {
            let _ = write!(page, "\n## Features\n\n{}", fragments::block(&features.clone().into()));
        }
        if !connections.is_empty() {
            let sum = connections.trim_end();
            let _ = write!(page, "\n## Connections to the database\n\n```text\n{sum}\n```\n");
        }
        page.push_str(&fragments::fragments_page(fragments));
        if !excludes.is_empty() {
            let rows = excludes.iter().map(|(other, why)| [code(other), why.clone()]);
            let rows = summary_table(["preset", "reason and remedy"], &rows.collect::<Vec<_>>());
            let _ = write!(page, "\n## Excluded presets\n\n{rows}");
        }
        page.push_str(&fragments::checks(checks));
        let facts = json!({
            "kind": "preset", "name": preset, "description": description, "services": services, "features": features,
            "values": fragments::fragments_data(fragments), "excludes": excludes, "connections": connections,
            "checks": fragments::checks_data(checks),
        });
        Description { data: facts, page }
    }

    /// Returns the condition under which a cloud with this preset installs the service. Returns `None` if the cloud
    /// always installs the service, because at least one of its releases has no condition.
    fn condition(&self, service: &str) -> Option<String> {
        let releases = &self.services.get(service)?.releases;
        let conditions = releases.values().map(|release| release.when.clone()).collect::<Option<Vec<_>>>()?;
        (!conditions.is_empty()).then(|| conditions.join(" || "))
    }
}
