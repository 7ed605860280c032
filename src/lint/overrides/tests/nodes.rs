//! Tests warnings about values that `spec.nodes.overrides` sets for some nodes.

use super::*;

/// Returns the warnings about a spec that sets values of the release `front`.
///
/// `entries` are the values in each entry of `spec.nodes.overrides`; `own` are the values for all nodes.
fn of_some_nodes(entries: &[Value], own: &Value) -> Vec<String> {
    let daemons = "service: front\ndescription: An API.\ngroup: openstack\ncredentials: {user: {}}\nreleases:\n  front:\n    components: {front/agent: \
                   DaemonSet}\n    daemonsets: {agent: {component: front/agent, form: conf}}\n    values: {conf: {region: '${spec.region}'}}\n";
    let entries: Vec<Value> = (0..)
        .zip(entries)
        .map(|(index, values)| json!({"name": format!("n{index}"), "nodes": [format!("n{index}")], "releases": {"front": {"values": values}}}))
        .collect();
    let services = json!({"front": {"releases": {"front": {"values": own}}}});
    warnings_with(
        json!({"services": services, "nodes": {"overrides": entries}}),
        &[("values/services/front.yaml", daemons)],
    )
}

#[test]
fn checks_node_values_against_common_values() {
    let at = |index: usize| format!("spec.nodes.overrides[{index}].releases.front.values");
    let own = json!({"conf": {"colour": "red"}});
    let entry = json!({"conf": {"opts": "x", "hosts": ["b"], "nothing": null, "colour": "red", "debug": true}});
    assert_eq!(
        of_some_nodes(&[entry], &own),
        [
            format!(
                "hidden-key {}.conf.opts: is a string where the chart has a map, and hides its keys a, b; write a map",
                at(0)
            ),
            format!(
                "list-replaced {}.conf.hosts: replaces the list of presets/small.yaml (fragments[0]) and drops a, c, because helm merges maps but not lists; repeat the entries that must stay",
                at(0)
            ),
            format!(
                "no-effect {}.conf.colour: changes nothing: spec.services.front.releases.front.values sets the same value; remove this value",
                at(0)
            ),
            format!(
                "null-nothing {}.conf.nothing: removes nothing: neither the chart nor a layer below has this key; correct or remove the path",
                at(0)
            ),
        ]
    );
    let red = json!({"conf": {"colour": "red"}});
    let others = of_some_nodes(&[red.clone(), json!({"conf": {"colour": "blue"}})], &own);
    assert_eq!(others, Vec::<String>::new(), "a value causes no warning if another entry sets a different value");
    let repeated = of_some_nodes(&[red.clone(), json!({"conf": {"debug": true}}), red], &own);
    assert_eq!(repeated.len(), 2, "{repeated:?}");
}
