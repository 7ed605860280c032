//! Writes the page about a service in the reference documentation.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::table::{code, summary_table, table};
use super::{Description, Reference, fragments};
use osdpl_core::catalog::{CredentialKind, WorkloadKind, file};

impl Reference {
    /// Describes a service: its releases, its credentials, and whether it can run outside the cluster.
    pub(super) fn service(&self, entry: &file::Service) -> Description {
        let file::Service { service, description, group, releases, credentials, external, .. } = entry;
        let mut page = format!("# {service}\n\n{}\n\nGroup {}", description.trim(), fragments::group(*group));
        let presets: Vec<&str> = self.presets_with(service).collect();
        if !presets.is_empty() {
            let _ = write!(page, "; in the presets {}", presets.join(", "));
        }
        page.push_str(".\n");
        for (name, release) in releases {
            let _ = write!(page, "\n## Release {name}\n\n{}", properties(name, self.release(name, release)));
            page.push_str(&fragments::own_values_page(name, release));
        }
        if !credentials.is_empty() {
            let row = |(name, own): (&String, &file::Credential)| {
                [
                    code(name),
                    kind(own.kind).to_owned(),
                    own.description.clone(),
                    rotation_steps(&own.rotation).to_owned(),
                ]
            };
            let rows: Vec<_> = credentials.iter().map(row).collect();
            let head = ["name", "kind", "description", "rotation"];
            let _ = write!(page, "\n## Credentials\n\n{}", summary_table(head, &rows));
        }
        if let Some(external) = external {
            let _ = write!(
                page,
                "\n## Outside the cluster\n\nThe service can run outside the cluster (`spec.services.{service}.external`). Pods then find it as Service {}, port {} ({}).\n",
                external.service, external.port, external.port_name
            );
        }
        let facts = json!({
            "kind": "service", "name": service, "description": description, "group": fragments::group(*group), "presets": presets,
            "releases": releases.iter().map(|(name, release)| self.release_facts(name, release)).collect::<Vec<_>>(),
            "credentials": credentials.iter()
                .map(|(name, own)| json!({"name": name, "kind": kind(own.kind), "description": own.description, "rotation": rotation_steps(&own.rotation)}))
                .collect::<Vec<_>>(),
            "external": external.as_ref().map(|external| json!({"service": external.service, "port": external.port, "portName": external.port_name})),
        });
        Description { data: facts, page }
    }

    fn presets_with<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a str> {
        let presets = self.presets.iter().filter(move |(_, preset)| preset.services.iter().any(|name| name == service));
        presets.map(|(name, _)| name.as_str())
    }

    /// Returns the rows of the table about a release: the name of each property, such as `chart`, and the values of the
    /// property.
    fn release(&self, name: &str, entry: &file::Release) -> Vec<(&'static str, Vec<String>)> {
        let api = entry.endpoint.as_ref();
        let api = api.map(|api| format!("{} at {}:{}{}", code(&api.endpoint), api.service, api.port, api.path));
        let facts = entry.facts.as_ref();
        let facts =
            facts.map(|map| format!("`facts.{name}`, which a Job of the release writes to ConfigMap {}", code(map)));
        vec![
            ("chart", vec![self.chart(name, entry)]),
            ("namespace", entry.namespace.iter().cloned().collect()),
            ("condition", entry.when.iter().map(|when| code(when)).collect()),
            ("installed after", self.needs(&entry.needs)),
            ("its pods wait for", self.needs(&entry.awaits)),
            ("also installs", self.needs(&entry.alongside)),
            ("provides", components(entry)),
            ("API", api.into_iter().collect()),
            ("tests and their results", tests(entry)),
            ("Jobs that are not hooks", entry.plain_jobs.iter().map(|job| code(job)).collect()),
            ("images with moving tags", entry.floating_images.iter().map(|image| code(image)).collect()),
            ("facts", facts.into_iter().collect()),
        ]
    }

    fn chart(&self, name: &str, entry: &file::Release) -> String {
        let chart = entry.chart.as_deref().unwrap_or(name);
        let Some(pin) = self.lock.get(chart) else { return format!("{chart}, not in the lock") };
        let from = pin.repository.as_ref().map_or_else(String::new, |repository| format!(" from {repository}"));
        format!("{chart} {}{from}", pin.version)
    }

    fn needs(&self, needs: &[file::Need]) -> Vec<String> {
        let one = |need: &file::Need| {
            let service = self.provider(&need.component).unwrap_or_default();
            let when = need.when.as_deref().map_or_else(String::new, |when| format!(" if {}", code(when)));
            format!("{} of {service}{when}", code(&need.component))
        };
        needs.iter().map(one).collect()
    }

    fn needs_facts(&self, needs: &[file::Need]) -> Value {
        let one = |need: &file::Need| json!({"component": need.component, "service": self.provider(&need.component), "when": need.when});
        needs.iter().map(one).collect()
    }

    fn release_facts(&self, name: &str, entry: &file::Release) -> Value {
        let chart = entry.chart.as_deref().unwrap_or(name);
        let pin = self.lock.get(chart);
        let components: Value = entry
            .components
            .iter()
            .map(|(component, kind)| (component.clone(), Value::from(workload(*kind))))
            .collect();
        json!({
            "name": name, "chart": chart, "version": pin.map(|pin| &pin.version),
            "repository": pin.and_then(|pin| pin.repository.as_ref()), "namespace": entry.namespace, "when": entry.when,
            "needs": self.needs_facts(&entry.needs), "awaits": self.needs_facts(&entry.awaits), "alongside": self.needs_facts(&entry.alongside),
            "components": components, "plainJobs": entry.plain_jobs, "facts": entry.facts,
            "floatingImages": entry.floating_images,
            "tests": entry.tests,
            "endpoint": entry.endpoint.as_ref().map(
                |api| json!({"endpoint": api.endpoint, "service": api.service, "port": api.port, "path": api.path})),
            "timeout": entry.timeout, "values": fragments::own_values_data(entry),
        })
    }
}

/// The maximum total length, in bytes, of several values in one table cell. Longer lists of values follow below the
/// table.
const CELL: usize = 100;

/// Formats the properties of a release: short ones as the rows of a table, longer ones as lists below the table.
fn properties(release: &str, all: Vec<(&str, Vec<String>)>) -> String {
    let mut rows = Vec::new();
    let mut lists = String::new();
    for (name, values) in all.into_iter().filter(|(_, values)| !values.is_empty()) {
        let cell = values.join(", ");
        if values.len() == 1 || cell.len() <= CELL {
            rows.push([name.to_owned(), cell]);
        } else {
            let _ = write!(lists, "\n### {release}: {name}\n\n");
            for value in &values {
                let _ = writeln!(lists, "- {value}");
            }
        }
    }
    table(["property", "value"], &rows) + &lists
}

fn tests(entry: &file::Release) -> Vec<String> {
    entry.tests.iter().map(|(component, kept)| format!("{}: {kept}", code(component))).collect()
}

fn components(entry: &file::Release) -> Vec<String> {
    let one = |(name, kind): (&String, &WorkloadKind)| format!("{} ({})", code(name), workload(*kind));
    entry.components.iter().map(one).collect()
}

fn workload(kind: WorkloadKind) -> &'static str {
    match kind {
        WorkloadKind::Deployment => "Deployment",
        WorkloadKind::StatefulSet => "StatefulSet",
        WorkloadKind::DaemonSet => "DaemonSet",
    }
}

/// Returns how to rotate a credential, for the page. An empty `rotation` in the catalogue means that the next upgrade
/// does all that is needed.
fn rotation_steps(rotation: &str) -> &str {
    if rotation.is_empty() { "set by the next upgrade" } else { rotation }
}

fn kind(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Password => "password",
        CredentialKind::Hex => "hex",
        CredentialKind::Uuid => "uuid",
        CredentialKind::Base64 => "base64",
    }
}
