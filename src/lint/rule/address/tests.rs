use serde_json::json;

use super::*;

#[test]
fn what_is_no_network_is_told_what_it_lacks_and_what_is_wanted() {
    for (text, lacks) in [
        ("10.0.0.0", "the prefix length is missing; wanted is a network, such as 10.244.0.0/16"),
        ("10.0.0.0/33", "the prefix length is none (IPv4 has 0 to 32, IPv6 0 to 128); "),
        ("10.0.0.0/x", "the prefix length is none"),
        ("pods", "this is no address; wanted is "),
        ("", "this is no address; "),
    ] {
        let said = check_network(text).unwrap_err();
        assert!(said.starts_with(lacks), "{text}: {said}");
    }
    assert_eq!((check_network("10.244.0.0/16"), check_network("fd00::/48")), (Ok(()), Ok(())));
}

#[test]
fn what_looks_like_a_network_or_an_address_is_one() {
    let told = |text: &str| {
        let features = json!({"any": {"nodes": [text]}});
        let found = unreadable(features.as_object().unwrap()).into_iter();
        found.map(|judged| format!("{}: {}", judged.field, judged.message)).collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("10.0.0.0/40", "spec.features.any.nodes[0]: \"10.0.0.0/40\": the prefix length is none (IPv4 has 0 to 32"),
        ("1.1.1.1,999.1.1.1", "spec.features.any.nodes[0]: \"999.1.1.1\": this is no address; wanted is one such as"),
        ("10.0/8", "spec.features.any.nodes[0]: \"10.0/8\": this is no address; wanted is a network"),
        ("fd00::/129", "spec.features.any.nodes[0]: \"fd00::/129\": the prefix length is none"),
        ("fd00::1::2", "spec.features.any.nodes[0]: \"fd00::1::2\": this is no address; wanted is one such as"),
    ] {
        let said = told(text);
        assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
    }
    for text in
        ["10.0.0.0/8", "10.0.0.1, fd00::1", "2026.1.0", "52:54:00:12:34:56", "1:1000", "*/5 * * * *", "a/b", "v1.2/3"]
    {
        assert_eq!(told(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn an_entry_of_a_map_that_takes_any_text_need_not_be_an_address() {
    let catalog = osdpl_core::files::catalog(None).unwrap();
    let at = |field: &str| is_free(field, &catalog);
    assert!(at("spec.features.volumes.backends[0].options.firmware"));
    assert!(!at("spec.features.volumes.backends[0].host") && !at("spec.features.network.dnsServers"));
    assert!(at("spec.features.nothing.of.this"), "it is told that there is no such feature");
}

#[test]
fn two_networks_of_the_features_that_overlap_are_told_once() {
    let features = json!({"octavia": {"network": {"cidr": "10.10.0.0/16"}}, "network": {"external": [{"cidr": "10.10.3.0/24"}]},
                          "networkPolicies": {"clients": ["10.0.0.0/8"]}});
    let features = features.as_object().unwrap();
    let spec = OpenStackDeploymentSpec { features: features.clone(), ..OpenStackDeploymentSpec::default() };
    assert!(names_networks(&spec) && !names_networks(&OpenStackDeploymentSpec::default()));
    let said = |written: &Values| -> Vec<_> {
        let found = judged(features, written, &Site::default()).into_iter();
        found.map(|judged| format!("{} {}: {}", judged.level.word(), judged.field, judged.message)).collect()
    };
    let brought = said(json!({"octavia": features["octavia"]}).as_object().unwrap());
    assert_eq!((brought.len(), brought[0].starts_with("warning spec.features.")), (1, true), "{brought:?}");
    assert_eq!(
        said(features),
        [
            "error spec.features.octavia.network.cidr: 10.10.0.0/16 overlaps 10.10.3.0/24 of spec.features.network.external[0].cidr: packets for one would go to the other; choose another range"
        ]
    );
}

#[test]
fn a_network_of_the_clusters_own_is_warned_of() {
    let features = json!({"network": {"tunnelNetwork": "10.96.10.0/24"}});
    let range = Range { what: "Services".into(), is_of_pods: false, cidr: "10.96.0.0/12".into() };
    let site = Site { networks: vec![range], ..Site::default() };
    let found = judged(features.as_object().unwrap(), &Values::new(), &site);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].level, found[0].field.as_str()), (Level::Warning, "spec.features.network.tunnelNetwork"));
    assert!(found[0].message.starts_with("10.96.10.0/24 overlaps 10.96.0.0/12 of Services: "), "{found:?}");
}

#[test]
fn a_node_that_leaves_changes_no_word_of_what_is_said_of_the_networks_of_pods() {
    let range = |node: usize| Range {
        what: format!("the pods of node {node}"),
        is_of_pods: true,
        cidr: format!("10.96.{node}.0/24"),
    };
    let services = Range { what: "Services".into(), is_of_pods: false, cidr: "10.96.0.0/12".into() };
    let features = json!({"network": {"tunnelNetwork": "10.96.0.0/16"}});
    let said = |nodes: std::ops::Range<usize>| {
        let networks = nodes.map(range).chain([services.clone()]).collect();
        let site = Site { networks, ..Site::default() };
        let told = judged(features.as_object().unwrap(), &Values::new(), &site);
        (told, of_cluster(&site))
    };
    let (told, of_cluster) = said(0..3);
    assert!(told.len() == 1 && of_cluster.is_some(), "{told:?} {of_cluster:?}");
    assert_eq!(said(1..3), (told, of_cluster));
}

#[test]
fn pods_and_services_of_the_cluster_that_share_addresses_are_told_once() {
    let range = |is_of_pods, cidr: &str| {
        let what = if is_of_pods { "pods" } else { "Services" };
        Range { what: what.into(), is_of_pods, cidr: cidr.into() }
    };
    let said = |networks: Vec<Range>| of_cluster(&Site { networks, ..Site::default() }).map(|told| told.message);
    let told = said(vec![range(true, "10.0.0.0/8"), range(false, "10.96.0.0/12"), range(true, "10.96.1.0/24")]);
    assert!(told.unwrap().starts_with("a network of the cluster's pods overlaps 10.96.0.0/12 of Services: "));
    let told = said(vec![range(true, "10.0.0.0/8"), range(false, "10.96.0.0/12")]);
    assert!(told.unwrap().starts_with("10.0.0.0/8 of pods overlaps 10.96.0.0/12 of Services: "));
    let apart = vec![range(true, "10.244.0.0/16"), range(false, "10.96.0.0/12"), range(false, "10.96.0.1/32")];
    assert_eq!(said(apart), None, "and two of Services may");
}
