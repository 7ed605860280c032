//! Fuzz target for catalogue files, which users add in `ConfigMap`s.
//!
//! Each part of the input is a file. The name of the part consists of the name of a `ConfigMap` and a key of the
//! `ConfigMap`'s data, such as `edge presets.edge.yaml`. All files together extend a small catalogue. Then the target
//! resolves a cloud that uses all of these files, as the operator does in a pass.

use std::collections::BTreeMap;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Addition, Catalog, Files, extend_catalog};
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::Input;
use osdpl_lint::validate::Schemas;
use serde_json::{Map, Value, json};

use crate::sections;

pub fn run(input: &[u8]) {
    let mut additions: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (name, content) in sections::parse(input) {
        let (Ok(name), Ok(content)) = (str::from_utf8(name), str::from_utf8(content)) else { continue };
        let (addition, key) = name.split_once(' ').unwrap_or(("edge", name));
        additions.entry(addition.to_owned()).or_default().insert(key.to_owned(), content.to_owned());
    }
    let additions: Vec<_> = additions.into_iter().map(|(name, data)| Addition::new("openstack", &name, data)).collect();
    let extended = extend_catalog(&base(), &additions).expect("the catalogue without additions is valid");
    let _ = Schemas::new(&extended.catalog);
    for features in [false, true] {
        if let Ok(spec) = serde_json::from_value::<OpenStackDeploymentSpec>(spec(&extended.catalog, features)) {
            drop(Input::of_spec(&spec, &extended.catalog).evaluate_offline(&[], &ClusterInfo::default()));
        }
    }
}

/// Returns the spec of a cloud with all services and presets. If `features` is true, the cloud also has all features.
fn spec(catalog: &Catalog, features: bool) -> Value {
    let services: Map<String, Value> =
        catalog.services.keys().map(|name| (name.clone(), json!({"enabled": true}))).collect();
    let defaults: Map<String, Value> = catalog.features.keys().map(|name| (name.clone(), json!({}))).collect();
    json!({
        "openstackRelease": catalog.openstack.keys().next_back(), "services": services,
        "presets": catalog.presets.keys().collect::<Vec<_>>(), "features": if features { defaults } else { Map::new() },
    })
}

fn base() -> Files {
    osdpl_core::testing::files(&[])
}

/// Returns the YAML files of the built-in catalogue, by path. A user's `ConfigMap` could contain such files, too.
pub fn built_in() -> Vec<(String, String)> {
    let paths = osdpl_core::files::built_in().into_keys();
    paths.filter(|path| is_yaml(path)).map(|path| (path.clone(), crate::read(&path))).collect()
}

fn is_yaml(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == "yaml")
}

pub fn seeds() -> Vec<Vec<u8>> {
    let back = "service: back\ndescription: A test.\ngroup: openstack\nreleases:\n  back:\n    needs: [{component: front/api}]\n    components: {back/api: Deployment}\n";
    let shape = "feature: shape\ndescription: x\nschema: {type: object, properties: {name: {type: string}}}\ndefault: {name: round}\nfragments:\n- why: x\n  when: features.shape.name == 'round'\n  releases: {back: {values: {a: '${features.shape.name}'}}}\nchecks:\n- {level: warning, field: spec.features.shape, when: features.shape.name == 'round', message: round}\n";
    let all = [
        (
            "a presets.edge.yaml",
            "preset: edge\ndescription: A test.\nservices: [back]\nfragments:\n- why: x\n  releases: {back: {values: {a: 1}}}\n",
        ),
        ("b services.back.yaml", back),
        ("b features.shape.yaml", shape),
        ("b openstack.2026.2.yaml", "openstackRelease: '2026.2'\ndescription: x\nupgradesFrom: ['2026.1']\n"),
        ("b shared.more.yaml", "shared: more\ndescription: x\nfragments: [{every: {values: {mine: 1}}}]\n"),
        ("b keys.back.yaml", "mine: number\n"),
        ("b lock.yaml", "charts: {back: {version: 2.0.0, repository: 'https://charts.example.org'}}\n"),
    ];
    let mut seeds = vec![sections::write(all)];
    for (path, text) in built_in() {
        let key = path.strip_prefix("values/").unwrap_or(&path).replace('/', ".");
        seeds.push(sections::write([(format!("own {key}"), text)]));
    }
    // Add files whose aliases stand for 64 MiB of text, for almost as much as osdpl allows, and together for too much.
    for (names, aliases) in [(&["bomb"][..], 4000), (&["large"][..], 200), (&["a", "b", "c", "d"][..], 100)] {
        let values = format!("{{conf: {{region: {}}}}}", aliases_of_text(aliases));
        let preset = |name: &&str| {
            let fragments = format!("[{{releases: {{front: {{values: {values}}}}}}}]");
            let text = format!("preset: {name}\ndescription: x\nfragments: {fragments}\n");
            (format!("edge presets.{name}.yaml"), text)
        };
        seeds.push(sections::write(names.iter().map(preset)));
    }
    let values = format!("{{conf: {{region: {}}}}}", aliases_of_text(60));
    let shared = format!("shared: more\ndescription: x\nfragments: [{{every: {{values: {values}}}}}]\n");
    seeds.push(sections::write([("edge shared.more.yaml", shared)]));
    seeds
}

/// Returns a YAML list of a text of 16 KiB and this number of aliases of the text.
pub fn aliases_of_text(aliases: usize) -> String {
    format!("[&a {}{}]", "x".repeat(16 << 10), ", *a".repeat(aliases))
}
