//! Description of a service.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::table::{code, codes, table};
use super::{Described, Reference, written};
use osdpl_core::catalog::{CredentialKind, WorkloadKind, file};

impl Reference {
    /// Describes its releases, its credentials, and whether it can run outside the cluster.
    pub(super) fn service(&self, entry: &file::Service) -> Described {
        let file::Service { service, description, group, releases, credentials, external, .. } = entry;
        let mut page = format!("# {service}\n\n{}\n\nGroup {}", description.trim(), written::group(*group));
        let presets: Vec<&str> = self.presets_with(service).collect();
        if !presets.is_empty() {
            let _ = write!(page, "; in the presets {}", presets.join(", "));
        }
        page.push_str(".\n");
        for (name, release) in releases {
            let rows = self.release(name, release);
            let rows: Vec<_> = rows.into_iter().filter(|[_, value]| !value.is_empty()).collect();
            let _ = write!(page, "\n## Release {name}\n\n{}", table(["property", "value"], &rows));
            page.push_str(&written::own(name, release));
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
            let _ = write!(page, "\n## Credentials\n\n{}", table(head, &rows));
        }
        if let Some(external) = external {
            let _ = write!(
                page,
                "\n## Outside the cluster\n\nIt can run outside the cluster (`spec.services.{service}.external`): pods find it as Service {}, port {} ({}).\n",
                external.service, external.port, external.port_name
            );
        }
        let facts = json!({
            "kind": "service", "name": service, "description": description, "group": written::group(*group), "presets": presets,
            "releases": releases.iter().map(|(name, release)| self.release_facts(name, release)).collect::<Vec<_>>(),
            "credentials": credentials.iter()
                .map(|(name, own)| json!({"name": name, "kind": kind(own.kind), "description": own.description, "rotation": rotation_steps(&own.rotation)}))
                .collect::<Vec<_>>(),
            "external": external.as_ref().map(|external| json!({"service": external.service, "port": external.port, "portName": external.port_name})),
        });
        Described { facts, page }
    }

    fn presets_with<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a str> {
        let presets = self.presets.iter().filter(move |(_, preset)| preset.services.iter().any(|name| name == service));
        presets.map(|(name, _)| name.as_str())
    }

    fn release(&self, name: &str, entry: &file::Release) -> Vec<[String; 2]> {
        let row = |name: &str, value: String| [name.to_owned(), value];
        let endpoint = entry.endpoint.as_ref();
        vec![
            row("chart", self.chart(name, entry)),
            row("namespace", entry.namespace.clone().unwrap_or_default()),
            row("condition", code(entry.when.as_deref().unwrap_or_default())),
            row("installed after", self.needs(&entry.needs)),
            row("its pods wait for", self.needs(&entry.awaits)),
            row("also installs", self.needs(&entry.alongside)),
            row("provides", components(entry)),
            row(
                "API",
                endpoint.map_or_else(String::new, |api| {
                    format!("{} at {}:{}{}", code(&api.endpoint), api.service, api.port, api.path)
                }),
            ),
            row("tests and their results", tests(entry)),
            row("Jobs that are not hooks", codes(entry.plain_jobs.iter().map(String::as_str))),
            row(
                "facts",
                entry.facts.as_ref().map_or_else(String::new, |map| {
                    format!("`facts.{name}`, written by its own Job to ConfigMap {}", code(map))
                }),
            ),
        ]
    }

    fn chart(&self, name: &str, entry: &file::Release) -> String {
        let chart = entry.chart.as_deref().unwrap_or(name);
        let Some(pin) = self.lock.get(chart) else { return format!("{chart}, not in the lock") };
        let from = pin.repository.as_ref().map_or_else(String::new, |repository| format!(" from {repository}"));
        format!("{chart} {}{from}", pin.version)
    }

    fn needs(&self, needs: &[file::Need]) -> String {
        let one = |need: &file::Need| {
            let service = self.provider(&need.component).unwrap_or_default();
            let when = need.when.as_deref().map_or_else(String::new, |when| format!(" if {}", code(when)));
            format!("{} of {service}{when}", code(&need.component))
        };
        needs.iter().map(one).collect::<Vec<_>>().join("; ")
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
            "tests": entry.tests,
            "endpoint": entry.endpoint.as_ref().map(
                |api| json!({"endpoint": api.endpoint, "service": api.service, "port": api.port, "path": api.path})),
            "timeout": entry.timeout, "values": written::own_facts(entry),
        })
    }
}

fn tests(entry: &file::Release) -> String {
    entry.tests.iter().map(|(component, kept)| format!("{}: {kept}", code(component))).collect::<Vec<_>>().join("; ")
}

fn components(entry: &file::Release) -> String {
    let one = |(name, kind): (&String, &WorkloadKind)| format!("{} ({})", code(name), workload(*kind));
    entry.components.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn workload(kind: WorkloadKind) -> &'static str {
    match kind {
        WorkloadKind::Deployment => "Deployment",
        WorkloadKind::StatefulSet => "StatefulSet",
        WorkloadKind::DaemonSet => "DaemonSet",
    }
}

/// Returns the steps of a rotation.
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
