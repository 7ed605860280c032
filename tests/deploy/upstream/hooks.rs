//! Checks `values/hooks.yaml` with upstream's charts: a change of a value that this file lists must not change the
//! objects of the release's hooks.

use std::collections::BTreeMap;

use cluster::Program;
use osdpl_values::{self as values, Path, Values, yaml};
use serde_json::{Value, json};

use crate::clouds::{base_spec, resolved};
use crate::{render, shipped};

/// Returns a value that differs from `value` in each leaf, except for lists and nulls.
fn changed(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), changed(value))).collect(),
        Value::Bool(flag) => (!flag).into(),
        Value::Number(number) => number.as_i64().map_or_else(|| json!(0.5), |number| json!(number + 1)),
        Value::String(text) => format!("{text}-x").into(),
        Value::Array(_) | Value::Null => value.clone(),
    }
}

/// Returns a value for a path that has no default in the chart: an option, a section of a configuration file, or a
/// whole file. Returns null for a path outside of `conf`.
fn invented(path: &Path) -> Value {
    match path.keys() {
        [conf, _] if conf == "conf" => json!({"DEFAULT": {"invented": 1}}),
        [conf, _, _] if conf == "conf" => json!({"invented": 1}),
        [conf, ..] if conf == "conf" => json!(1),
        _ => Value::Null,
    }
}

/// Returns the objects of hooks by kind and name, without the digests of `ConfigMap`s in the annotations of their pods.
/// To each object, the function adds the content of each `ConfigMap`'s file that the object mounts with `subPath`.
fn hooks(documents: &[Value]) -> BTreeMap<String, Value> {
    let is_hook = |document: &&Value| document["metadata"]["annotations"]["helm.sh/hook"].is_string();
    let name = |document: &Value| format!("{} {}", document["kind"], document["metadata"]["name"]);
    let by_name: BTreeMap<String, &Value> = documents.iter().map(|document| (name(document), document)).collect();
    let mut hooks = BTreeMap::new();
    for document in documents.iter().filter(is_hook) {
        let mut hook = document.clone();
        if let Some(annotations) =
            hook.pointer_mut("/spec/template/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.retain(|key, _| !key.starts_with("configmap-"));
        }
        let pod = &document["spec"]["template"]["spec"];
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let volumes = list(&pod["volumes"]);
        for mount in list(&pod["containers"]).iter().flat_map(|container| list(&container["volumeMounts"])) {
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
            let Some((map, file)) = volume.map(|volume| &volume["configMap"]["name"]).zip(mount["subPath"].as_str())
            else {
                continue;
            };
            if let Some(map) = by_name.get(&format!("\"ConfigMap\" {map}")) {
                hook["files"][file] = map["data"][file].clone();
            }
        }
        hooks.insert(name(document), hook);
    }
    hooks
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test deploy upstream -- --include-ignored"]
fn hooks_are_independent_of_unread_values() {
    let catalog = shipped();
    let on = json!({"enabled": true});
    let services = json!({"barbican": on, "octavia": on, "designate": on});
    let features = json!({"loadBalancer": {"providers": ["amphora"]}});
    let desired = resolved(&catalog, &base_spec(&json!({"services": services, "features": features})));
    for (name, paths) in &catalog.unread_by_hooks {
        let release = &desired.releases[name];
        let chart = render::found(&release.chart).unwrap();
        let defaults = render::helm(Program::Helm4, &["show", "values", chart.to_str().unwrap()], "").unwrap();
        let defaults: Values = yaml::parse("values", &defaults).unwrap();
        let merged = values::coalesce(&defaults, &release.values);
        let mut others = release.values.clone();
        for path in paths {
            let other = values::get(&merged, path).map_or_else(|| invented(path), changed);
            if !other.is_null() {
                values::set(&mut others, path, other);
            }
        }
        let [before, after] = [&release.values, &others].map(|values| render::by(name, &release.chart, values));
        assert_ne!(before, after, "{name}: the test must change some object");
        let (before, after) = (hooks(&before), hooks(&after));
        assert!(before.values().any(|hook| !hook["files"].is_null()), "{name}: the test must find scripts of hooks");
        for (hook, object) in &before {
            assert_eq!(Some(object), after.get(hook), "{name}: {hook} depends on a value in values/hooks.yaml");
        }
    }
}
