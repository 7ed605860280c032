mod added;
mod common;
mod nodes;
mod options;

use serde_json::{Value, json};

use super::*;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Facts, resolve_with_layers, select};
use osdpl_core::testing::files;

const COUPLINGS: &str = "couplings:\n- what: the number of servers\n  why: they are counted\n  default: 2\n  paths:\n  - {release: store, path: pod.replicas}\n\
                         \x20 - {release: front, path: conf.replicas}\n- what: the region\n  why: it is looked for\n  remedy: set spec.region instead\n\
                         \x20 expected: spec.region\n  paths:\n  - {path: auth.*.region}\n";
const PRESET: &str = "preset: small\ndescription: A small cloud.\nservices: [store, front]\nfragments:\n- releases:\n    front:\n      values: {conf: {workers: 4, \
                      hosts: [a, b, c]}, auth: {admin: {region: '${spec.region}'}}}\n    store:\n      values: {front: {user: 'as-${credentials.front.user}'}}\n";
const FRONT: &str = "conf: {region: string, password: string, colour: string, workers: number, replicas: number, debug: boolean, opts: {a: string, b: string}, \
                     hosts: list}\nauth: {admin: map}\nmanifests: {job: boolean}\nlabels: map\nname: string\nports: {api: 80}\n";

/// The path that the preset `mine` has in the catalogue. The preset comes from a `ConfigMap` (an addition).
const ADDED: &str = "presets/mine.yaml";
/// The location of the preset `mine` in the addition.
const ADDED_AT: &str = "ConfigMap openstack/mine, key presets.mine.yaml";

/// Returns the warnings about a spec, each in the form `kind field: message`.
fn warnings_of(value: Value) -> Vec<String> {
    warnings_with(value, &[])
}

/// Returns the warnings about a spec. The catalogue of these tests also contains the files in `more`.
#[expect(clippy::needless_pass_by_value, reason = "callers pass the result of `json!`")]
fn warnings_with(value: Value, more: &[(&str, &str)]) -> Vec<String> {
    let mut changes = vec![
        ("values/couplings.yaml", COUPLINGS),
        ("presets/small.yaml", PRESET),
        ("values/shared/auth.yaml", "shared: auth\ndescription: x\nfragments: []\n"),
        ("values/keys/front.yaml", FRONT),
        ("values/keys/store.yaml", "pod: {replicas: number}\nauth: {admin: string}\n"),
    ];
    changes.extend(more);
    let mut catalog = Catalog::load(&files(&changes)).unwrap();
    let is_added = |(file, _): &&(&str, &str)| *file == ADDED;
    catalog.added = more.iter().filter(is_added).map(|_| (ADDED.to_owned(), ADDED_AT.to_owned())).collect();
    let mut spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
    spec.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    let spec: OpenStackDeploymentSpec = serde_json::from_value(spec).unwrap();
    let selection = select("cloud", "openstack", &spec, &catalog);
    let credentials = json!({"store": {"admin": "s3cret"}, "front": {"user": "pa55"}});
    let facts = Facts { credentials: serde_json::from_value(credentials).unwrap(), helm_major: 4, ..Facts::default() };
    let layered = resolve_with_layers(&spec, &catalog, &selection, &facts);
    let found = check(&Cloud::new(&spec, &catalog, &selection, &facts, &layered));
    found.iter().map(|finding| format!("{} {}: {}", finding.rule, finding.field(), finding.text())).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass the result of `json!`")]
fn of_front(values: Value) -> Vec<String> {
    warnings_of(json!({"services": {"front": {"releases": {"front": {"values": values}}}}}))
}

const OWN: &str = "spec.services.front.releases.front.values";

#[test]
fn reports_values_without_effect() {
    let cases = [
        (
            json!({"conf": {"region": "RegionOne"}}),
            format!(
                "no-effect {OWN}.conf.region: changes nothing: values/services/front.yaml (releases.front.values) sets the same value; remove this value"
            ),
        ),
        (
            json!({"conf": {"workers": 4}}),
            format!(
                "preset-repeated {OWN}.conf.workers: repeats a value of the preset small of this spec, so later changes of the preset have no effect; remove this value"
            ),
        ),
    ];
    for (values, expected) in cases {
        assert_eq!(of_front(values), [expected]);
    }
    assert_eq!(of_front(json!({"conf": {"workers": 8, "debug": true}})), Vec::<String>::new());
}

#[test]
fn reports_values_overridden_by_a_later_layer() {
    let both = |common: Value| {
        warnings_of(
            json!({"common": common, "services": {"front": {"releases": {"front": {"values": {"conf": {"colour": "red"}}}}}}}),
        )
    };
    assert_eq!(
        both(json!({"openstack": {"values": {"conf": {"colour": "blue"}}}})),
        [
            "no-effect spec.common.openstack.values.conf.colour: is never used: spec.services.front.releases.front.values overrides it; remove one of the two"
        ]
    );
    let everywhere = json!({"values": {"auth": {"x": 1}}});
    assert_eq!(both(everywhere), Vec::<String>::new(), "a value that no later layer overrides causes no warning");
}

#[test]
fn reports_entries_dropped_from_a_list() {
    assert_eq!(
        of_front(json!({"conf": {"hosts": ["b", "d"]}})),
        [format!(
            "list-replaced {OWN}.conf.hosts: replaces the list of presets/small.yaml (fragments[0]) and drops a, c, because helm merges maps but not lists; repeat the entries that must stay"
        )]
    );
    assert_eq!(of_front(json!({"conf": {"hosts": ["a", "b", "c", "d"]}})), Vec::<String>::new());
}

#[test]
fn reports_entries_dropped_from_a_chart_list() {
    let keys = ("values/keys/front.yaml", "conf: {hosts: list}\npaths: [/a, /b, '{\"name\":\"c\"}']\nempty: list\n");
    let of_front = |values: Value| {
        warnings_with(json!({"services": {"front": {"releases": {"front": {"values": values}}}}}), &[keys])
    };
    assert_eq!(
        of_front(json!({"paths": ["/b", {"name": "d"}], "empty": [1]})),
        [format!(
            "list-replaced {OWN}.paths: replaces the list of the chart and drops /a, {{\"name\":\"c\"}}, because helm merges maps but not lists; repeat the entries that must stay"
        )]
    );
    assert_eq!(of_front(json!({"paths": [{"name": "c"}, "/a", "/b", "/z"]})), Vec::<String>::new());
}

#[test]
fn reports_values_equal_to_chart_defaults() {
    let keys = (
        "values/keys/front.yaml",
        "conf: {hosts: list, debug: false, workers: 4, colour: '=red'}\nlog: {level: '=info'}\n",
    );
    let of_front = |values: Value| {
        warnings_with(json!({"services": {"front": {"releases": {"front": {"values": values}}}}}), &[keys])
    };
    let same = |key: &str| {
        format!(
            "no-effect {OWN}.{key}: changes nothing: the chart has the same default; remove the value, so that later versions of the chart can change the default"
        )
    };
    assert_eq!(of_front(json!({"conf": {"debug": false, "colour": "red"}})), [same("conf.colour"), same("conf.debug")]);
    let others = json!({"conf": {"debug": true, "colour": "blue", "workers": 5}, "log": {"level": "debug"}});
    assert_eq!(of_front(others), Vec::<String>::new());
    assert_eq!(
        of_front(json!({"conf": {"workers": 4}})).len(),
        1,
        "a value that equals both the preset's value and the chart's default causes only one warning"
    );
}

#[test]
fn reports_nulls_that_remove_chart_maps() {
    let message = |key: &str, names: &str| {
        format!(
            "null-map {OWN}.{key}: removes a whole map of the chart, including its keys {names}: templates that read these keys fail; remove or set single keys instead"
        )
    };
    assert_eq!(of_front(json!({"manifests": null})), [message("manifests", "job")]);
    assert_eq!(of_front(json!({"auth": null})), [message("auth", "admin")]);
    assert_eq!(of_front(json!({"manifests": {"job": null}, "conf": {"opts": null}})), [message("conf.opts", "a, b")]);
}

#[test]
fn reports_changed_types_and_hidden_keys() {
    let cases = [
        (
            json!({"manifests": {"job": "false"}}),
            "type-changed",
            "manifests.job: is a string where the chart has a boolean: templates treat every string except an empty one as true; write a boolean",
        ),
        (
            json!({"name": true}),
            "type-changed",
            "name: is a boolean where the chart has a string: YAML reads yes, no, on and off as booleans; write a string",
        ),
        (
            json!({"conf": {"opts": "x"}}),
            "hidden-key",
            "conf.opts: is a string where the chart has a map, and hides its keys a, b; write a map",
        ),
        (json!({"labels": [1]}), "type-changed", "labels: is a list where the chart has a map; write a map"),
        (
            json!({"conf": {"hosts": "a"}}),
            "type-changed",
            "conf.hosts: is a string where the layers below give a list; write a list",
        ),
        (
            json!({"name": {"first": "x"}}),
            "type-changed",
            "name: is a map where the chart has a string; write a string",
        ),
        (
            json!({"ports": {"api": "http"}}),
            "type-changed",
            "ports.api: is a string where the chart has a number; write a number",
        ),
    ];
    for (values, kind, expected) in cases {
        assert_eq!(of_front(values), [format!("{kind} {OWN}.{expected}")]);
    }
    let valid = json!({"ports": {"api": "25%"}, "conf": {"debug": "True", "workers": "8", "colour": {"type": "multistring", "values": ["a"]}}});
    assert_eq!(
        of_front(valid),
        Vec::<String>::new(),
        "a value of another type causes no warning in a configuration file"
    );
    assert_eq!(of_front(json!({"ports": {"api": ""}})), Vec::<String>::new(), "an empty string causes no warning");
}

#[test]
fn reports_removals_of_nothing() {
    let spec = json!({"services": {"front": {"releases": {"front": {"unset": ["conf.colour", "conf.front.debug"]}}}}});
    assert_eq!(
        warnings_of(spec),
        [
            "null-nothing spec.services.front.releases.front.unset[1]: removes nothing: neither the chart nor a layer below has this key; correct or remove the path"
        ]
    );
}

#[test]
fn reports_credentials_replaced_in_one_chart() {
    let found = of_front(json!({"conf": {"password": "an0ther"}}));
    assert_eq!(
        found,
        [format!(
            "contradiction {OWN}.conf.password: replaces the credential user of front only here, and store (front.user) still uses the original credential; put \
             the new credential into a Secret that `spec.services.front.credentials.user` references, or remove \
             this value"
        )]
    );
    assert_eq!(of_front(json!({"conf": {"password": "mysql://u:p@db.example.org/x"}})), Vec::<String>::new());
    let alone = json!({"services": {"store": {"releases": {"store": {"values": {"auth": {"admin": "an0ther"}}}}}}});
    assert_eq!(warnings_of(alone), Vec::<String>::new(), "a credential that no other release uses causes no warning");
}

#[test]
fn reports_values_removed_by_their_own_layer() {
    let both = |values: Value, unset: &str| {
        warnings_of(json!({"services": {"front": {"releases": {"front": {"values": values, "unset": [unset]}}}}}))
    };
    let message = |path: &str| {
        [format!(
            "no-effect {OWN}.{path}: is never used: spec.services.front.releases.front.unset[0] removes it again; remove one of the two"
        )]
    };
    assert_eq!(both(json!({"conf": {"front": {"debug": true}}}), "conf.front.debug"), message("conf.front.debug"));
    assert_eq!(both(json!({"conf": {"colour": "red"}}), "conf.colour"), message("conf.colour"));
}

#[test]
fn reports_contradictions_between_charts() {
    assert_eq!(
        warnings_of(json!({"services": {"store": {"releases": {"store": {"values": {"pod": {"replicas": 3}}}}}}})),
        [
            "contradiction spec.services.store.releases.store.values.pod.replicas: the number of servers is 3 here and 2 in conf.replicas of front (the chart's default), but both values must be equal: they are counted; set equal values"
        ]
    );
    let both = json!({"services": {"store": {"releases": {"store": {"values": {"pod": {"replicas": 3}}}}}, "front": {"releases": {"front": {"values": {"conf": {"replicas": 3}}}}}}});
    assert_eq!(warnings_of(both), Vec::<String>::new());
    assert_eq!(
        of_front(json!({"auth": {"admin": {"region": "R2"}}})),
        [format!(
            "contradiction {OWN}.auth.admin.region: the region is R2 here and \"RegionOne\" in the cloud, but both values must be equal: it is looked for; set spec.region instead"
        )]
    );
}

#[test]
fn compares_own_servers_with_their_clients() {
    let couplings = COUPLINGS.replace("  default: 2\n", "  default: 2\n  server: store\n");
    let own = "service: own\ndescription: x\ngroup: infra\nreleases:\n  store-front: {chart: store}\n";
    let preset = PRESET.replace("services: [store, front]", "services: [store, front, own]");
    let warnings_for = |store: u64, own_store: u64, front: u64| {
        let pods = |count: u64| json!({"values": {"pod": {"replicas": count}}});
        let services = json!({
            "store": {"releases": {"store": pods(store)}},
            "own": {"releases": {"store-front": pods(own_store)}},
            "front": {"releases": {"front": {"values": {"conf": {"replicas": front}}}}},
        });
        let more = [
            ("values/couplings.yaml", couplings.as_str()),
            ("values/services/own.yaml", own),
            ("presets/small.yaml", &preset),
        ];
        warnings_with(json!({"services": services}), &more)
    };
    assert_eq!(warnings_for(1, 3, 3), Vec::<String>::new());
    let found = warnings_for(3, 5, 3);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("conf.replicas: the number of servers is 3 here and 5 in pod.replicas of store-front"),
        "{found:?}"
    );
}

#[test]
fn allows_other_access_modes() {
    let keys = ("values/keys/front.yaml", "volume: {accessModes: [ReadWriteOnce], hosts: [a]}\n");
    let found = warnings_with(
        json!({"services": {"front": {"releases": {"front": {"values": {"volume": {"accessModes": ["ReadWriteMany"], "hosts": ["b"]}}}}}}}),
        &[keys],
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(&format!("list-replaced {OWN}.volume.hosts: ")), "{found:?}");
}
