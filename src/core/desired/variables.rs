//! Computes the variables that the catalogue's CEL expressions can read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{BASELINE, ExternalService, Facts, Selection, claims, release_overrides};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Catalog;
use crate::ceph::DeclaredCeph;
use crate::observed::ReleaseKey;
use osdpl_values::expr::Scope;
use osdpl_values::{CollectSorted, Values};

/// Returns the namespace and name of a helm release as the spec sets them. The defaults are [`home_namespace`] and the
/// release's name in the catalogue.
pub(super) fn key(
    namespace: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    service: &str,
    release: &str,
) -> ReleaseKey {
    let overrides = release_overrides(spec, service, release);
    let named = |field: Option<&String>, usual: &str| field.cloned().unwrap_or_else(|| usual.to_owned());
    ReleaseKey {
        namespace: named(
            overrides.and_then(|o| o.namespace.as_ref()),
            home_namespace(namespace, catalog, service, release),
        ),
        name: named(overrides.and_then(|o| o.name.as_ref()), release),
    }
}

/// Returns the namespace of a release if the spec sets none: the catalogue's namespace for the release, or else
/// `namespace`, the namespace of the OpenStackDeployment.
pub(super) fn home_namespace<'a>(namespace: &'a str, catalog: &'a Catalog, service: &str, release: &str) -> &'a str {
    let entry = catalog.services.get(service).and_then(|service| service.releases.get(release));
    entry.and_then(|entry| entry.namespace.as_deref()).unwrap_or(namespace)
}

/// Returns the variables that the catalogue's CEL expressions can read, without credentials and other facts.
///
/// The variables `services` and `releases` also contain disabled services and their releases, so that expressions can
/// ask whether a service or release is enabled.
pub(super) fn variables(
    namespace: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    features: &Values,
    enabled: &BTreeSet<String>,
    external: &BTreeMap<String, ExternalService>,
) -> Values {
    let mut services = Map::new();
    let mut releases = Map::new();
    for (service, entry) in &catalog.services {
        let outside = external.get(service).map(|e| json!({"host": e.host, "port": e.port, "service": e.service}));
        services.insert(service.clone(), json!({"enabled": enabled.contains(service), "external": outside}));
        for release in entry.releases.keys() {
            let key = key(namespace, spec, catalog, service, release);
            // If the release is installed, the function `common` later replaces this baseline by the one in the
            // release's record.
            let entry = json!({"name": key.name, "namespace": key.namespace, "enabled": false, "baseline": BASELINE});
            releases.insert(release.clone(), entry);
        }
    }
    let openstack = catalog.openstack.get(&spec.openstack_release).map(|release| release.variables.clone());
    let spec = json!({
        "namespace": namespace,
        "openstackRelease": spec.openstack_release,
        "presets": spec.presets,
        "region": spec.region.as_deref().unwrap_or("RegionOne"),
        "publicDomain": spec.public_domain.as_deref().unwrap_or_default(),
        "storageClass": spec.storage_class.as_deref().unwrap_or("general"),
        "pullPolicy": spec.images.pull_policy,
        "roles": spec.nodes.roles.keys().collect::<Vec<_>>(),
        "mirrors": spec.images.mirrors.keys().collect::<Vec<_>>(),
    });
    let Value::Object(variables) = json!({
        "spec": spec, "features": features, "openstack": openstack, "services": services, "releases": releases,
        // The function `common` later replaces this empty map, because the operator must first read Ceph's settings
        // from the cluster.
        "ceph": {},
    }) else {
        return Map::new();
    };
    variables
}

/// Returns the variable `releases` of CEL expressions, with the baseline of each installed release.
pub fn release_variables(selection: &Selection, facts: &Facts) -> Value {
    let mut releases = selection.scope.variable("releases").cloned().unwrap_or_default();
    for (name, baseline) in &facts.baselines {
        releases[name.as_str()]["baseline"] = json!(baseline);
    }
    releases
}

/// Returns the variables that the CEL expressions of all releases can read, including credentials and other facts.
pub(super) fn common<'a>(catalog: &Catalog, selection: &'a Selection, facts: &Facts) -> Scope<'a> {
    let ceph = facts.ceph.as_ref().map(DeclaredCeph::variables).unwrap_or_default();
    let variables = [
        ("releases", release_variables(selection, facts)),
        ("credentials", json!(facts.credentials)),
        ("ceph", ceph.into()),
        ("facts", super::job_facts::variable(catalog, facts).into()),
    ];
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let read =
        |(reference, text): (&(String, String), &Result<String, _>)| Some((reference.clone(), text.clone().ok()?));
    selection.scope.nested(variables).with_secrets(facts.secrets.iter().filter_map(read).collect_map())
}

/// Returns the variables that the CEL expressions of one release can read: the variables of all releases, and
/// `release`. If all existing volume claims of the release have the same storage class, `spec.storageClass` contains
/// this class instead of the class in the spec.
pub(super) fn scope<'a>(common: &'a Scope<'_>, facts: &Facts, name: &str) -> Scope<'a> {
    let release = common.variable("releases").and_then(|releases| releases.get(name)).cloned();
    let mut variables = Values::from_iter([("release".to_owned(), release.unwrap_or_else(|| json!({})))]);
    if let Some((class, spec)) = claims::kept(&facts.claim_classes, name).zip(common.variable("spec")) {
        let mut spec = spec.clone();
        spec["storageClass"] = json!(class);
        variables.insert("spec".into(), spec);
    }
    common.nested(variables)
}
