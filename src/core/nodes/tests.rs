use serde_json::{Value, json};

use super::roles::selector_matches;
use super::*;
use crate::api::NodeSelector;

fn catalog() -> Catalog {
    let mut files = crate::testing::files(&[]);
    for (service, form) in [("front", "conf"), ("store", "root")] {
        let path = format!("values/services/{service}.yaml");
        let daemonsets =
            format!("    daemonsets: {{agent: {{form: {form}, component: {service}/agent}}}}\n    components:");
        let text = files[&path].as_written().replacen("    components:", &daemonsets, 1);
        files.insert(path, text.into());
    }
    let roles = "roles:\n  compute: {description: x, labels: {compute: 'on', switch: 'on'}}\n  gateway: {description: x, labels: {gateway: 'on', switch: 'on'}}\n";
    files.insert("values/nodes.yaml".into(), roles.into());
    Catalog::load(&files).unwrap()
}

/// The message for a change that updates the annotation of a node, but no label.
const ANNOTATION: &str = "gets an updated annotation with osdpl's labels";

fn labels(value: &Value) -> Labels {
    serde_json::from_value(value.clone()).unwrap()
}

/// The owner label of the cloud in these tests.
const OWNER: &str = "openstack.cloud";

/// Returns an inventory of nodes. Each node has a name, its labels, and a string that lists the labels that osdpl set
/// for the tests' cloud, in the format of the annotation. The string can continue with the owner label of another cloud
/// and the labels that osdpl set for that cloud.
fn inventory(nodes: &[(&str, Value, &str)]) -> Inventory {
    let node = |(name, all, ours): &(&str, Value, &str)| {
        ((*name).to_owned(), Node::new(Some(name), Some(&labels(all)), Some(&format!("{OWNER},{ours}"))))
    };
    nodes.iter().map(node).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn inventory_of_roles(roles: Value, nodes: &[(&str, Value, &str)]) -> NodeInventory {
    inventory_of(json!({ "roles": roles }), nodes)
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn inventory_of(spec: Value, nodes: &[(&str, Value, &str)]) -> NodeInventory {
    let spec = json!({"openstackRelease": "2026.1", "nodes": spec});
    build_inventory(&serde_json::from_value(spec).unwrap(), &catalog(), &inventory(nodes), OWNER)
}

fn changes(inventory: &NodeInventory) -> Vec<String> {
    inventory.changes.iter().map(|(name, change)| format!("{name} {change}")).collect()
}

#[test]
fn nodes_get_role_labels_and_lose_only_ours() {
    let both = json!({"compute": {"names": ["a"]}, "gateway": {"names": ["a"]}});
    let all = json!({"compute": "on", "switch": "on"});
    let cases = [
        (both.clone(), json!({}), "", "a gets compute=on, gateway=on, switch=on"),
        (both, all.clone(), "compute=on,switch=on", "a gets gateway=on"),
        (json!({"compute": {"names": ["a"]}}), all.clone(), "compute=on,switch=on", ""),
        // If someone else has set the label to the desired value, the operator takes the label over: it adds the label
        // to the annotation that lists osdpl's labels.
        (json!({"compute": {"names": ["a"]}}), all.clone(), "", "a gets an updated annotation with osdpl's labels"),
        (json!({}), all.clone(), "", ""),
        (json!({}), all.clone(), "switch=on", "a loses switch=on"),
        (json!({}), json!({"compute": "on"}), "switch=on", "a gets an updated annotation with osdpl's labels"),
        (json!({"gateway": {"names": ["a"]}}), all, "compute=on,switch=on", "a gets gateway=on, loses compute=on"),
        // Someone removed a label that the operator had set. The operator sets the label again.
        (json!({"compute": {"names": ["a"]}}), json!({"switch": "on"}), "compute=on,switch=on", "a gets compute=on"),
        // The spec changes the value of a label that the operator had set.
        (json!({"own": {"names": ["a"], "labels": {"x": "2"}}}), json!({"x": "1"}), "x=1", "a gets x=2, loses x=1"),
    ];
    for (roles, has, ours, expected) in cases {
        let inventory = inventory_of_roles(roles.clone(), &[("a", has.clone(), ours)]);
        assert_eq!(changes(&inventory).join("; "), expected, "{roles} {has} {ours}");
        assert!(inventory.findings.is_empty(), "{:?}", inventory.findings);
    }
}

#[test]
fn labels_of_another_cloud_stay() {
    let all = json!({"compute": "on", "switch": "on"});
    let gateway = json!({"gateway": {"names": ["a"]}});
    let updated = format!("a {ANNOTATION}");
    let cases = [
        (json!({}), all.clone(), "b.cloud,compute=on,switch=on", ""),
        (gateway.clone(), all.clone(), "b.cloud,compute=on,switch=on", "a gets gateway=on"),
        (json!({"compute": {"names": ["a"]}}), all.clone(), "b.cloud,compute=on,switch=on", &updated),
        // The annotation lists the label `switch` for both clouds, so the node keeps the label although this cloud no
        // longer needs it.
        (json!({}), all.clone(), "switch=on,b.cloud,compute=on,switch=on", &updated),
        (json!({}), all.clone(), "compute=on,b.cloud,switch=on", "a loses compute=on"),
    ];
    for (roles, has, listed, expected) in cases {
        let inventory = inventory_of_roles(roles.clone(), &[("a", has, listed)]);
        assert_eq!(changes(&inventory).join("; "), expected, "{roles} {listed}");
        assert!(inventory.findings.is_empty(), "{:?}", inventory.findings);
    }
    let other = json!({"own": {"names": ["a"], "labels": {"switch": "off"}}});
    for listed in ["b.cloud,switch=on", "switch=on,b.cloud,switch=on"] {
        let inventory = inventory_of_roles(other.clone(), &[("a", all.clone(), listed)]);
        assert!(inventory.changes.values().all(|change| !change.changes_labels()), "{listed}");
        assert!(inventory.findings[0].message.starts_with("another writer or another cloud set label"), "{listed}");
    }
    let nodes = inventory(&[("a", all, "b.cloud,compute=on,switch=on")]);
    assert!(labels_to_remove(&nodes, OWNER).is_empty());
    assert_eq!(labels_to_remove(&nodes, "b.cloud")["a"].losses, ["compute=on", "switch=on"]);
}

#[test]
fn labels_without_a_cloud_belong_to_the_present_cloud() {
    let all = labels(&json!({"compute": "on", "switch": "on"}));
    let nodes: Inventory = [("a".to_owned(), Node::new(None, Some(&all), Some("compute=on,switch=on")))].into();
    let spec = |roles: Value| {
        serde_json::from_value(json!({"openstackRelease": "2026.1", "nodes": {"roles": roles}})).unwrap()
    };
    let kept = build_inventory(&spec(json!({"compute": {"names": ["a"]}})), &catalog(), &nodes, OWNER);
    assert_eq!(changes(&kept), [format!("a {ANNOTATION}")], "a change adds the missing cloud to the annotation");
    assert_eq!(
        changes(&build_inventory(&spec(json!({})), &catalog(), &nodes, OWNER)),
        ["a loses compute=on, switch=on"]
    );
}

#[test]
fn the_annotation_lists_labels_by_cloud() {
    for text in ["", "a.cloud,compute=on,switch=on", "a.cloud,compute=on,b.cloud,example.org/rack=1,switch="] {
        let node = Node::new(None, None, Some(text));
        assert_eq!(Node::annotation(&node.listed), text);
    }
    assert_eq!(Node::new(None, None, Some("compute=on")).listed[""], labels(&json!({"compute": "on"})));
}

#[test]
fn a_role_without_nodes_removes_no_label() {
    let all = json!({"compute": "on", "switch": "on", "rack": "1"});
    let ours = "compute=on,switch=on";
    let keeps = ". Until then, osdpl does not remove the role's labels from a; to have osdpl remove them, remove role compute from the spec";
    for (role, warning) in [
        (
            json!({"selector": {"matchLabels": {"rack": "2"}}}),
            "its selector matches no node; correct the selector, or label the nodes that should have the role",
        ),
        (
            json!({"names": ["b"]}),
            "there is no node \"b\"; correct the name, or add the node: it gets its labels when it joins",
        ),
    ] {
        let inventory = inventory_of_roles(json!({ "compute": role }), &[("a", all.clone(), ours)]);
        assert_eq!(changes(&inventory), [""; 0], "{role}");
        let findings: Vec<_> = inventory.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings, [format!("spec.nodes.roles.compute: {warning}{keeps}")]);
    }
    let partial = json!({"selector": {"matchLabels": {"rack": "2"}}, "names": ["b"]});
    let inventory = inventory_of_roles(json!({ "compute": partial }), &[("a", all.clone(), ours)]);
    let findings: Vec<_> = inventory.findings.iter().map(ToString::to_string).collect();
    let about_selector =
        "its selector matches no node; correct the selector, or label the nodes that should have the role";
    let about_names = "there is no node \"b\"; correct the name, or add the node: it gets its labels when it joins";
    let expected = [format!("{about_selector}{keeps}"), about_names.to_owned()];
    assert_eq!(findings, expected.map(|message| format!("spec.nodes.roles.compute: {message}")));
    let inventory =
        inventory_of_roles(json!({ "compute": partial }), &[("a", all.clone(), ours), ("b", json!({}), "")]);
    assert_eq!(changes(&inventory), ["b gets compute=on, switch=on"], "the selector matches no node");
    let inventory = inventory_of_roles(json!({"compute": {"names": ["b"]}}), &[("a", all, ours), ("b", json!({}), "")]);
    assert_eq!(changes(&inventory), ["a loses compute=on, switch=on", "b gets compute=on, switch=on"]);
}

#[test]
fn adds_labels_without_removing_others() {
    let added = |roles: Value, has: Value, ours: &str| {
        let change = inventory_of_roles(roles, &[("a", has, ours)]).changes.remove("a").unwrap();
        change.without_losses().map(|change| (change.to_string(), change.labels))
    };
    let gateway = json!({"gateway": {"names": ["a"]}});
    let (text, all) = added(gateway, json!({"compute": "on", "switch": "on"}), "compute=on,switch=on").unwrap();
    assert_eq!(text, "gets gateway=on");
    assert_eq!(all, labels(&json!({"compute": "on", "gateway": "on", "switch": "on"})));
    assert_eq!(added(json!({}), json!({"compute": "on"}), "compute=on"), None);
    let own = json!({"own": {"names": ["a"], "labels": {"x": "2", "y": "1"}}});
    let (text, all) = added(own, json!({"x": "1"}), "x=1").unwrap();
    assert_eq!((text.as_str(), all), ("gets y=1", labels(&json!({"x": "1", "y": "1"}))));
}

#[test]
fn keeps_foreign_and_conflicting_labels_with_one_warning() {
    let own = |value: &str| json!({"selector": {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}, "labels": {"x": value}});
    let rack = |label: &str, value: &str| json!({"rack": "1", label: value});
    let two = json!({"one": own("1"), "two": own("2")});
    let same = json!({"one": own("1"), "two": own("1")});
    let foreign = "spec.nodes.roles.one: another writer or another cloud set label x to \"9\" on a, b, so osdpl keeps that value; to have osdpl set it to \"1\", make sure that no pod needs the old value, then remove the label: kubectl label node <node> x-";
    let conflict = "spec.nodes.roles: roles set label x to different values (one to \"1\", two to \"2\") on a: osdpl sets no new value; give each node only one of these roles, or set the same value in all of them";
    let cases = [
        (
            same,
            vec![("a", rack("x", "9"), ""), ("b", rack("x", "9"), "x=1")],
            "b gets an updated annotation with osdpl's labels",
            foreign,
        ),
        (two.clone(), vec![("a", rack("y", "1"), "")], "", conflict),
        (two.clone(), vec![("a", rack("x", "2"), "x=2")], "", conflict),
        (two, vec![("a", rack("x", "3"), "x=3")], "a loses x=3", conflict),
    ];
    for (roles, nodes, expected, finding) in cases {
        let inventory = inventory_of_roles(roles, &nodes);
        assert_eq!(changes(&inventory).join("; "), expected, "{nodes:?}");
        let findings: Vec<_> = inventory.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings, [finding]);
    }
}

#[test]
fn warns_about_names_and_selectors_without_nodes() {
    let nodes = [("node-1", json!({"rack": "1"}), ""), ("node-2", json!({}), "")];
    let cases = [
        (
            json!({"names": ["node-11"]}),
            "there is no node \"node-11\" (did you mean \"node-1\"?); correct the name, or add the node: it gets its labels when it joins",
        ),
        (
            json!({"names": ["x", "node-1", "y"]}),
            "there are no nodes x, y; correct the names, or add the nodes: they get their labels when they join",
        ),
        (
            json!({"selector": {"matchLabels": {"rack": "2"}}}),
            "its selector matches no node; correct the selector, or label the nodes that should have the role",
        ),
    ];
    for (role, expected) in cases {
        let inventory = inventory_of_roles(json!({ "compute": role }), &nodes);
        let findings: Vec<_> = inventory.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings, [format!("spec.nodes.roles.compute: {expected}")]);
    }
    let all: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
    let nodes: Vec<_> = all.iter().map(|name| (name.as_str(), json!({}), "")).collect();
    let role = inventory_of_roles(json!({"compute": {"names": all}}), &nodes).roles.remove("compute").unwrap();
    assert_eq!((role.count, role.nodes.len(), role.labels.join(",").as_str()), (30, 20, "compute=on,switch=on"));
}

#[test]
fn selectors_work_as_in_kubernetes() {
    let one = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    let cases = [
        (json!({"matchLabels": {"a": "1", "b": "2"}}), json!({"a": "1"}), false),
        (json!({"matchLabels": {"a": "1"}}), json!({"a": "1", "b": "2"}), true),
        (one("In", json!(["1", "2"])), json!({"a": "2"}), true),
        (one("In", json!(["1"])), json!({}), false),
        (one("NotIn", json!(["1"])), json!({}), true),
        (one("NotIn", json!(["1"])), json!({"a": "1"}), false),
        (one("Exists", json!([])), json!({"a": ""}), true),
        (one("DoesNotExist", json!([])), json!({"a": ""}), false),
    ];
    for (selector, has, expected) in cases {
        let parsed: NodeSelector = serde_json::from_value(selector.clone()).unwrap();
        assert_eq!(selector_matches(&parsed, &labels(&has)), expected, "{selector} {has}");
    }
}

#[test]
fn several_names_the_first_few() {
    assert_eq!(format_names([], 0), "no node");
    assert_eq!(format_names(["a", "b"], 2), "a, b");
    assert_eq!(format_names(["a", "b", "c", "d", "e", "f"], 60), "a, b, c, d, e and 55 more");
}

#[test]
fn warns_about_overrides_without_nodes_or_overlapping() {
    let rack = json!({"selector": {"matchLabels": {"rack": "1"}}});
    let compute = json!({"selector": {"matchLabels": {"compute": "on"}}});
    let named = |name: &str| json!({"nodes": [name]});
    let lost = |lost: u8, winner: u8| {
        format!(
            "spec.nodes.overrides[{lost}]: the values for front do not apply to a, because spec.nodes.overrides[{winner}] also selects these nodes: chart front gives a node the values of only one entry; repeat the values in that entry, or select different nodes"
        )
    };
    let none = "spec.nodes.overrides[1]: this entry and spec.nodes.overrides[0] both select a: chart store runs no pod of store on a node that two entries select; select different nodes";
    let cases = [
        ("front", &compute, &rack, Some(lost(0, 1))),
        ("front", &compute, &named("a"), Some(lost(0, 1))),
        ("front", &named("a"), &compute, Some(lost(1, 0))),
        ("front", &named("a"), &named("a"), None),
        ("front", &rack, &named("b"), None),
        ("store", &rack, &compute, Some(none.to_owned())),
        ("store", &rack, &rack, None),
        ("store", &rack, &named("c"), Some("spec.nodes.overrides[1]: no node has the name c in its label kubernetes.io/hostname; correct the name, or remove it from the entry".to_owned())),
        ("front", &rack, &json!({"selector": {"matchLabels": {"rack": "3"}}}), Some("spec.nodes.overrides[1]: no node has the label rack=3; label the nodes that should get these values, for example with a role (spec.nodes.roles)".to_owned())),
    ];
    for (release, one, two, expected) in cases {
        let entry = |nodes: &Value| {
            let mut entry = nodes.clone();
            (entry["name"], entry["releases"]) = (json!("x"), json!({release: {"values": {"conf": {}}}}));
            entry
        };
        // The role `compute` is about to set the label `compute=on` on node `a`. So an entry of `spec.nodes.overrides`
        // that selects this label must match the node now, before the node has the label.
        let spec = json!({"roles": {"compute": {"names": ["a"]}}, "overrides": [entry(one), entry(two)]});
        let inventory =
            inventory_of(spec, &[("a", json!({"rack": "1"}), ""), ("b", json!({"kubernetes.io/hostname": "b"}), "")]);
        let messages: Vec<_> = inventory.findings.iter().map(ToString::to_string).collect();
        assert_eq!(messages, expected.into_iter().collect::<Vec<_>>(), "{release} {one} {two}");
    }
}
