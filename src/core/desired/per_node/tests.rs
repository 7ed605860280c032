use serde_json::{Value, json};

use super::*;
use crate::desired::{Facts, resolve, select};

/// Returns a catalogue in which the release `front` has two `DaemonSets` of the form `conf`, and the release `store`
/// has one of the form `root`.
fn catalog() -> Catalog {
    let mut files = crate::testing::files(&[]);
    let front = files["values/services/front.yaml"].as_written().replace(
        "    plainJobs: [front-setup]\n",
        "    plainJobs: [front-setup]\n    daemonsets:\n      agent: {form: conf, component: front/agent, shared: [conf.a.host]}\n\
         \x20     l2_agent: {form: conf, component: front/l2, when: features.colour.name == 'blue'}\n",
    );
    let store = files["values/services/store.yaml"].as_written().replace(
        "    components: {store/server: StatefulSet}\n",
        "    components: {store/server: StatefulSet}\n    daemonsets:\n      disk: {form: root, component: store/disk}\n",
    );
    files.insert("values/services/front.yaml".into(), front.into());
    files.insert("values/services/store.yaml".into(), store.into());
    // Remove the key tree of the chart `front`, so that osdpl does not warn about unknown keys. Other tests check these
    // warnings.
    files.remove("values/keys/front.yaml");
    let bare = files["presets/small.yaml"].as_written().replace("[store, front]", "[store, front, bare]");
    files.insert("presets/small.yaml".into(), bare.into());
    let text = "service: bare\ndescription: x\ngroup: infra\nreleases: {bare: {}, other: {when: 'false', daemonsets: {x: {form: conf, component: other/x, when: 'false'}}}}\n";
    files.insert("values/services/bare.yaml".into(), text.into());
    Catalog::load(&files).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn resolved(overrides: Value, change: Value) -> crate::desired::Desired {
    let catalog = catalog();
    let mut spec = json!({"openstackRelease": "2026.1", "presets": ["small"], "nodes": {"overrides": overrides}});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let spec: OpenStackDeploymentSpec = serde_json::from_value(spec).unwrap();
    let credentials = json!({"store": {"admin": "s3cret"}, "front": {"user": "pa55"}});
    let facts = Facts { credentials: serde_json::from_value(credentials).unwrap(), helm_major: 4, ..Facts::default() };
    resolve(&spec, &catalog, &select("cloud", "n", &spec, &catalog), &facts)
}

fn messages(overrides: Value) -> Vec<String> {
    resolved(overrides, json!({})).findings.iter().map(|finding| format!("{:?} {finding}", finding.level)).collect()
}

/// Returns an entry of `spec.nodes.overrides` for one release. `nodes` is a list of node names or a label selector.
fn entry(nodes: &Value, release: &str, values: &Value) -> Value {
    let mut entry = json!({"name": "x", "releases": {release: {"values": values}}});
    let field = if nodes.is_array() { "nodes" } else { "selector" };
    entry[field] = nodes.clone();
    entry
}

fn label(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

#[test]
fn renders_entries_in_the_form_of_each_chart() {
    let any = json!({"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["b", "a"]}]});
    let overrides = json!([
        entry(&label("rack", "1"), "front", &json!({"conf": {"a": {"x": 1, "y": 1}}})),
        entry(&any, "front", &json!({"conf": {"a": {"x": 2}}})),
        entry(&json!(["n2", "n1"]), "front", &json!({"conf": {"a": {"x": null}}})),
        entry(&label("rack", "1"), "front", &json!({"conf": {"a": {"z": 3}}})),
        entry(&any, "store", &json!({"pod": {"x": 1}})),
        entry(&json!(["n1"]), "store", &json!({"pod": {"x": 2}})),
        entry(&label("gpu", "a"), "store", &json!({"conf": {"y": 3}})),
    ]);
    let desired = resolved(overrides, json!({}));
    let findings: Vec<_> = desired.findings.iter().filter(|finding| finding.level == Level::Error).collect();
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(
        desired.releases["front"].values["conf"]["overrides"],
        json!({"front_agent": {
            "labels": [
                {"label": {"key": "gpu", "values": ["a", "b"]}, "conf": {"a": {"x": 2}}},
                {"label": {"key": "rack", "values": ["1"]}, "conf": {"a": {"x": 1, "y": 1, "z": 3}}},
            ],
            "hosts": [{"name": "n1", "conf": {"a": {"x": null}}}, {"name": "n2", "conf": {"a": {"x": null}}}],
        }})
    );
    assert_eq!(
        desired.releases["store"].values["overrides"],
        json!({"store_disk": {"labels": {
            "gpu::b": {"values": {"pod": {"x": 1}}},
            "kubernetes.io/hostname::n1": {"values": {"pod": {"x": 2}}},
            "gpu::a": {"values": {"pod": {"x": 1}, "conf": {"y": 3}}},
        }}})
    );
}

#[test]
fn rejects_what_charts_cannot_express() {
    let fine = json!({"conf": {"a": {"x": 1}}});
    let selects = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let rack = label("rack", "1");
    let mut named = entry(&rack, "front", &fine);
    named["releases"]["front"]["daemonsets"] = json!(["agnet"]);
    let mut both = entry(&rack, "front", &fine);
    both["nodes"] = json!(["n1"]);
    let cases = [
        (
            entry(&selects("a", "NotIn", json!(["1"])), "front", &fine),
            "uses NotIn, but charts can select nodes only by the values of one label; add a label to these nodes",
        ),
        (entry(&selects("a", "Exists", json!([])), "front", &fine), "uses Exists, but"),
        (entry(&json!({"matchLabels": {"a": "1", "b": "2"}}), "front", &fine), "uses several labels at once, but"),
        (entry(&json!({}), "front", &fine), "selector: is empty and would mean every node"),
        (entry(&json!(["N 1"]), "front", &fine), "nodes: \"N 1\" is not the name of a node"),
        (both, "must select nodes: either by `selector` or by `nodes`"),
        (json!({"name": "x", "nodes": ["n1"]}), "changes nothing; name releases"),
        (
            entry(&rack, "frnot", &fine),
            ".releases.frnot: there is no release \"frnot\" (did you mean \"front\"?); choose from other, front, store",
        ),
        (
            entry(&rack, "bare", &fine),
            ".releases.bare: can't differ by node: chart bare makes the same pods for all nodes; set the values for all nodes in spec.services",
        ),
        (
            named,
            ".releases.front.daemonsets: chart front has no DaemonSet \"agnet\" whose values can differ by node (did you mean \"agent\"?); choose from agent, l2_agent",
        ),
        (
            entry(&rack, "front", &json!({})),
            ".releases.front: changes nothing, because `values` is empty; set `values`",
        ),
        (
            entry(&rack, "front", &json!({"network": {"x": 1}})),
            ".releases.front.values.network.x: can't differ by node: chart front lets only the values below conf differ between the pods of agent; set the value for all nodes",
        ),
        (entry(&rack, "front", &json!({"conf": 1})), ".releases.front.values.conf: can't differ by node"),
        (
            entry(&rack, "front", &json!({"conf": {"a": {"host": "x"}}})),
            ".releases.front.values.conf.a.host: can't differ by node: chart front puts this value into scripts or pod templates that all nodes share",
        ),
        (
            entry(&rack, "front", &json!({"conf": {"overrides": {"x": 1}}})),
            ".releases.front.values.conf.overrides.x: is reserved: osdpl writes the values for single nodes",
        ),
        (
            entry(&rack, "store", &json!({"overrides": {"x": 1}})),
            ".releases.store.values.overrides.x: is reserved: osdpl writes the values for single nodes",
        ),
        (
            entry(&label("example.org/gpu", "1"), "front", &fine),
            "selects by label example.org/gpu, from which chart front can't build the name of a DaemonSet",
        ),
        (
            entry(&json!(["compute-001-of-rack.example.org"]), "front", &fine),
            "names node compute-001-of-rack.example.org, from whose first 20 characters",
        ),
    ];
    for (entry, expected) in cases {
        let errors: Vec<_> = messages(json!([entry])).into_iter().filter(|line| line.starts_with("Error")).collect();
        let expected = if expected.starts_with('.') { expected.to_owned() } else { format!(": {expected}") };
        let begins = format!("Error spec.nodes.overrides[0]{expected}");
        assert!(errors.len() == 1 && errors[0].starts_with(&begins), "{begins}\n{errors:#?}");
    }
}

#[test]
fn the_root_form_accepts_prefixed_labels_and_any_value() {
    let store = entry(&label("example.org/gpu", "1"), "store", &json!({"pod": {"x": 1}}));
    let errors: Vec<_> = messages(json!([store])).into_iter().filter(|line| line.starts_with("Error")).collect();
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn warns_about_conflicts_and_entries_without_effect() {
    let one = |nodes: Value, x: u8| entry(&nodes, "front", &json!({"conf": {"a": {"x": x}}}));
    let rack = || label("rack", "1");
    let lines = messages(json!([one(rack(), 1), one(json!(["n1"]), 2), one(rack(), 3)]));
    let conflict = "Warning spec.nodes.overrides[2].releases.front.values: conf.a.x is 3 here and 1 at spec.nodes.overrides[0].releases.front.values for the same nodes; the later value applies; remove one of the two values";
    assert_eq!(lines, [conflict]);
    assert_eq!(messages(json!([one(rack(), 1), one(rack(), 1)])), Vec::<String>::new());
    let secret = |text: &str| entry(&rack(), "front", &json!({"conf": {"a": {"password": text}}}));
    let lines = messages(json!([secret("hunter2"), secret("letmein")]));
    assert!(lines.len() == 1 && lines[0].contains("conf.a.password is one secret here and another at"), "{lines:?}");
    let other = messages(json!([entry(&rack(), "other", &json!({"conf": {"x": {"y": 1}}}))]));
    assert_eq!(
        other,
        [
            "Warning spec.nodes.overrides[0].releases.other: the release is not part of this cloud, so this entry has no effect; remove the entry"
        ]
    );
}

/// Resolves a spec in which `spec.services` and one entry of `spec.nodes.overrides` set values for the same
/// `DaemonSet`. Returns all findings as strings.
fn with_own(nodes: &Value, release: &str, values: &Value, own: &Value) -> Vec<String> {
    let own = json!({"services": {release: {"releases": {release: {"values": own}}}}});
    let findings = resolved(json!([entry(nodes, release, values)]), own).findings;
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn warns_only_about_other_values_that_the_entries_replace() {
    let (rack, conf) = (label("rack", "1"), json!({"conf": {"a": {"x": 1}}}));
    let front = |own: Value| with_own(&rack, "front", &conf, &json!({"conf": {"overrides": {"front_agent": own}}}));
    let replaced = front(json!({"labels": []}));
    let expected = "spec.nodes.overrides: sets conf.overrides.front_agent, which other values of front also set";
    assert!(replaced.len() == 1 && replaced[0].starts_with(expected), "{replaced:?}");
    assert_eq!(front(json!({"hosts": []})), Vec::<String>::new(), "osdpl merges the lists `labels` and `hosts`");
    let store = |label: &str, x: u8| {
        let own = json!({"overrides": {"store_disk": {"labels": {label: {"values": {"pod": {"x": x, "y": 1}}}}}}});
        with_own(&rack, "store", &json!({"pod": {"x": 1}}), &own)
    };
    assert_eq!(store("rack::2", 2), Vec::<String>::new());
    assert_eq!(store("rack::1", 1), Vec::<String>::new(), "a merge with an equal value replaces nothing");
    assert_eq!(store("rack::1", 2).len(), 1);
}

#[test]
fn warns_about_entries_for_daemon_sets_that_the_chart_does_not_create() {
    let mut named = entry(&label("rack", "1"), "front", &json!({"conf": {"a": {"x": 1}}}));
    named["releases"]["front"]["daemonsets"] = json!(["l2_agent"]);
    let expected = "Warning spec.nodes.overrides[0].releases.front: has no effect, because chart front does not create l2_agent with the present features; remove the entry, or change the features on which these DaemonSets depend";
    assert_eq!(messages(json!([named])), [expected]);
    named["releases"]["front"]["daemonsets"] = json!(["agent", "l2_agent"]);
    assert_eq!(messages(json!([named])), Vec::<String>::new());
    let (catalog, scope, mut findings) = (catalog(), Scope::new(Values::new()), Vec::new());
    let (_, other) = catalog.release("other").unwrap();
    let found = select_daemonsets(other, &NodeValues::default(), &scope, "", "spec", &mut findings);
    assert_eq!(found, Some(Vec::new()));
    assert_eq!(findings.len(), 1, "osdpl also warns if the entry names no DaemonSet: {findings:?}");
}

#[test]
fn requires_names_if_a_release_has_several_daemon_sets() {
    let blue = json!({"features": {"colour": {"name": "blue"}}});
    let front = entry(&label("rack", "1"), "front", &json!({"conf": {"a": {"x": 1}}}));
    let message = resolved(json!([front]), blue.clone()).findings[0].to_string();
    let expected = "spec.nodes.overrides[0].releases.front.daemonsets: names no DaemonSet; name each DaemonSet that gets the values (agent, l2_agent); the pods of these DaemonSets restart";
    assert_eq!(message, expected);
    let mut named = front;
    named["releases"]["front"]["daemonsets"] = json!(["l2_agent"]);
    let desired = resolved(json!([named]), blue);
    let keys: Vec<_> = desired.releases["front"].values["conf"]["overrides"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["front_l2_agent"]);
}

#[test]
fn the_split_depends_on_nodes_but_not_on_values() {
    let split = |overrides: Value| resolved(overrides, json!({})).releases["front"].split.clone().unwrap();
    let one = |nodes: Value, x: u8| entry(&nodes, "front", &json!({"conf": {"a": {"x": x}}}));
    let none = split(json!([]));
    assert_eq!((none.digest.as_str(), none.components.len()), (crate::release::NO_SPLIT, 0));
    let agent = crate::catalog::Component::parse("front/agent").unwrap();
    assert_eq!(none.unsplit_names[&agent], "front-agent-default");
    let rack = split(json!([one(label("rack", "1"), 1)]));
    assert_eq!(rack.components.iter().collect::<Vec<_>>(), [&agent]);
    assert_eq!(rack, split(json!([one(label("rack", "1"), 2)])));
    for other in [label("rack", "2"), json!(["n1"])] {
        assert_ne!(rack.digest, split(json!([one(other, 1)])).digest);
    }
    assert_eq!(resolved(json!([]), json!({})).releases["bare"].split, None);
}
