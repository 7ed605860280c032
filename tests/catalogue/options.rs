//! Checks the options of services that the catalogue sets, and those in the defaults of the stand-in charts, against
//! `values/options/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, OptionFile, Text};
use osdpl_core::desired::{resolve_with_layers, select};
use osdpl_core::placeholder;
use osdpl_lint::find_option_problems;
use osdpl_values::{Layer, Origin, Values, yaml};
use serde_json::{Value, json};

use crate::clouds::{catalogue, clouds};

const OPENSTACK_RELEASES: [&str; 3] = ["2025.1", "2025.2", "2026.1"];

/// The maximum size of all files in `values/options/` in the program, where each file is compressed.
const MAX_SIZE: usize = 450_000;

/// Returns the name and the spec of each sample, and of many other clouds, for each OpenStack release.
fn all_clouds() -> Vec<(String, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = clouds();
    for entry in fs::read_dir(root.join("deploy/samples")).unwrap() {
        let path = entry.unwrap().path();
        let resource: Value = yaml::parse("sample", &fs::read_to_string(&path).unwrap()).unwrap();
        for release in OPENSTACK_RELEASES {
            let mut spec = resource["spec"].clone();
            spec["openstackRelease"] = json!(release);
            found.push((format!("{release} {}", path.file_name().unwrap().display()), spec));
        }
    }
    found
}

/// Returns the layers of each release of a cloud, with placeholders for credentials and for the settings of Ceph.
fn layers(catalog: &Catalog, spec: &Value) -> Vec<(String, Layer)> {
    let spec: OpenStackDeploymentSpec = serde_json::from_value(spec.clone()).unwrap();
    let selection = select("cloud", "openstack", &spec, catalog);
    let facts = placeholder::facts(catalog, &selection);
    let layered = resolve_with_layers(&spec, catalog, &selection, &facts);
    let all = layered.layers.into_iter().chain(layered.partial);
    all.flat_map(|(name, layers)| layers.into_iter().map(move |layer| (name.clone(), layer))).collect()
}

#[test]
fn catalogue_sets_only_options_of_the_services() {
    let catalog = catalogue();
    let mut checked = BTreeSet::new();
    let (mut wrong, mut deprecated) = (BTreeSet::new(), BTreeSet::new());
    for (_, spec) in all_clouds() {
        let openstack = spec["openstackRelease"].as_str().unwrap();
        for (name, layer) in layers(catalog, &spec) {
            if !checked.insert((openstack.to_owned(), name.clone(), osdpl_values::canonical_map(&layer.values))) {
                continue;
            }
            let (_, release) = catalog.release(&name).unwrap();
            for problem in find_option_problems(catalog, &release.chart, openstack, &layer) {
                let text = format!("{openstack} {name}: {} {} ({})", problem.path, problem.message, layer.origin);
                // A deprecated option still has an effect, and the older OpenStack releases may need it.
                let is_deprecated = problem.kind == "deprecated-option";
                if is_deprecated { &mut deprecated } else { &mut wrong }.insert(text);
            }
        }
    }
    println!("deprecated options: {deprecated:#?}");
    assert!(wrong.is_empty(), "correct the catalogue, or `values/options/`: {wrong:#?}");
}

#[test]
fn charts_defaults_cause_no_false_alarm() {
    let catalog = catalogue();
    let mut wrong = BTreeSet::new();
    let charts: BTreeSet<&str> = catalog.options.all().map(OptionFile::chart).collect();
    for chart in charts {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/charts/{chart}/values.yaml"));
        let Ok(text) = fs::read_to_string(file) else { continue };
        let values: Values = yaml::parse("values.yaml", &text).unwrap();
        let layer = Layer::new(Origin::Derived("the chart".into()), values);
        for openstack in OPENSTACK_RELEASES {
            let problems = find_option_problems(catalog, chart, openstack, &layer).into_iter();
            let alarms = problems.filter(|problem| problem.kind != "deprecated-option");
            wrong.extend(alarms.map(|problem| format!("{openstack} {chart}: {} {}", problem.path, problem.message)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn descriptions_of_options_are_small() {
    let built_in = osdpl_core::files::built_in();
    let options = built_in.iter().filter(|(path, _)| path.starts_with("values/options/"));
    let sizes = options.map(|(path, text)| match text {
        Text::BuiltIn { deflated, .. } => deflated.len(),
        Text::UserProvided(_) => panic!("{path} is not built in"),
    });
    let size: usize = sizes.sum();
    assert!(size > 0 && size <= MAX_SIZE, "values/options/ takes {size} bytes in the program");
}
