//! Collects the facts for evaluating an `OpenStackDeployment` without a cluster.
//!
//! The facts come from the manifests in the user's files, such as Secrets. For a fact that these files do not contain,
//! this module uses a placeholder.

use std::collections::BTreeMap;

use osdpl_values::CollectSorted;
use serde_json::Value;

use crate::manifests;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, KeyTree};
use osdpl_core::ceph::{self, DeclaredCeph};
use osdpl_core::desired::{Blocked, ChartInfo, Facts, Selection, fact_config_maps, overridden_chart_version};
use osdpl_core::placeholder;

/// Returns the version and the default images of each release's chart.
///
/// The images come from the catalogue, which contains the keys and defaults of each chart. osdpl needs the images
/// because it rewrites their names if the spec sets `spec.images`.
///
/// The catalogue contains the images of one version of each chart. So the function leaves out a release if the spec
/// sets another version of the chart.
fn charts(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
    let tags = ["images".to_owned(), "tags".to_owned()];
    let chart_info = |name: &String| {
        let chart = &catalog.release(name).filter(|_| overridden_chart_version(spec, catalog, name).is_none())?.1.chart;
        let version = catalog.lock.get(chart)?.version.clone();
        let tags = catalog.keys().get(chart)?.find(&tags);
        let images = tags.into_iter().flat_map(KeyTree::texts);
        let images = images.map(|(tag, image)| (tag.to_owned(), image.to_owned())).collect_map();
        Some((name.clone(), Ok(ChartInfo { version, images, ..ChartInfo::default() })))
    };
    selection.releases.keys().filter_map(chart_info).collect_map()
}

/// Returns the facts for the evaluation of a resource.
///
/// The facts come from the manifests that are applied together with the resource. Facts that the manifests do not
/// contain are placeholders.
///
/// The function reads the objects of `valuesFrom` and the Secret that describes Ceph. Credentials, cephx keys, and the
/// values of other Secrets that the spec references are always placeholders. If the manifests contain such a Secret,
/// the function only checks that the Secret has the keys that the spec references.
pub(crate) fn facts(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    manifests: &[Value],
) -> Facts {
    let mut facts = placeholder::facts(catalog, selection);
    if spec.images.rewrites() {
        facts.charts = charts(spec, catalog, selection);
    }
    facts.values_from = manifests::values_from(spec, &selection.namespace, manifests);
    if let Some(declared) = ceph(selection, manifests) {
        facts.ceph = Some(declared);
    }
    let problem = |name: &str, key: &str| {
        let secret = manifests::find("Secret", name, &selection.namespace, manifests)?;
        manifests::text(secret, key).err()
    };
    for field in &selection.secrets {
        if let Some(problem) = problem(&field.name, &field.key) {
            facts.secrets.insert((field.name.clone(), field.key.clone()), Err(problem));
        }
    }
    for (service, service_spec) in &spec.services {
        for (name, reference) in &service_spec.credentials {
            if let Some(problem) = problem(&reference.name, &reference.key) {
                facts.credentials.entry(service.clone()).or_default().remove(name);
                facts.missing.insert((service.clone(), name.clone()), problem.to_string());
            }
        }
    }
    facts
}

/// Returns the settings of Ceph from the Secret that the spec references; `None` if the cloud uses no Ceph.
///
/// If the spec references no Secret, or the manifests do not contain it, the function returns example settings as
/// placeholders. Then only the public address of the object gateway is real, because it comes from the spec.
fn ceph(selection: &Selection, manifests: &[Value]) -> Option<DeclaredCeph> {
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
    let store = selection.object_store();
    let secret = storage["ceph"]["secret"]["name"].as_str();
    let secret =
        secret.and_then(|name| Some((name, manifests::find("Secret", name, &selection.namespace, manifests)?)));
    let Some((name, secret)) = secret else {
        let gateway = store.map(|store| ceph::example_gateway().published_by(&store));
        return Some(DeclaredCeph::of(Ok(ceph::example())).with_gateway(gateway));
    };
    let object = format!("{}/{name}", selection.namespace);
    let data = manifests::data(secret).map_err(|problem| problem.to_string());
    let releases = selection.releases.keys().map(String::as_str);
    let mut declared = ceph::read_declared_ceph(&object, data, releases, store.as_ref());
    if let Ok(ceph) = &mut declared.settings {
        ceph.hide_keys();
    }
    Some(declared)
}

/// Describes the facts that the evaluation lacks without a cluster. In the values that commands print, placeholders
/// replace these facts, or osdpl leaves out the values that need them.
///
/// The result leaves out placeholders of credentials, because commands redact credentials.
pub(crate) fn describe_placeholders(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    manifests: &[Value],
) -> Vec<String> {
    let sources = manifests::missing_sources(spec, &selection.namespace, manifests);
    let sources = sources.into_iter().map(|missing| format!("{missing}, so osdpl leaves out its values"));
    let facts = fact_config_maps(catalog, selection).into_iter().map(|(release, config_map)| {
        format!("the facts in ConfigMap {config_map}, which a Job of {release} stores in the cluster; osdpl leaves out the values that need these facts")
    });
    describe_ceph(selection, manifests).into_iter().chain(sources).chain(facts).collect()
}

/// Describes the placeholders for the settings of Ceph.
fn describe_ceph(selection: &Selection, manifests: &[Value]) -> Vec<String> {
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph");
    // Without the field `ceph`, no value depends on Ceph, and a check of the feature reports that the field is missing.
    let Some(ceph) = storage.and_then(|storage| storage.get("ceph")) else { return Vec::new() };
    let reason = match ceph["secret"]["name"].as_str() {
        Some(name) if manifests::find("Secret", name, &selection.namespace, manifests).is_some() => return Vec::new(),
        Some(name) => {
            format!("Secret {name}, which spec.features.storage.ceph.secret references, is not in the file")
        }
        None => "osdpl reads them from Rook's objects, which are only in the cluster".to_owned(),
    };
    let gateways = selection.object_store().map(|store| {
        let addresses = if store.public_url().is_some() { "internal addresses" } else { "addresses" };
        format!("the {addresses} of the object store's gateways (RGW): {reason}")
    });
    [format!("Ceph's monitors, fsid, users and pools: {reason}")].into_iter().chain(gateways).collect()
}
