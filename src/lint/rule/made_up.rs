//! Placeholder facts for a resource that is validated or rendered without a cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use super::beside;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, KeyTree};
use osdpl_core::desired::{Blocked, ChartInfo, Facts, Selection, overridden_chart_version};
use osdpl_core::placeholder;

/// Returns the images of the locked charts, which `spec.images` rewrites; nothing for charts of another version.
fn charts(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
    let tags = ["images".to_owned(), "tags".to_owned()];
    let fact = |name: &String| {
        let chart = &catalog.release(name).filter(|_| overridden_chart_version(spec, catalog, name).is_none())?.1.chart;
        let version = catalog.lock.get(chart)?.version.clone();
        let tags = catalog.keys().get(chart)?.find(&tags);
        let images = tags.into_iter().flat_map(KeyTree::texts);
        let images = images.map(|(tag, image)| (tag.to_owned(), image.to_owned())).collect();
        Some((name.clone(), Ok(ChartInfo { version, images, ..ChartInfo::default() })))
    };
    selection.releases.keys().filter_map(fact).collect()
}

/// Returns placeholder facts for a resource with the objects that are applied together with it.
///
/// `valuesFrom` is read from these objects. Secrets with credentials, or referenced by features, are only checked for
/// usability: their content is not used.
pub fn placeholder_facts_with(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    beside: &[Value],
) -> Facts {
    let mut facts = placeholder::facts(catalog, selection);
    if spec.images.rewrites() {
        facts.charts = charts(spec, catalog, selection);
    }
    facts.values_from = beside::values_from(spec, &selection.namespace, beside);
    let problem = |name: &str, key: &str| {
        let secret = beside::find("Secret", name, &selection.namespace, beside)?;
        beside::text(secret, key).err()
    };
    for field in &selection.secrets {
        if let Some(problem) = problem(&field.name, &field.key) {
            facts.secrets.insert((field.name.clone(), field.key.clone()), Err(problem));
        }
    }
    for (service, service_spec) in &spec.services {
        for (name, given) in &service_spec.credentials {
            if let Some(problem) = problem(&given.name, &given.key) {
                facts.credentials.entry(service.clone()).or_default().remove(name);
                facts.missing.insert((service.clone(), name.clone()), problem.to_string());
            }
        }
    }
    facts
}
