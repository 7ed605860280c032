//! Checks what `osdpl validate` reports if a spec does not fit the cluster, for example because the cluster has too few
//! nodes.

use std::sync::LazyLock;

use osdpl_core::catalog::Catalog;
use osdpl_core::observed::{Class, ClusterInfo, NodeCount, Range};
use osdpl_lint::validate::Schemas;

use super::{checked_at, resource};

/// Returns the findings of the rules that compare a spec with the cluster. Each finding begins with its severity and
/// field.
fn findings_of(input: &str, cluster_info: &ClusterInfo) -> Vec<String> {
    static KNOWN: LazyLock<(Catalog, Schemas)> = LazyLock::new(|| {
        let catalog = osdpl_core::files::load_catalog(None).unwrap();
        let schemas = Schemas::new(&catalog).unwrap();
        (catalog, schemas)
    });
    let (catalog, schemas) = &*KNOWN;
    let report = checked_at(&[("cloud.yaml", &resource(input))], catalog, schemas, cluster_info);
    let found =
        report.findings.iter().filter(|found| ["controllers", "storage-class", "address"].contains(&found.rule));
    found.map(|found| format!("{} {}: {}", found.level.as_str(), found.field(), found.text())).collect()
}

fn nodes(counts: &[(&str, usize)]) -> ClusterInfo {
    let counts = counts.iter().map(|(key, count)| (((*key).to_owned(), "enabled".to_owned()), *count));
    ClusterInfo { nodes: Some(NodeCount::Labelled(counts.collect())), ..ClusterInfo::default() }
}

fn class(name: &str, provisioner: &str, is_default: bool) -> Class {
    Class { name: name.into(), provisioner: provisioner.into(), is_default }
}

fn classes(classes: &[Class]) -> ClusterInfo {
    ClusterInfo { classes: Some(classes.to_vec()), ..ClusterInfo::default() }
}

const FEWER: &str =
    "label more nodes (spec.nodes.roles), or run fewer servers: choose a smaller size, or remove the preset ha";

#[test]
fn counts_servers_against_nodes() {
    let found = findings_of("presets: [compute, ha]", &nodes(&[("openstack-control-plane", 2)]));
    assert_eq!(
        found[0],
        format!(
            "warning spec.presets: 3 RabbitMQ servers (rabbitmq), 3 database servers (mariadb) are configured, but 2 nodes carry openstack-control-plane=enabled: each \
             server needs its own node, so some servers stay pending; {FEWER}"
        )
    );
    let (before, after) = found[1].split_once(" more are configured").unwrap();
    assert!(before.starts_with("warning spec.presets: 3 pods of ") && before.matches(" of ").count() == 6, "{before}");
    assert_eq!(
        after,
        format!(
            ", but 2 nodes carry openstack-control-plane=enabled: servers on one node fail together, so additional servers do not improve availability; {FEWER}"
        )
    );
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(findings_of("presets: [compute, ha]", &nodes(&[("openstack-control-plane", 3)])), Vec::<String>::new());
    let unknown = findings_of("presets: [compute, ha]", &ClusterInfo::default());
    assert_eq!(unknown, Vec::<String>::new(), "there must be no finding if the nodes are not known");
    let named = "presets: [compute, ha]\nnodes: {roles: {control-plane: {names: [n1]}}}";
    let found = findings_of(named, &ClusterInfo::default());
    let of_spec = "are configured, but spec.nodes.roles names 1 node for openstack-control-plane=enabled: each server needs its own node";
    assert!(found[0].contains(of_spec), "{found:?}");
    let three = nodes(&[("openstack-control-plane", 3)]);
    assert_eq!(
        findings_of(named, &three),
        Vec::<String>::new(),
        "the number of nodes in the cluster must take precedence over the names in the spec"
    );
    for enough in ["{names: [n1, n2, n3]}", "{names: [n1], selector: {matchLabels: {a: b}}}"] {
        let spec = format!("presets: [compute, ha]\nnodes: {{roles: {{control-plane: {enough}}}}}");
        assert_eq!(findings_of(&spec, &ClusterInfo::default()), Vec::<String>::new(), "{enough}");
    }
}

#[test]
fn distinguishes_one_node_from_no_majority() {
    let own = "services: {mariadb: {releases: {mariadb: {values: {pod: {replicas: {server: 3}}}}}}}";
    let at = "spec.services.mariadb.releases.mariadb.values.pod.replicas.server";
    assert_eq!(
        findings_of(own, &nodes(&[("openstack-control-plane", 1)])),
        [format!(
            "warning {at}: 3 database servers (mariadb) are configured, but 1 node carries openstack-control-plane=enabled: some servers share a node, and if this node fails, \
             the majority may be lost; {FEWER}"
        )]
    );
    assert_eq!(
        findings_of(own, &nodes(&[("openstack-control-plane", 0)])),
        [
            "warning spec.nodes.roles: 3 database servers (mariadb), RabbitMQ servers (rabbitmq) are configured, but no node carries openstack-control-plane=enabled: none of \
             the servers starts; label nodes (spec.nodes.roles)"
        ]
    );
    let one = findings_of("presets: [compute]", &nodes(&[("openstack-control-plane", 0)]));
    assert!(
        one[0].starts_with("warning spec.nodes.roles: RabbitMQ servers (rabbitmq), database servers (mariadb) are"),
        "there must be a finding if no node can run a server, even if each service has only one: {one:?}"
    );
    assert_eq!(findings_of("presets: [compute]", &nodes(&[("openstack-control-plane", 1)])), Vec::<String>::new());
    let on_other_nodes = "services: {mariadb: {releases: {mariadb: {values: {labels: {server: {node_selector_key: db}}, pod: {replicas: {server: 3}}}}}}}";
    let found = findings_of(on_other_nodes, &nodes(&[("openstack-control-plane", 1), ("db", 3)]));
    assert_eq!(
        found,
        Vec::<String>::new(),
        "there must be no finding: the values select the nodes with the label db, and three nodes have it"
    );
    let ovn = "presets: [compute, ha]\nfeatures: {network: {backend: ovn}}";
    let found = findings_of(ovn, &nodes(&[("openstack-control-plane", 3), ("openstack-network-node", 1)]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("3 northbound databases of OVN (ovn), 3 southbound databases of OVN (ovn) are configured, but 1 node carries openstack-network-node=enabled"),
        "{found:?}"
    );
}

#[test]
fn unknown_class_lists_known_ones() {
    let wait = "so volume claims, and the pods that mount them, wait forever";
    let known = classes(&[class("fast", "example.com/disks", false), class("generals", "example.com/disks", true)]);
    assert_eq!(
        findings_of("region: one", &known),
        [format!(
            "warning spec.storageClass: there is no StorageClass \"general\" (did you mean \"generals\"?), {wait}; the cluster has only \
             fast, generals; name an existing class, or create the missing one"
        )]
    );
    let none = classes(&[]);
    assert_eq!(
        findings_of("storageClass: fast", &none),
        [format!(
            "warning spec.storageClass: there is no StorageClass \"fast\", {wait}; the cluster has none; create one"
        )]
    );
    assert_eq!(
        findings_of("storageClass: default", &known),
        Vec::<String>::new(),
        "there must be no finding: `default` selects the default class, and the cluster has one"
    );
    let without_default = classes(&[class("fast", "example.com/disks", false)]);
    assert_eq!(
        findings_of("storageClass: default", &without_default).len(),
        1,
        "there must be a finding if the cluster has no default class"
    );
    assert_eq!(
        findings_of("features: {storage: {backend: local}}", &none),
        Vec::<String>::new(),
        "there must be no finding, because a cloud on local storage creates no claim"
    );
    let claimless = "presets: []\nservices: {memcached: {enabled: true}}";
    assert_eq!(
        findings_of(claimless, &none),
        Vec::<String>::new(),
        "there must be no finding, because memcached creates no claim"
    );
    let own = "storageClass: fast\nservices: {mariadb: {releases: {mariadb: {values: {volume: {class_name: slow}}}}}}";
    let found = findings_of(own, &known);
    assert_eq!(found.len(), 1, "{found:?}");
    let at =
        "warning spec.services.mariadb.releases.mariadb.values.volume.class_name: there is no StorageClass \"slow\"";
    assert!(found[0].starts_with(at), "{found:?}");
}

#[test]
fn shared_claims_need_a_shareable_class() {
    let disks = classes(&[
        class("general", "rook-ceph.rbd.csi.ceph.com", true),
        class("shared", "rook-ceph.cephfs.csi.ceph.com", false),
    ]);
    let found = findings_of("services: {tacker: {enabled: true}, gnocchi: {enabled: true}}", &disks);
    let expected = |release: &str, path: &str| {
        format!(
            "warning spec.services.{release}: pods of {release} on several nodes mount one volume (ReadWriteMany), and StorageClass \"general\" \
             (rook-ceph.rbd.csi.ceph.com) creates volumes that only one node can mount: the claim, and the pods, wait forever; set a class of a shared file system (CephFS, NFS) in \
             services.{release}.releases.{release}.values.{path}"
        )
    };
    assert_eq!(
        found,
        [
            expected("gnocchi", "extraObjects.measures.spec.storageClassName"),
            expected("tacker", "storage.storageClass")
        ]
    );
    let shared = "services: {tacker: {enabled: true, releases: {tacker: {values: {storage: {storageClass: shared}}}}}}";
    assert_eq!(findings_of(shared, &disks), Vec::<String>::new());
    let images = |mode: &str| {
        let values = format!("{{storage: pvc, volume: {{accessModes: [{mode}]}}, pod: {{replicas: {{api: 3}}}}}}");
        format!("services: {{glance: {{releases: {{glance: {{values: {values}}}}}}}}}")
    };
    let found = findings_of(&images("ReadWriteMany"), &disks);
    assert_eq!(found.len(), 1, "{found:?}");
    let glance = "warning spec.services.glance: pods of glance on several nodes mount one volume (ReadWriteMany), and StorageClass \"general\" ";
    assert!(found[0].starts_with(glance), "{found:?}");
    assert_eq!(
        findings_of(&images("ReadWriteOnce"), &disks),
        Vec::<String>::new(),
        "there must be no finding from this rule, because another rule reports ReadWriteOnce claims"
    );
}

#[test]
fn reports_networks_that_overlap_the_cluster() {
    let range = |description: &str, is_of_pods, cidr: &str| Range {
        description: description.into(),
        is_of_pods,
        cidr: cidr.into(),
    };
    let services = range("Services (ServiceCIDR kubernetes)", false, "10.96.0.0/12");
    let networks = vec![range("the pods of node n1", true, "10.244.1.0/24"), services];
    let cluster_info = ClusterInfo { networks, ..ClusterInfo::default() };
    let input = "features: {network: {backend: ovs, tunnelNetwork: 10.96.10.0/24}, networkPolicies: {enabled: true, clients: [10.244.0.0/16]}}";
    assert_eq!(
        findings_of(input, &cluster_info),
        [
            "warning spec.features.network.tunnelNetwork: 10.96.10.0/24 overlaps 10.96.0.0/12 of Services (ServiceCIDR kubernetes), so pods of the cloud can reach only one of \
             the two networks; choose another range"
        ]
    );
    assert_eq!(
        findings_of("features: {network: {backend: ovs, tunnelNetwork: 172.16.0.0/24}}", &cluster_info),
        Vec::<String>::new()
    );
}
