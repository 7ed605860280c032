//! Finds names in a spec that the catalogue does not have.

use super::Finding;
use super::conditions::refused;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, did_you_mean};

/// The maximum number of known names that a message lists if it also suggests one of them. The catalogue has far more
/// services and features than this number. So a message that suggests a service or feature lists no other names.
const LISTED: usize = 12;

/// The words for the catalogue in messages.
const CATALOGUE: &str = "the catalogue";

/// Returns the error for an unknown name, with the nearest known name.
///
/// If there is no near name, or if there are at most `LISTED` known names, the error also lists all known names. If
/// there are no known names, the error says that `owner` has none.
fn unknown<'a>(
    field: String,
    owner: &str,
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Finding {
    let hint = did_you_mean(name, known.clone());
    let names: Vec<_> = known.into_iter().collect();
    if names.is_empty() {
        return refused(field, format!("{owner} has no {kind}s; remove this field"));
    }
    let list = if hint.is_empty() || names.len() <= LISTED {
        format!("; choose from {}", names.join(", "))
    } else {
        "; correct the name".to_owned()
    };
    refused(field, format!("there is no {kind} {name:?}{hint}{list}"))
}

/// Whether a spec has a name that the catalogue does not have.
pub fn has_unknown_names(spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> bool {
    !check_names(spec, catalog).is_empty()
}

/// Returns an error for every name in the spec that the catalogue does not have, with the nearest known name.
pub fn check_names(spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Vec<Finding> {
    let mut findings = Vec::new();
    let wanted = &spec.openstack_release;
    if !catalog.openstack.contains_key(wanted) {
        let known = catalog.openstack.keys().map(String::as_str);
        findings.push(unknown("spec.openstackRelease".into(), CATALOGUE, "OpenStack release", wanted, known));
    }
    for (index, preset) in spec.presets.iter().enumerate() {
        if !catalog.presets.contains_key(preset) {
            let known = catalog.presets.keys().map(String::as_str);
            findings.push(unknown(format!("spec.presets[{index}]"), CATALOGUE, "preset", preset, known));
        }
    }
    for (service, overrides) in &spec.services {
        let field = format!("spec.services.{service}");
        let Some(entry) = catalog.services.get(service) else {
            let known = catalog.services.keys().map(String::as_str);
            findings.push(unknown(field, CATALOGUE, "service", service, known));
            continue;
        };
        let owner = format!("service {service}");
        for release in overrides.releases.keys().filter(|release| !entry.releases.contains_key(*release)) {
            let known = entry.releases.keys().map(String::as_str);
            findings.push(unknown(format!("{field}.releases.{release}"), &owner, "release", release, known));
        }
        for credential in overrides.credentials.keys().filter(|name| !entry.credentials.contains_key(*name)) {
            let known = entry.credentials.keys().map(String::as_str);
            let field = format!("{field}.credentials.{credential}");
            findings.push(unknown(field, &owner, "credential", credential, known));
        }
    }
    let features = spec.features.keys().filter(|name| !catalog.features.contains_key(*name));
    findings.extend(features.map(|name| {
        let known = catalog.features.keys().map(String::as_str);
        unknown(format!("spec.features.{name}"), CATALOGUE, "feature", name, known)
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_that_a_service_has_no_credentials() {
        let bare = "service: bare\ndescription: x\ngroup: infra\nreleases: {bare: {}}\n";
        let catalog = Catalog::load(&crate::testing::files(&[("values/services/bare.yaml", bare)])).unwrap();
        let credentials = r#"{"x": {"name": "a", "key": "b"}}"#;
        let spec =
            format!(r#"{{"openstackRelease": "2026.1", "services": {{"bare": {{"credentials": {credentials}}}}}}}"#);
        let found = check_names(&serde_json::from_str(&spec).unwrap(), &catalog);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["spec.services.bare.credentials.x: service bare has no credentials; remove this field"]);
    }
}
