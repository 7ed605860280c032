//! Facts for a resource that no cluster is asked for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::beside;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, KeyTree};
use osdpl_core::desired::{Blocked, ChartFact, Facts, Selection, other_version};
use osdpl_core::placeholder;

/// The images that the locked charts name themselves, which `spec.images` rewrites; nothing of a chart of another version.
fn charts(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
) -> BTreeMap<String, Result<ChartFact, Blocked>> {
    let tags = ["images".to_owned(), "tags".to_owned()];
    let fact = |name: &String| {
        let chart = &catalog.release(name).filter(|_| other_version(spec, catalog, name).is_none())?.1.chart;
        let version = catalog.lock.get(chart)?.version.clone();
        let tags = catalog.keys().get(chart)?.find(&tags);
        let images = tags.into_iter().flat_map(KeyTree::texts);
        let images = images.map(|(tag, image)| (tag.to_owned(), image.to_owned())).collect();
        Some((name.clone(), Ok(ChartFact { version, images, ..ChartFact::default() })))
    };
    selection.releases.keys().filter_map(fact).collect()
}

/// The same for a resource with objects beside it, as they would be applied together: its `valuesFrom` are what those say. Of Secrets that
/// hold credentials, or that features name, only whether they can be used is asked: what is in them goes nowhere.
pub fn made_up_beside(
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
    for (service, said) in &spec.services {
        for (name, given) in &said.credentials {
            if let Some(problem) = problem(&given.name, &given.key) {
                facts.credentials.entry(service.clone()).or_default().remove(name);
                facts.missing.insert((service.clone(), name.clone()), problem.to_string());
            }
        }
    }
    facts
}
