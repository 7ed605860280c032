//! Tests that `Needs` contains the objects for which a pod waits. The test pods look like pods of OpenStack-Helm's
//! charts.

use serde_json::{Value, json};

use super::*;
use SourceKind::{ConfigMap, Secret};

#[expect(clippy::needless_pass_by_value, reason = "callers pass the result of `json!` without a reference")]
fn needs(spec: Value) -> Needs {
    let pod = json!({ "metadata": { "name": "pod", "namespace": "openstack" }, "spec": spec });
    Needs::of(&serde_json::from_value(pod).unwrap())
}

fn entrypoint(environment: &[(&str, &str)]) -> Vec<Dependency> {
    let env: Vec<Value> = environment.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    needs(json!({ "initContainers": [{ "name": "init", "env": env }], "containers": [] })).dependencies
}

fn service(namespace: &str, name: &str) -> Dependency {
    Dependency::Service { namespace: namespace.into(), name: name.into() }
}

fn job(namespace: &str, name: &str) -> Dependency {
    Dependency::Job { namespace: namespace.into(), name: name.into() }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
}

#[test]
fn names_default_to_the_pods_namespace() {
    let found = entrypoint(&[
        ("DEPENDENCY_SERVICE", "infra:mariadb,keystone-api"),
        ("DEPENDENCY_JOBS", "db-sync,other:db-init"),
        ("DEPENDENCY_DAEMONSET", "ovs"),
    ]);
    let set = Dependency::DaemonSet { namespace: "openstack".into(), name: "ovs".into() };
    let expected = [
        service("infra", "mariadb"),
        service("openstack", "keystone-api"),
        job("openstack", "db-sync"),
        job("other", "db-init"),
        set,
    ];
    assert_eq!(found, expected);
}

#[test]
fn ignores_malformed_entries() {
    assert_eq!(entrypoint(&[("DEPENDENCY_SERVICE", ",a:b:c,:d,ok")]), [service("openstack", "ok")]);
    let broken =
        entrypoint(&[("DEPENDENCY_SERVICE", ""), ("DEPENDENCY_POD_JSON", "[{"), ("DEPENDENCY_JOBS_JSON", "null")]);
    assert_eq!(broken, []);
}

#[test]
fn prefers_the_json_list_of_jobs() {
    let json = r#"[{"name":"a"},{"namespace":"n","labels":{"k":"v"}},{"name":"both","labels":{"k":"v"}}]"#;
    let found = entrypoint(&[("DEPENDENCY_SERVICE", ""), ("DEPENDENCY_JOBS", "plain"), ("DEPENDENCY_JOBS_JSON", json)]);
    let by_labels = Dependency::Jobs { namespace: "n".into(), labels: labels(&[("k", "v")]) };
    assert_eq!(found, [job("openstack", "a"), by_labels]);
}

#[test]
fn parses_pods_by_label_and_node() {
    let json = r#"[{"labels":{"application":"neutron"},"requireSameNode":true},{"labels":{"a":"b"},"namespace":"n"}]"#;
    let pod =
        |namespace: &str, labels: Labels, same_node| Dependency::Pod { namespace: namespace.into(), labels, same_node };
    assert_eq!(
        entrypoint(&[("DEPENDENCY_SERVICE", ""), ("DEPENDENCY_POD_JSON", json)]),
        [pod("openstack", labels(&[("application", "neutron")]), true), pod("n", labels(&[("a", "b")]), false)]
    );
}

#[test]
fn parses_custom_resource_conditions() {
    let json = r#"[{"apiVersion":"a.b/v1","kind":"Database","name":"glance",
                    "fields":[{"key":"status.phase","value":"Ready"}],"conditions":[{"type":"Ready"}]}]"#;
    let found = entrypoint(&[("DEPENDENCY_SERVICE", ""), ("DEPENDENCY_CUSTOM_RESOURCE", json)]);
    let [Dependency::Custom(custom)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((custom.namespace.as_str(), custom.kind.as_str()), ("openstack", "Database"));
    assert_eq!((custom.fields.len(), custom.conditions[0].status.as_str()), (1, ""));
}

#[test]
fn entrypoint_needs_dependency_service() {
    assert_eq!(entrypoint(&[("DEPENDENCY_JOBS", "db-sync")]), []);
    let main = json!({ "containers": [{ "name": "c", "env": [{ "name": "DEPENDENCY_SERVICE", "value": "a" }] }] });
    assert_eq!(needs(main).dependencies, []);
}

#[test]
fn collects_sources_unless_optional() {
    let found = needs(json!({
        "volumes": [
            { "name": "etc", "secret": { "secretName": "glance-etc" } },
            { "name": "bin", "configMap": { "name": "glance-bin" } },
            { "name": "maybe", "secret": { "secretName": "absent", "optional": true } },
            { "name": "all", "projected": { "sources": [{ "secret": { "name": "one" } }, { "configMap": { "name": "two" } }] } },
        ],
        "containers": [{
            "name": "api",
            "envFrom": [{ "secretRef": { "name": "env" } }, { "configMapRef": { "name": "absent", "optional": true } }],
            "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "key", "key": "k" } } }],
        }],
    }));
    let names = |sources: &[Source]| -> Vec<(SourceKind, String)> {
        sources.iter().map(|source| (source.kind, source.name.clone())).collect()
    };
    let volumes = [(Secret, "glance-etc"), (ConfigMap, "glance-bin"), (Secret, "one"), (ConfigMap, "two")];
    assert_eq!(names(&found.volumes), volumes.map(|(kind, name)| (kind, name.to_string())));
    assert_eq!(names(&found.environment), [(Secret, "env".to_string()), (Secret, "key".to_string())]);
}
