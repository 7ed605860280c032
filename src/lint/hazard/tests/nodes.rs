//! Values for some nodes alone.

use super::*;

/// What is said of values for some nodes, beside these of the service's own.
fn of_some_nodes(entries: &[Value], own: &Value) -> Vec<String> {
    let daemons = "service: front\ndescription: An API.\ngroup: openstack\ncredentials: {user: {}}\nreleases:\n  front:\n    components: {front/agent: \
                   DaemonSet}\n    daemonsets: {agent: {component: front/agent, form: conf}}\n    values: {conf: {region: '${spec.region}'}}\n";
    let entries: Vec<Value> = (0..)
        .zip(entries)
        .map(|(at, values)| json!({"name": format!("n{at}"), "nodes": [format!("n{at}")], "releases": {"front": {"values": values}}}))
        .collect();
    let services = json!({"front": {"releases": {"front": {"values": own}}}});
    told_with(
        json!({"services": services, "nodes": {"overrides": entries}}),
        &[("values/services/front.yaml", daemons)],
    )
}

#[test]
fn values_for_some_nodes_are_judged_over_all_that_holds_on_every_node() {
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
                "list-replaced {}.conf.hosts: replaces the list of presets/small.yaml (fragments[0]), because helm merges maps and never lists: lost is a, c; repeat here what shall stay",
                at(0)
            ),
            format!(
                "no-effect {}.conf.colour: changes nothing: spec.services.front.releases.front.values says the same; take it out",
                at(0)
            ),
            format!(
                "null-nothing {}.conf.nothing: removes nothing: neither the chart nor a layer below has this key; correct the path, or take it out",
                at(0)
            ),
        ]
    );
    let red = json!({"conf": {"colour": "red"}});
    let others = of_some_nodes(&[red.clone(), json!({"conf": {"colour": "blue"}})], &own);
    assert_eq!(others, Vec::<String>::new(), "where both fit a node, one alone holds");
    let alike = of_some_nodes(&[red.clone(), json!({"conf": {"debug": true}}), red], &own);
    assert_eq!(alike.len(), 2, "{alike:?}");
}
