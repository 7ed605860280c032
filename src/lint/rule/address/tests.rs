use serde_json::json;

use super::*;

#[test]
fn describes_what_is_wrong_with_a_network() {
    for (text, expected) in [
        ("10.0.0.0", "the prefix length is missing; write a network such as 10.244.0.0/16"),
        ("10.0.0.0/33", "the prefix length is invalid (0 to 32 for IPv4, 0 to 128 for IPv6); "),
        ("10.0.0.0/x", "the prefix length is invalid"),
        ("pods", "this is not an IP address; write "),
        ("", "this is not an IP address; "),
    ] {
        let error = check_network(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert_eq!((check_network("10.244.0.0/16"), check_network("fd00::/48")), (Ok(()), Ok(())));
}

#[test]
fn rejects_invalid_networks_and_addresses() {
    let messages = |text: &str| {
        let features = json!({"any": {"nodes": [text]}});
        let found = invalid_texts(features.as_object().unwrap()).into_iter();
        found.map(|finding| format!("{}: {}", finding.field(), finding.text())).collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("10.0.0.0/40", "spec.features.any.nodes[0]: \"10.0.0.0/40\": the prefix length is invalid (0 to 32 for IPv4"),
        (
            "1.1.1.1,999.1.1.1",
            "spec.features.any.nodes[0]: \"999.1.1.1\": this is not an IP address; write one such as",
        ),
        ("10.0/8", "spec.features.any.nodes[0]: \"10.0/8\": this is not an IP address; write a network"),
        ("fd00::/129", "spec.features.any.nodes[0]: \"fd00::/129\": the prefix length is invalid"),
        ("fd00::1::2", "spec.features.any.nodes[0]: \"fd00::1::2\": this is not an IP address; write one such as"),
    ] {
        let found = messages(text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }
    for text in
        ["10.0.0.0/8", "10.0.0.1, fd00::1", "2026.1.0", "52:54:00:12:34:56", "1:1000", "*/5 * * * *", "a/b", "v1.2/3"]
    {
        assert_eq!(messages(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn skips_entries_of_free_form_maps() {
    let catalog = osdpl_core::files::load_catalog(None).unwrap();
    let is_free_form = |field: &str| super::is_free_form(field, &catalog);
    assert!(is_free_form("spec.features.volumes.backends[0].options.firmware"));
    assert!(
        !is_free_form("spec.features.volumes.backends[0].host") && !is_free_form("spec.features.network.dnsServers")
    );
    assert!(is_free_form("spec.features.nothing.of.this"), "a field of an unknown feature counts as free-form");
}

#[test]
fn reports_overlapping_feature_networks_once() {
    let features = json!({"octavia": {"network": {"cidr": "10.10.0.0/16"}}, "network": {"external": [{"cidr": "10.10.3.0/24"}]},
                          "networkPolicies": {"clients": ["10.0.0.0/8"]}});
    let features = features.as_object().unwrap();
    let spec = OpenStackDeploymentSpec { features: features.clone(), ..OpenStackDeploymentSpec::default() };
    assert!(names_networks(&spec) && !names_networks(&OpenStackDeploymentSpec::default()));
    let messages = |written: &Values| -> Vec<_> {
        let found = overlaps(features, written, &ClusterInfo::default()).into_iter();
        found.map(|finding| format!("{} {}: {}", finding.level.as_str(), finding.field(), finding.text())).collect()
    };
    let partial = messages(json!({"octavia": features["octavia"]}).as_object().unwrap());
    assert_eq!((partial.len(), partial[0].starts_with("warning spec.features.")), (1, true), "{partial:?}");
    assert_eq!(
        messages(features),
        [
            "error spec.features.octavia.network.cidr: 10.10.0.0/16 overlaps 10.10.3.0/24 of spec.features.network.external[0].cidr: packets for one would go to the other; choose another range"
        ]
    );
}

#[test]
fn warns_about_overlap_with_cluster_networks() {
    let features = json!({"network": {"tunnelNetwork": "10.96.10.0/24"}});
    let range = Range { description: "Services".into(), is_of_pods: false, cidr: "10.96.0.0/12".into() };
    let cluster_info = ClusterInfo { networks: vec![range], ..ClusterInfo::default() };
    let found = overlaps(features.as_object().unwrap(), &Values::new(), &cluster_info);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].level, found[0].field()), (Level::Warning, "spec.features.network.tunnelNetwork"));
    assert!(found[0].message.starts_with("10.96.10.0/24 overlaps 10.96.0.0/12 of Services, "), "{found:?}");
}

#[test]
fn message_does_not_change_when_a_node_leaves() {
    let range = |node: usize| Range {
        description: format!("the pods of node {node}"),
        is_of_pods: true,
        cidr: format!("10.96.{node}.0/24"),
    };
    let services = Range { description: "Services".into(), is_of_pods: false, cidr: "10.96.0.0/12".into() };
    let features = json!({"network": {"tunnelNetwork": "10.96.0.0/16"}});
    let check = |nodes: std::ops::Range<usize>| {
        let networks = nodes.map(range).chain([services.clone()]).collect();
        let cluster_info = ClusterInfo { networks, ..ClusterInfo::default() };
        let found = overlaps(features.as_object().unwrap(), &Values::new(), &cluster_info);
        (found, cluster_overlap(&cluster_info))
    };
    let (found, of_cluster) = check(0..3);
    assert!(found.len() == 1 && of_cluster.is_some(), "{found:?} {of_cluster:?}");
    assert_eq!(check(1..3), (found, of_cluster));
}

#[test]
fn reports_overlapping_cluster_networks_once() {
    let range = |is_of_pods, cidr: &str| {
        let description = if is_of_pods { "pods" } else { "Services" };
        Range { description: description.into(), is_of_pods, cidr: cidr.into() }
    };
    let message = |networks: Vec<Range>| {
        cluster_overlap(&ClusterInfo { networks, ..ClusterInfo::default() }).map(|finding| finding.text())
    };
    let found = message(vec![range(true, "10.0.0.0/8"), range(false, "10.96.0.0/12"), range(true, "10.96.1.0/24")]);
    assert!(found.unwrap().starts_with("a network of the cluster's pods overlaps 10.96.0.0/12 of Services: "));
    let found = message(vec![range(true, "10.0.0.0/8"), range(false, "10.96.0.0/12")]);
    assert!(found.unwrap().starts_with("10.0.0.0/8 of pods overlaps 10.96.0.0/12 of Services: "));
    let separate = vec![range(true, "10.244.0.0/16"), range(false, "10.96.0.0/12"), range(false, "10.96.0.1/32")];
    assert_eq!(message(separate), None, "an overlap of two Service networks is not reported");
}
