//! Builds the specs of the clouds that the tests check, and resolves specs with the shipped catalogue.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Files, Level};
use osdpl_core::ceph::{self, DeclaredCeph};
use osdpl_core::credentials;
use osdpl_core::desired::{Desired, Facts, resolve, select};
use osdpl_values::{self as values, Values};
use serde_json::{Value, json};

/// Returns the YAML and JSON files below `values/` and `presets/`, by their paths.
pub fn files() -> Files {
    fn read(root: &Path, folder: &Path, files: &mut Files) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(root, &path, files);
            } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read_to_string(&path).unwrap().into());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    for folder in ["values", "presets"] {
        read(root, &root.join(folder), &mut files);
    }
    files
}

/// Returns the shipped catalogue. All tests share it, because loading it takes most of their time. If the catalogue is
/// invalid, only the first test prints the errors.
pub fn catalogue() -> &'static Catalog {
    static CATALOGUE: LazyLock<Catalog> =
        LazyLock::new(|| Catalog::load(&files()).unwrap_or_else(|errors| panic!("{errors}")));
    &CATALOGUE
}

/// Returns the names and specs of many clouds. Each cloud combines an OpenStack release, a list of presets, a network
/// backend and a storage backend. Combinations that osdpl refuses are left out.
pub fn clouds() -> Vec<(String, Value)> {
    let mut clouds = Vec::new();
    for release in ["2025.1", "2025.2", "2026.1"] {
        for presets in
            [&["compute"][..], &["storage"], &["compute", "storage"], &["compute", "ha"], &["compute", "storage", "ha"]]
        {
            for network in ["ovs", "ovn"] {
                for storage in ["pvc", "ceph", "local"] {
                    if presets.contains(&"storage") != (storage == "ceph")
                        || (presets.contains(&"ha") && storage == "local")
                    {
                        continue;
                    }
                    let ceph = (storage == "ceph").then(|| json!({"mode": "external", "secret": {"name": "ceph"}}));
                    let mut features = json!({"network": {"backend": network}, "storage": {"backend": storage}});
                    if let Some(ceph) = ceph {
                        features["storage"]["ceph"] = ceph;
                    }
                    let spec = json!({"openstackRelease": release, "presets": presets, "features": features});
                    clouds.push((format!("{release} {} {network} {storage}", presets.join("+")), spec));
                }
            }
        }
    }
    clouds
}

/// Returns a spec with Cinder and Heat, which nearly every cloud has. `change` adds services, and sets other fields.
pub fn base_spec(change: &Value) -> Value {
    let services = json!({"cinder": {"enabled": true}, "heat": {"enabled": true}});
    let mut spec = json!({"openstackRelease": "2026.1", "presets": ["core"], "services": services});
    for (field, value) in change.as_object().into_iter().flatten() {
        match (field.as_str(), value) {
            ("services", Value::Object(more)) => spec["services"].as_object_mut().unwrap().extend(more.clone()),
            _ => spec[field] = value.clone(),
        }
    }
    spec
}

/// Resolves a spec with a placeholder Ceph, and with a placeholder for each credential: `the-<service>-<name>`.
pub fn resolved(catalog: &Catalog, spec: &Value) -> Desired {
    let ceph = DeclaredCeph::of(Ok(ceph::example())).with_gateway(Some(Ok(ceph::example_gateway())));
    resolved_with(catalog, spec, ceph)
}

/// Resolves a spec with this Ceph, and with a placeholder for each credential.
pub fn resolved_with(catalog: &Catalog, spec: &Value, ceph: DeclaredCeph) -> Desired {
    resolved_from(catalog, spec, Facts { helm_major: 4, ceph: Some(ceph), ..Facts::default() })
}

/// Resolves the spec of a cloud whose releases are installed and have this baseline.
pub fn resolved_installed(catalog: &Catalog, spec: &Value, baseline: u32) -> Desired {
    let ceph = DeclaredCeph::of(Ok(ceph::example())).with_gateway(Some(Ok(ceph::example_gateway())));
    let releases = catalog.services.values().flat_map(|service| service.releases.keys());
    let baselines = releases.map(|name| (name.clone(), baseline)).collect();
    resolved_from(catalog, spec, Facts { helm_major: 4, ceph: Some(ceph), baselines, ..Facts::default() })
}

/// Resolves a spec with the facts in `written`, as if a Job of `release` had written them.
pub fn resolved_knowing(catalog: &Catalog, spec: &Value, release: &str, written: &[(&str, &str)]) -> Desired {
    let written = written.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
    resolved_from(
        catalog,
        spec,
        Facts { helm_major: 4, job_facts: [(release.to_owned(), Ok(written))].into(), ..Facts::default() },
    )
}

/// Resolves a spec with a user's Secret `name` that contains `text` under `key`, and with placeholder credentials.
pub fn resolved_reading(catalog: &Catalog, spec: &Value, name: &str, key: &str, text: &str) -> Desired {
    let secrets = [((name.to_owned(), key.to_owned()), Ok(text.to_owned()))].into();
    resolved_from(catalog, spec, Facts { helm_major: 4, secrets, ..Facts::default() })
}

/// Resolves a spec with these facts, and with a placeholder for each credential.
pub fn resolved_from(catalog: &Catalog, spec: &Value, mut facts: Facts) -> Desired {
    let spec: OpenStackDeploymentSpec = serde_json::from_value(spec.clone()).unwrap();
    let selection = select("cloud", "openstack", &spec, catalog);
    for (service, name) in credentials::list_needed_credentials(catalog, &selection).into_keys() {
        let value = format!("the-{service}-{name}");
        facts.credentials.entry(service).or_default().insert(name, value);
    }
    for field in &selection.secrets {
        let text = format!("the-{}-{}", field.name, field.key);
        facts.secrets.entry((field.name.clone(), field.key.clone())).or_insert(Ok(text));
    }
    resolve(&spec, catalog, &selection, &facts)
}

/// Returns everything that prevents the cloud or one of its releases from being installed.
pub fn refusals(desired: &Desired) -> Vec<String> {
    let refused = desired.findings.iter().filter(|finding| finding.level == Level::Error).map(ToString::to_string);
    let blocked = desired
        .releases
        .iter()
        .filter_map(|(name, release)| Some(format!("{name}: {}", release.blocked.as_ref()?.message)));
    refused.chain(blocked).collect()
}

/// Returns the value at a path of a release's values.
pub fn at<'a>(values: &'a Values, path: &str) -> Option<&'a Value> {
    values::get(values, &values::Path::parse(path).unwrap())
}
