use super::*;
use crate::ceph::{Ceph, Kind, NotReady, Object, chart_owned_secrets, desired_objects};

const KEY: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";

fn rook() -> RookSettings {
    let pools = json!({"images": {"replicas": 2, "deviceClass": "ssd", "maxSize": "10Ti"}});
    RookSettings::from_feature(&json!({"mode": "rook", "rook": {"namespace": "deep", "pools": pools}})).unwrap()
}

fn spec(releases: &[&str], kind: &str, name: &str) -> Option<Value> {
    let consumers = consumers(releases.iter().copied());
    let manifests = rook().manifests(&consumers, &consumers);
    manifests.into_iter().find(|manifest| manifest.kind == kind && manifest.name == name).map(|manifest| manifest.spec)
}

#[test]
fn pools_follow_the_feature_with_safe_defaults() {
    let all = ["glance", "cinder", "nova", "keystone"];
    let images = json!({"failureDomain": "host", "replicated": {"size": 2}, "deviceClass": "ssd", "quotas": {"maxSize": "10Ti"}});
    assert_eq!(spec(&all, "CephBlockPool", "images"), Some(images));
    let volumes = json!({"failureDomain": "host", "replicated": {"size": 3}});
    assert_eq!(spec(&all, "CephBlockPool", "volumes"), Some(volumes));
    assert_eq!(
        spec(&["glance"], "CephBlockPool", "volumes"),
        None,
        "osdpl requests no pool `volumes` from Rook if the cloud has no release that uses it"
    );
    assert_eq!(RookSettings::from_feature(&json!({"mode": "external"})), None);
}

#[test]
fn users_have_minimal_capabilities() {
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

/// Returns the status of a `CephCluster` with this phase and health.
fn cluster(phase: &str, health: &str) -> Cluster {
    let fsid = "6D2A1B7E-0c8f-4a53-9d61-1f6f0f1d2c3b";
    let status = json!({"phase": phase, "message": "Configuring Ceph Mons", "ceph": {"health": health, "fsid": fsid}});
    Cluster::from_object("deep", "main", &json!({"status": status}))
}

/// Reads the settings from example objects of Rook. `change` names one object that is different: it contains only the
/// given key and value, or does not exist if there is no key and value.
fn read(rook: &RookSettings, change: Option<(&str, Option<(&str, &str)>)>) -> Result<Ceph, NotReady> {
    let clusters = Ok(vec![cluster("Ready", "HEALTH_OK")]);
    let answer = rook.read(&consumers(["glance", "nova"].into_iter()), clusters, |name| {
        let pairs = match name {
            ENDPOINTS => vec![("data", "b=10.0.0.2:6789,a=[fd00::1]:3300")],
            MONITORS => vec![("ceph-username", "client.admin"), ("ceph-secret", KEY)],
            "rook-ceph-client-glance" => vec![("glance", KEY)],
            _ => vec![("userKey", KEY)],
        };
        let pairs = match change {
            Some((changed, None)) if changed == name => return Ok(None),
            Some((changed, Some(pair))) if changed == name => vec![pair],
            _ => pairs,
        };
        Ok(Some(pairs.into_iter().map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).collect()))
    });
    answer.0
}

#[test]
fn reads_rooks_objects_and_waits_for_missing_ones() {
    let ceph = read(&rook(), None).unwrap();
    let conf = "[global]\nfsid = 6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b\nmon_host = 10.0.0.2:6789,[fd00::1]:3300\n";
    assert_eq!(ceph.configuration(), conf);
    let nova = &ceph.users[&Consumer::Nova];
    assert_eq!((&*nova.name, nova.pool(Consumer::Nova), ceph.has_own_nova()), ("cinder", "vms", false));
    for (name, pair, expected) in [
        (
            ENDPOINTS,
            None,
            "ConfigMap deep/rook-ceph-mon-endpoints does not exist yet; Rook creates it for the CephCluster; if it stays missing, see the log of Rook's operator",
        ),
        (
            ENDPOINTS,
            Some(("data", "")),
            "ConfigMap deep/rook-ceph-mon-endpoints has no monitor addresses in the key data: Rook has not published",
        ),
        (
            ENDPOINTS,
            Some(("other", "x")),
            "has no monitor addresses in the key data: Rook has not published the monitor addresses yet",
        ),
        (
            ENDPOINTS,
            Some(("data", "a=10.0.0.1:6789,b=mon.example.org")),
            "key data: osdpl can't read the monitor addresses (address 2 is invalid); inspect the CephCluster",
        ),
        ("rook-ceph-client-glance", None, "does not exist yet; Rook creates it for CephClient deep/glance"),
        (
            "rook-ceph-client-glance",
            Some(("glance", "AQ==")),
            "Secret deep/rook-ceph-client-glance, key glance: osdpl can't read the cephx key (the cephx key has the wrong format or length, so it may be truncated); inspect CephClient deep/glance",
        ),
        (
            "rook-ceph-client-cinder",
            Some(("other", KEY)),
            "Secret deep/rook-ceph-client-cinder has no cephx key in the key cinder: Rook has not published the cephx key yet; wait, or inspect CephClient deep/cinder",
        ),
    ] {
        let error = read(&rook(), Some((name, pair))).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains(KEY), "{error}");
    }
}

#[test]
fn repeats_errors_about_missing_rights_unchanged() {
    for (rook, unread) in [(rook(), ENDPOINTS), (rook(), "rook-ceph-client-glance"), (with_admin(), MONITORS)] {
        let clusters = Ok(vec![cluster("Ready", "HEALTH_OK")]);
        let (settings, _) = rook.read(&consumers(["glance"].into_iter()), clusters, |name| {
            let monitors = [("data".to_owned(), b"10.0.0.2:6789".to_vec())].into();
            if name == unread { Err(format!("{name} can't be read: forbidden")) } else { Ok(Some(monitors)) }
        });
        assert_eq!(settings.unwrap_err().to_string(), format!("{unread} can't be read: forbidden"));
    }
}

#[test]
fn says_why_rook_has_no_user_for_a_service() {
    let declared = crate::ceph::DeclaredCeph::from_rook(read(&rook(), None), None);
    let reason = declared.missing_reason("gnocchi").unwrap();
    let expected = "the Ceph of Rook has no user for gnocchi, because osdpl requests users only for services of the cloud; enable the service of gnocchi";
    assert!(reason.starts_with(expected), "{reason}");
    assert_eq!(declared.missing_reason("glance"), None);
}

#[test]
fn reports_missing_and_unhealthy_clusters() {
    let read = |clusters| rook().read(&BTreeSet::new(), clusters, |_| Err("unread".into())).0.unwrap_err().to_string();
    assert_eq!(
        read(Ok(Vec::new())),
        "there is no CephCluster in namespace deep; create one, or correct spec.features.storage.ceph.rook.namespace"
    );
    assert_eq!(read(Err("refused".into())), "refused");
    let young = Cluster { fsid: None, ..cluster("Progressing", "") };
    let expected = "CephCluster deep/main is Progressing (Configuring Ceph Mons); see the log of Rook's operator";
    assert_eq!(read(Ok(vec![young.clone()])), expected);
    assert!(read(Ok(vec![Cluster { phase: "Ready".into(), ..young }])).contains("has no fsid"));
    let trouble = |phase, health| cluster(phase, health).not_ready_reason().map(|trouble| trouble.to_string());
    assert_eq!(trouble("Ready", "HEALTH_WARN"), None);
    assert_eq!(trouble("Connected", "HEALTH_OK"), None);
    assert!(trouble("Ready", "HEALTH_ERR").unwrap().contains("CephCluster deep/main is in HEALTH_ERR"));
    assert!(trouble("", "").unwrap().contains("is not reconciled yet"));
}

/// Returns settings for Rook with which osdpl gives the charts the cephx key of `client.admin`.
fn with_admin() -> RookSettings {
    let feature = json!({"access": "admin", "namespace": "deep", "pools": {"images": {"replicas": 2}}});
    RookSettings::from_feature(&json!({"mode": "rook", "rook": feature})).unwrap()
}

#[test]
fn reads_the_admin_key_only_on_request() {
    assert!(!rook().secrets().contains(MONITORS));
    assert_eq!(with_admin().secrets(), [MONITORS.to_owned()].into());
    let consumers = consumers(["glance"].into_iter());
    assert_eq!(with_admin().manifests(&consumers, &consumers), []);
    let ceph = read(&with_admin(), None).unwrap();
    assert!(ceph.users.is_empty() && !format!("{ceph:?}").contains(KEY));
    let values = crate::ceph::variables(&ceph);
    let glance = &values["glance"];
    assert_eq!(
        (&glance["user"], &glance["pool"], &glance["replicas"]),
        (&json!("glance"), &json!("images"), &json!(2))
    );
    assert_eq!((&values["nova"]["user"], &values["nova"]["own"]), (&json!("cinder"), &json!(false)));
    assert!(
        !values.contains_key("libvirt"),
        "the variable has no entry `libvirt` if the charts create the users, because osdpl does not know the users' keys"
    );
    assert_ne!(
        values["admin"]["digest"], glance["digest"],
        "glance's digest does not depend on the admin's key, which glance-api does not mount"
    );
    let releases = [("glance", "openstack"), ("nova", "openstack")].into();
    let written = desired_objects(&ceph, "openstack", &releases, true);
    let written: Vec<String> = written.iter().map(Object::to_string).collect();
    assert_eq!(written, ["ConfigMap openstack/ceph-etc", "Secret openstack/pvc-ceph-client-key"]);
    let taken: Vec<String> = chart_owned_secrets(&ceph, &releases).iter().map(Object::to_string).collect();
    assert!(taken.contains(&"Secret openstack/images-rbd-keyring".to_owned()), "{taken:?}");
    for (key, value, expected) in [
        ("ceph-username", "client.healthchecker", "is not client.admin"),
        ("ceph-secret", KEY, "Secret deep/rook-ceph-mon has no user name in the key ceph-username: Rook has not"),
    ] {
        let error = read(&with_admin(), Some((MONITORS, Some((key, value))))).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains(KEY) && !error.contains("healthchecker"), "{error}");
    }
}

#[test]
fn recognizes_another_ceph_by_its_fsid() {
    let map = |fsid: &str| Object {
        kind: Kind::ConfigMap,
        namespace: "openstack".into(),
        name: "ceph-etc".into(),
        data: [("ceph.conf".to_owned(), format!("[global]\n{fsid}mon_host = 10.0.0.1\n"))].into(),
    };
    let message =
        |new: &str, existing: &str| map(new).other_ceph_error(&map(existing).data).map(|problem| problem.to_string());
    assert_eq!(message("fsid = a\n", "fsid = a\n"), None);
    assert_eq!(
        message("fsid = a\n", ""),
        None,
        "osdpl reports no error if the existing ceph.conf has no fsid, because Mirantis' layout contains no fsid"
    );
    let message = message("fsid = b\n", "fsid = a\n").unwrap();
    assert!(
        message.starts_with("the declared Ceph has the fsid b, ")
            && message.contains("are in the Ceph with the fsid a (ConfigMap openstack/ceph-etc)")
    );
}

#[test]
fn ignores_additions_of_rook() {
    let wanted = json!({"replicated": {"size": 3}});
    assert!(contains(&json!({"replicated": {"size": 3, "requireSafeReplicaSize": true}, "x": 1}), &wanted));
    assert!(!contains(&json!({"replicated": {"size": 2}}), &wanted));
}
