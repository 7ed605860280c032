use super::*;

const KEY: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";

fn rook() -> Rook {
    let pools = json!({"images": {"replicas": 2, "deviceClass": "ssd", "maxSize": "10Ti"}});
    Rook::of(&json!({"mode": "rook", "rook": {"namespace": "deep", "pools": pools}})).unwrap()
}

fn spec(releases: &[&str], kind: &str, name: &str) -> Option<Value> {
    let manifests = rook().manifests(&consumers(releases.iter().copied()));
    manifests.into_iter().find(|manifest| manifest.kind == kind && manifest.name == name).map(|manifest| manifest.spec)
}

#[test]
fn pools_are_as_the_feature_says_and_safe_where_it_says_nothing() {
    let all = ["glance", "cinder", "nova", "keystone"];
    let images = json!({"failureDomain": "host", "replicated": {"size": 2}, "deviceClass": "ssd", "quotas": {"maxSize": "10Ti"}});
    assert_eq!(spec(&all, "CephBlockPool", "images"), Some(images));
    let volumes = json!({"failureDomain": "host", "replicated": {"size": 3}});
    assert_eq!(spec(&all, "CephBlockPool", "volumes"), Some(volumes));
    assert_eq!(spec(&["glance"], "CephBlockPool", "volumes"), None, "nobody wants it");
    assert_eq!(Rook::of(&json!({"mode": "external"})), None);
}

#[test]
fn every_user_may_do_what_its_services_need_and_no_more() {
    let all = ["glance", "cinder", "nova", "libvirt"];
    let may =
        |releases: &[&str], user: &str| spec(releases, "CephClient", user).map(|spec| spec["caps"]["osd"].clone());
    assert_eq!(may(&all, "glance"), Some("profile rbd pool=images".into()));
    let cinder = "profile rbd pool=volumes, profile rbd pool=vms, profile rbd-read-only pool=images";
    assert_eq!(may(&all, "cinder"), Some(cinder.into()));
    assert_eq!(may(&all, "cinderbackup"), Some("profile rbd pool=backups".into()));
    assert_eq!(may(&["libvirt"], "cinder"), Some("profile rbd pool=vms".into()));
    assert_eq!(may(&["libvirt"], "glance"), None);
    let mgr = spec(&all, "CephClient", "cinder").unwrap()["caps"]["mgr"].clone();
    assert_eq!(mgr, "profile rbd pool=volumes, profile rbd pool=vms");
}

/// What Rook's objects say, with one of them (or a key in it) put in another's place.
fn read(change: Option<(&str, Option<(&str, &str)>)>) -> Result<Ceph, Unready> {
    rook().read(&consumers(["glance", "nova"].into_iter()), |name| {
        let (key, value) = match name {
            ENDPOINTS => ("data", "b=10.0.0.2:6789,a=[fd00::1]:3300"),
            "rook-ceph-client-glance" => ("glance", KEY),
            _ => ("userKey", KEY),
        };
        let (key, value) = match change {
            Some((changed, None)) if changed == name => return Err(format!("{name} does not exist")),
            Some((changed, Some(pair))) if changed == name => pair,
            _ => (key, value),
        };
        Ok([(key.to_owned(), value.as_bytes().to_vec())].into())
    })
}

#[test]
fn rooks_answers_are_read_and_what_is_not_there_yet_is_waited_for() {
    let ceph = read(None).unwrap();
    assert_eq!(ceph.configuration(), "[global]\nmon_host = 10.0.0.2:6789,[fd00::1]:3300\n");
    let nova = &ceph.users[&Consumer::Nova];
    assert_eq!((&*nova.name, nova.pool(Consumer::Nova), ceph.has_own_nova()), ("cinder", "vms", false));
    for (name, pair, says) in [
        (ENDPOINTS, None, "rook-ceph-mon-endpoints does not exist; Rook makes it of a CephCluster"),
        (ENDPOINTS, Some(("data", "")), "ConfigMap deep/rook-ceph-mon-endpoints, key data: is empty"),
        ("rook-ceph-client-glance", None, "does not exist; Rook makes it of CephClient deep/glance"),
        (
            "rook-ceph-client-glance",
            Some(("glance", "AQ==")),
            "Secret deep/rook-ceph-client-glance, key glance: is no cephx key",
        ),
        ("rook-ceph-client-cinder", Some(("other", KEY)), "key cinder: is missing"),
    ] {
        let said = read(Some((name, pair))).unwrap_err().to_string();
        assert!(said.contains(says) && !said.contains(KEY), "{said}");
    }
}

#[test]
fn what_rook_adds_is_no_difference() {
    let wanted = json!({"replicated": {"size": 3}});
    assert!(holds(&json!({"replicated": {"size": 3, "requireSafeReplicaSize": true}, "x": 1}), &wanted));
    assert!(!holds(&json!({"replicated": {"size": 2}}), &wanted));
}
