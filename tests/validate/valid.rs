//! Checks that valid inputs cause no errors and no lint warnings. The inputs are the samples, and clouds with many
//! presets and features.

use std::time::Instant;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::finding::CATALOGUE;
use osdpl_core::placeholder;
use osdpl_lint::Input;
use osdpl_lint::validate::Schemas;
use serde_json::json;

use super::{checked, checked_by, path, resource};

fn samples() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(path("deploy/samples")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let read = |name: &String| std::fs::read_to_string(path("deploy/samples").join(name)).unwrap();
    names.map(|name| (name.clone(), read(&name))).collect()
}

#[test]
fn samples_have_no_errors_or_lint_warnings() {
    for (name, text) in samples() {
        let report = checked(&[(&name, &text)]);
        let problems: Vec<_> = report
            .findings
            .iter()
            .filter(|found| found.level.as_str() == "error" || found.rule != "catalogue")
            .collect();
        assert!(problems.is_empty(), "{name}: {problems:?}");
        assert_eq!(report.summary.resources, 1, "{name}");
    }
}

#[test]
fn presets_and_backends_have_no_lint_warnings() {
    let catalog = osdpl_core::files::load_catalog(None).unwrap();
    for presets in [&["compute"][..], &["compute", "ha"], &["compute", "storage"], &["compute", "storage", "ha"]] {
        for network in ["ovs", "ovn"] {
            let ceph = json!({"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}}});
            let storage = if presets.contains(&"storage") { ceph } else { json!({"backend": "pvc"}) };
            // Set an image for octavia and a backend for cinder: without them, these two services would do nothing, and
            // osdpl would report this in a finding.
            let image = json!({"url": "https://images.example.org/amphora.qcow2", "checksum": format!("sha256:{}", "0".repeat(64))});
            let balancers = json!({"providers": ["amphora"], "amphora": {"image": image}});
            let mut features = json!({"network": {"backend": network}, "storage": storage, "loadBalancer": balancers});
            if !presets.contains(&"storage") {
                features["volumes"] = json!({"backends": [{"name": "shelf", "type": "nfs", "host": "nfs.example.org", "path": "/volumes"}]});
            }
            let spec = json!({"openstackRelease": "2026.1", "presets": presets, "features": features, "region": "R2"});
            let spec: OpenStackDeploymentSpec = serde_json::from_value(spec).unwrap();
            let input = Input::of_spec(&spec, &catalog);
            let selection = input.select();
            let mut found = input.resolve(&selection, &placeholder::facts(&catalog, &selection)).findings;
            found.retain(|finding| finding.rule != CATALOGUE);
            assert!(found.is_empty(), "{presets:?} {network}: {found:?}");
        }
    }
}

#[test]
fn reads_objects_next_to_a_resource() {
    let cloud = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: openstack}\nspec:\n  \
                 openstackRelease: '2026.1'\n  presets: [core]\n  services:\n    nova:\n      releases:\n        nova:\n          \
                 valuesFrom: [{kind: ConfigMap, name: sizes}]\n";
    let sizes = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sizes, namespace: openstack}\ndata:\n  values.yaml: |\n    pod: {replicas: 3}\n";
    let report = checked(&[("cloud.yaml", cloud), ("sizes.yaml", sizes)]);
    let found: Vec<_> = report.findings.iter().map(|found| (found.line(), found.rule, found.field())).collect();
    assert_eq!(found, [(11, "hidden-key", "spec.services.nova.releases.nova.valuesFrom[0].pod.replicas")]);
    assert_eq!(report.notes, Vec::<String>::new(), "osdpl must read the ConfigMap, which is in another input file");
    let alone = checked(&[("cloud.yaml", cloud)]);
    assert_eq!((alone.summary.errors, alone.notes.len()), (0, 1), "{:?} {:?}", alone.findings, alone.notes);
}

#[test]
fn dedicated_broker_values_do_not_conflict() {
    let spec = "features: {messaging: {dedicated: [nova]}}\nservices:\n  rabbitmq:\n    releases:\n      rabbitmq-nova:\n        values:\n          \
                pod: {replicas: {server: 3}}\n          endpoints:\n            oslo_messaging: {auth: {user: {username: own}}, port: {amqp: {default: 5673}}}\n  \
                nova:\n    releases:\n      nova:\n        values:\n          endpoints:\n            oslo_messaging:\n              statefulset: {replicas: 3}\n              \
                auth: {admin: {username: own}}\n              port: {amqp: {default: 5673}}\n";
    let report = checked(&[("cloud.yaml", &resource(spec))]);
    assert!(!report.findings.iter().any(|found| found.rule == "contradiction"), "{:?}", report.findings);
}

#[test]
fn prints_validation_time_of_largest_sample() {
    let catalog = osdpl_core::files::load_catalog(None).unwrap();
    let schemas = Schemas::new(&catalog).unwrap();
    let largest = samples().into_iter().max_by_key(|(_, text)| text.len()).unwrap();
    let start = Instant::now();
    let report = checked_by(&[(&largest.0, &largest.1)], &catalog, &schemas);
    println!("{}: {:?} in a debug build", largest.0, start.elapsed());
    assert_eq!(report.summary.errors, 0);
}

#[test]
fn couplings_and_rules_use_existing_keys() {
    let catalog = osdpl_core::files::load_catalog(None).unwrap();
    let of_couplings = catalog.cross_checks.couplings.iter().flat_map(|coupling| &coupling.paths);
    let of_couplings = of_couplings.filter_map(|setting| Some((setting.release.as_ref()?, &setting.path)));
    let of_rules = catalog.cross_checks.rules.iter().filter_map(|rule| Some((rule.releases.first()?, &rule.path)));
    let is_known = |(release, path): &(&String, &osdpl_values::Path)| {
        let chart = catalog.release(release).map(|(_, release)| release.chart.as_str());
        // For an option in `conf`, check only that its section exists, because charts do not list all options. For a
        // path in `extraObjects`, check only the key `extraObjects`, because charts accept any key below it.
        let above: osdpl_values::Path = match path.keys() {
            keys if keys[0] == "extraObjects" => keys[..1].iter().cloned().collect(),
            keys if keys[0] == "conf" => keys[..keys.len().min(3)].iter().cloned().collect(),
            keys => keys.iter().cloned().collect(),
        };
        chart.and_then(|chart| catalog.keys().get(chart)).is_some_and(|tree| tree.has_path(&above))
    };
    let unknown: Vec<_> = of_couplings.chain(of_rules).filter(|setting| !is_known(setting)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(catalog.cross_checks.couplings.len() >= 10 && catalog.cross_checks.rules.len() >= 5);
}
