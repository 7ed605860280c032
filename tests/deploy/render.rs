//! Renders charts with helm: the operator's own chart, and the charts of the catalogue with osdpl's values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use cluster::{Program, Programs, output_with_input, programs};
use osdpl_values::Values;
use osdpl_values::yaml;
use serde_json::{Value, json};

use crate::clouds::{clouds, resolved};
use crate::{path, shipped};

/// The major versions of helm with which the tests render charts.
pub const HELMS: [Program; 2] = [Program::Helm4, Program::Helm3];

static PROGRAMS: LazyLock<Programs> =
    LazyLock::new(|| programs::ensure(&HELMS, &mut programs::print_progress).unwrap());

/// Returns the path of helm 3 or helm 4, and obtains both versions first if necessary.
pub fn program(program: Program) -> &'static Path {
    PROGRAMS.path(program).unwrap()
}

/// Runs helm with `input` as its standard input. Returns helm's output, or helm's error.
pub fn helm(which: Program, arguments: &[&str], input: &str) -> Result<String, String> {
    let output = output_with_input(Command::new(program(which)).args(arguments), input).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Returns the objects in the YAML documents of a manifest.
pub fn documents(manifest: &str) -> Vec<Value> {
    let documents = manifest.split("\n---").filter(|document| document.lines().any(|line| line.starts_with("kind:")));
    documents.map(|document| yaml::parse("manifest", document.trim_start_matches('-')).unwrap()).collect()
}

/// Renders the operator's own chart; each setting is an argument of `--set`.
pub fn own(settings: &[&str]) -> Vec<Value> {
    let chart = path("deploy/osdpl");
    let mut arguments = vec!["template", "osdpl", chart.to_str().unwrap(), "--namespace", "osdpl-system"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    documents(&helm(Program::Helm4, &arguments, "").unwrap())
}

/// Returns the path of a chart, which is an archive or a directory. The chart is in the folder that the environment
/// variable `CHARTS` names, or else in `tests/charts`.
fn chart(name: &str) -> PathBuf {
    found(name).unwrap_or_else(|folder| panic!("{} has no chart {name}", folder.display()))
}

/// Returns the folder that the environment variable `CHARTS` names, if the variable is set.
pub fn given() -> Option<PathBuf> {
    std::env::var_os("CHARTS").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Returns the path of a chart. The error contains the folder that lacks the chart.
pub fn found(name: &str) -> Result<PathBuf, PathBuf> {
    let folder = given().unwrap_or_else(|| path("tests/charts"));
    let directory = folder.join(name);
    if directory.join("Chart.yaml").is_file() {
        return Ok(directory);
    }
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|file| {
        let rest = file.file_stem().and_then(|stem| stem.to_str()?.strip_prefix(name)?.strip_prefix('-'));
        // Accept a version with the prefix `v`, which some projects use.
        let version = rest.map(|rest| rest.strip_prefix('v').unwrap_or(rest));
        version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    });
    files.next().ok_or(folder)
}

/// Returns the specs of several clouds, which differ in the objects that the charts render.
fn kinds() -> Vec<Value> {
    let mut kinds: Vec<Value> =
        clouds().into_iter().filter(|(name, _)| name.starts_with("2026.1")).map(|(_, spec)| spec).collect();
    let store = json!({"mode": "external", "secret": {"name": "ceph"}, "objectStore": {}});
    kinds.push(json!({
        "openstackRelease": "2026.1", "presets": ["storage"], "features": {"storage": {"ceph": store}},
    }));
    kinds.push(json!({
        "openstackRelease": "2026.1", "presets": ["compute"], "publicDomain": "cloud.example.org",
        "features": {"publicEndpoints": {"enabled": true, "gateway": {"name": "public", "namespace": "gateways"}}},
    }));
    kinds
}

/// Returns all objects that helm would create for the clouds of `kinds`. Leaves out the test hooks of charts, because
/// osdpl never runs `helm test`.
pub fn catalogue() -> Vec<Value> {
    let catalog = shipped();
    let mut rendered = BTreeSet::new();
    let mut objects = Vec::new();
    for spec in kinds() {
        for (name, release) in resolved(&catalog, &spec).releases {
            if rendered.insert((name.clone(), serde_json::to_string(&release.values).unwrap())) {
                objects.extend(self::release(&name, &release.values));
            }
        }
    }
    objects.extend(crate::ceph::all_objects());
    objects
}

/// Returns, by service, the objects that helm would create in a cloud with all services of the catalogue. Leaves out
/// releases whose chart is not available.
pub fn services() -> BTreeMap<String, Vec<Value>> {
    let catalog = shipped();
    let all: serde_json::Map<_, _> =
        catalog.services.keys().map(|service| (service.clone(), json!({"enabled": true}))).collect();
    let spec = json!({"openstackRelease": "2026.1", "services": all});
    let mut services: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (name, release) in resolved(&catalog, &spec).releases {
        if let Ok(chart) = found(&release.chart) {
            services.entry(release.service).or_default().extend(rendered(&name, &chart, &release.values));
        }
    }
    services
}

/// Renders the chart `name` for a release with the same name, and returns the objects.
pub fn release(name: &str, values: &Values) -> Vec<Value> {
    by(name, name, values)
}

/// Renders the chart `chart` for the release `name`, and returns the objects.
pub fn by(name: &str, chart: &str, values: &Values) -> Vec<Value> {
    rendered(name, &self::chart(chart), values)
}

fn rendered(name: &str, chart: &Path, values: &Values) -> Vec<Value> {
    let chart = chart.to_str().unwrap();
    // Some charts from outside OpenStack-Helm restrict the Kubernetes version (`kubeVersion`). So render for a fixed
    // version that all charts accept.
    let arguments = [
        "template",
        name,
        chart,
        "--namespace",
        "openstack",
        "--skip-tests",
        "--kube-version",
        "1.34.0",
        "--values",
        "-",
    ];
    let values = serde_json::to_string(values).unwrap() + "\n";
    documents(&helm(Program::Helm4, &arguments, &values).unwrap())
}
