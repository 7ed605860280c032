//! Checks the options of services that the catalogue sets, and those in the defaults of the charts, against
//! `values/options/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, OptionFile, Text};
use osdpl_core::desired::{resolve_with_layers, select};
use osdpl_core::placeholder;
use osdpl_lint::{OptionProblem, find_option_problems};
use osdpl_values::{Layer, Origin, Values, yaml};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clouds::{catalogue, clouds};

const OPENSTACK_RELEASES: [&str; 3] = ["2025.1", "2025.2", "2026.1"];

/// The maximum size of all files in `values/options/` in the program, where each file is compressed.
const MAX_SIZE: usize = 250_000;

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
fn descriptions_of_options_are_valid() {
    let options = &catalogue().options;
    let errors: Vec<String> =
        options.all().flat_map(|file| options.check(file)).map(|error| error.to_string()).collect();
    assert!(options.all().next().is_some() && errors.is_empty(), "{errors:#?}");
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

/// Options in values of upstream that services ignore, for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IgnoredOptions {
    /// Why the services ignore the options, and what osdpl's catalogue does about it.
    why: String,
    /// The OpenStack releases whose services ignore the options; empty for all.
    #[serde(default)]
    openstack: Vec<String>,
    /// Each entry has the form `CHART PATH`.
    options: Vec<String>,
}

/// Replaces nulls by empty strings. The check skips nulls, but the defaults of dead options may be null.
fn fill_nulls(value: &mut Value) {
    match value {
        Value::Null => *value = json!(""),
        Value::Object(map) => map.values_mut().for_each(fill_nulls),
        _ => {}
    }
}

/// Users can't correct the defaults of charts, so osdpl does not warn about them. This test reports each new option
/// that a service ignores, and each value that it can't read, in the defaults of the locked charts (`values/keys/`).
#[test]
fn services_ignore_only_listed_defaults_of_charts() {
    let catalog = catalogue();
    let list: Vec<IgnoredOptions> =
        yaml::parse("ignored_defaults.yaml", include_str!("ignored_defaults.yaml")).unwrap();
    let mut expected = BTreeSet::new();
    for IgnoredOptions { why, openstack, options } in &list {
        assert!(!why.is_empty());
        let releases =
            OPENSTACK_RELEASES.iter().filter(|release| openstack.is_empty() || openstack.contains(&(**release).into()));
        expected.extend(releases.flat_map(|release| options.iter().map(move |option| format!("{release} {option}"))));
    }
    let (mut ignored, mut wrong) = (BTreeSet::new(), BTreeSet::new());
    let charts: BTreeSet<&str> = catalog.options.all().map(OptionFile::chart).collect();
    for chart in charts {
        let mut values = catalog.keys().get(chart).unwrap().outline();
        fill_nulls(&mut values);
        let layer = Layer::new(Origin::Derived("the chart".into()), values.as_object().unwrap().clone());
        for openstack in OPENSTACK_RELEASES {
            for OptionProblem { path, kind, message } in find_option_problems(catalog, chart, openstack, &layer) {
                match kind {
                    "unknown-option" => ignored.insert(format!("{openstack} {chart} {path}")),
                    "deprecated-option" => continue,
                    _ => wrong.insert(format!("{openstack} {chart} {path}: {message}")),
                };
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let new: Vec<_> = ignored.difference(&expected).collect();
    let gone: Vec<_> = expected.difference(&ignored).collect();
    assert!(new.is_empty() && gone.is_empty(), "correct ignored_defaults.yaml: add {new:#?}, remove {gone:#?}");
}

/// Returns upstream's overrides for a chart. The files are in `CHART/` (below the folder `values_overrides` of
/// openstack-helm), or in `CHART/values_overrides/`.
fn override_files(folder: &Path, chart: &str) -> Vec<PathBuf> {
    let folders = [folder.join(chart), folder.join(chart).join("values_overrides")];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let files = entries.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect()
}

/// Returns the number of options that values set below the paths of the files in `values/options/`.
fn count_options(catalog: &Catalog, chart: &str, values: &Values) -> usize {
    let files = catalog.options.of_chart(chart);
    let sections = files.filter_map(|file| osdpl_values::get(values, file.path())?.as_object());
    sections.flat_map(Values::values).filter_map(Value::as_object).map(Values::len).sum()
}

/// Returns the problems with the options in a file of upstream's overrides, for all OpenStack releases to which the file
/// applies. The name of a file for one OpenStack release contains the release, such as `loci-2025.1-ubuntu_noble.yaml`.
fn override_problems(catalog: &Catalog, chart: &str, file: &str, layer: &Layer) -> Vec<OptionProblem> {
    let is_of_other = |release: &str| OPENSTACK_RELEASES.iter().any(|other| *other != release && file.contains(other));
    let releases = OPENSTACK_RELEASES.iter().filter(|release| !is_of_other(release));
    let problems = releases.flat_map(|openstack| find_option_problems(catalog, chart, openstack, layer));
    problems.filter(|problem| problem.kind != "deprecated-option").collect()
}

#[test]
#[ignore = "needs a checkout of openstack-helm: OVERRIDES=…/values_overrides cargo test --test catalogue -- --ignored"]
fn upstreams_overrides_cause_no_false_alarm() {
    let catalog = catalogue();
    let folder = env::var_os("OVERRIDES").expect("OVERRIDES is not set; set it to openstack-helm's values_overrides");
    let list: Vec<IgnoredOptions> =
        yaml::parse("ignored_overrides.yaml", include_str!("ignored_overrides.yaml")).unwrap();
    let expected: BTreeSet<String> = list.into_iter().flat_map(|entry| entry.options).collect();
    let charts: BTreeSet<&str> = catalog.options.all().map(OptionFile::chart).collect();
    let (mut files, mut options, mut found) = (0, 0, BTreeMap::new());
    for chart in charts {
        for path in override_files(Path::new(&folder), chart) {
            let file = path.file_name().unwrap().to_str().unwrap();
            // Upstream's scripts replace placeholders such as %%%REPLACE_API_ADDR%%%, which are not YAML.
            let values: Values = yaml::parse(file, &fs::read_to_string(&path).unwrap().replace("%%%", "")).unwrap();
            (files, options) = (files + 1, options + count_options(catalog, chart, &values));
            let layer = Layer::new(Origin::Derived("the file".into()), values);
            for problem in override_problems(catalog, chart, file, &layer) {
                found.insert(format!("{chart} {}", problem.path), format!("{chart}/{file}: {}", problem.message));
            }
        }
    }
    println!("checked {files} files with {options} options");
    assert!(files > 0, "{} contains no overrides", folder.display());
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), expected, "correct ignored_overrides.yaml: {found:#?}");
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
