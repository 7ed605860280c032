use base64::Engine as _;

use super::*;

/// A key of the shape that Ceph makes, whose secret is `length` bytes.
fn key(kind: u8, length: u8, written: usize) -> String {
    let mut bytes = vec![kind, 0, 1, 2, 3, 4, 5, 6, 7, 8, length, 0];
    bytes.extend(std::iter::repeat_n(0xA7, written));
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn aes() -> String {
    key(1, 16, 16)
}

type Data = BTreeMap<String, Vec<u8>>;

fn data(pairs: &[(&str, &str)]) -> Data {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

const FSID: &str = "6D2A1B7E-0c8f-4a53-9d61-1f6f0f1d2c3b";

fn good() -> Data {
    let (glance, cinder) = (format!("{}\n", aes()), key(2, 32, 32));
    data(&[
        ("mon_host", "[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0], 10.0.0.1:6789\n[fd00::1]:3300\n"),
        ("fsid", FSID),
        ("glance.key", &glance),
        ("glance.pool", "glance.images"),
        ("cinder.key", &cinder),
        ("cinder.pool", "volumes\n"),
        ("cinder.user", "client.volumes"),
    ])
}

fn old() -> Data {
    let cinder =
        format!("client.cinder;{}\n;volumes-hdd:volumes:hdd;images-hdd:images:hdd;backup-hdd:backup:hdd\n", aes());
    let glance = format!("client.glance;{};images-hdd:images:hdd;", aes());
    data(&[
        ("client.admin", "left alone"),
        ("mon_endpoints", "10.0.0.3:6789,10.0.0.1:6789"),
        ("cinder", &cinder),
        ("glance", &glance),
        ("rgw_internal", "https://rgw.example.org/"),
    ])
}

#[test]
fn a_documented_secret_becomes_what_the_charts_mount() {
    let ceph = external("openstack/ceph", &good()).unwrap();
    let mon_host = "10.0.0.1:6789,[fd00::1]:3300,[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0]";
    let fsid = FSID.to_lowercase();
    assert_eq!(ceph.configuration(), format!("[global]\nfsid = {fsid}\nmon_host = {mon_host}\n"));
    let keyrings: Vec<_> = ceph.keyrings().into_iter().map(|(name, key)| (name, key.reveal().to_owned())).collect();
    assert_eq!(keyrings, [("cinder-volume-rbd-keyring", key(2, 32, 32)), ("images-rbd-keyring", aes())]);
    assert_eq!((&*ceph.users[&Consumer::Glance].name, &*ceph.users[&Consumer::Cinder].name), ("glance", "volumes"));
    assert_eq!(ceph.users[&Consumer::Cinder].pools[0].name, "volumes");
}

#[test]
fn mirantis_layout_is_read_with_its_newline_after_the_key() {
    let ceph = mirantis("openstack-ceph-shared/openstack-ceph-keys", &old()).unwrap();
    assert_eq!(ceph.configuration(), "[global]\nmon_host = 10.0.0.1:6789,10.0.0.3:6789\n");
    let names: Vec<_> = ceph.keyrings().into_keys().collect();
    assert_eq!(names, ["cinder-backup-rbd-keyring", "cinder-volume-rbd-keyring", "images-rbd-keyring"]);
    let backup = &ceph.users[&Consumer::CinderBackup];
    assert_eq!((&*backup.name, &*backup.pools[0].name, backup.pools.len()), ("cinder", "backup-hdd", 1));
    assert_eq!(ceph.users[&Consumer::Cinder].pools[1].device_class.as_deref(), Some("hdd"));
}

#[test]
fn the_order_in_which_monitors_are_listed_changes_nothing() {
    assert_eq!(Monitors::parse("10.0.0.2,10.0.0.1 10.0.0.2"), Monitors::parse("10.0.0.1\n10.0.0.2"));
}

#[test]
fn addresses_are_read_in_every_form() {
    for text in [
        "10.0.0.1",
        "10.0.0.1:6789",
        "fd00::1",
        "[fd00::1]",
        "[fd00::1]:6789",
        "v1:10.0.0.1:6789",
        "v2:10.0.0.1:3300/0",
        "v2:[fd00::1]:3300/0",
        "[v2:[fd00::1]:3300/0,v1:[fd00::1]:6789/0]",
        "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0],[v2:10.0.0.2:3300/0]",
    ] {
        assert!(Monitors::parse(text).is_ok(), "{text}");
    }
}

/// What a bad value of a key is told, and that nothing of the value stands in it.
fn told(read: fn(&str, &Data) -> Result<Ceph, Problem>, mut data: Data, key: &str, value: Option<&[u8]>) -> String {
    match value {
        Some(value) => drop(data.insert(key.to_owned(), value.to_vec())),
        None => drop(data.remove(key)),
    }
    let problem = read("openstack/ceph", &data).unwrap_err();
    assert_eq!((&*problem.object, &*problem.key), ("openstack/ceph", key));
    let shown = format!("{problem} {problem:?}");
    let words = data.values().map(|value| String::from_utf8_lossy(value).into_owned());
    let words: Vec<String> =
        words.flat_map(|text| text.split([';', '\n']).map(str::to_owned).collect::<Vec<_>>()).collect();
    for word in words.iter().filter(|word| word.len() >= 20) {
        assert!(!shown.contains(word.as_str()), "{shown}");
    }
    problem.complaint.to_string()
}

#[test]
fn every_malformed_key_of_a_documented_secret_is_named_and_not_shown() {
    let half = key(1, 16, 9);
    let huge = key(1, 64, 64);
    let untyped = key(0, 16, 16);
    let keyring = format!("[client.glance]\n  key = {}", aes());
    for (key, value, says) in [
        ("mon_host", None, "is missing"),
        ("mon_host", Some(" \n"), "is empty"),
        ("mon_host", Some(",,"), "is empty"),
        ("mon_host", Some("10.0.0.1:6789,mon-a"), "address 2"),
        ("mon_host", Some("10.0.0.1:67890"), "address 1"),
        ("mon_host", Some("10.0.0.1:0"), "address 1"),
        ("mon_host", Some("[10.0.0.1]:6789"), "address 1"),
        ("mon_host", Some("v3:10.0.0.1:6789/0"), "address 1"),
        ("mon_host", Some("v2:10.0.0.1/0"), "address 1"),
        ("mon_host", Some("[v2:10.0.0.1:3300/0,10.0.0.1:6789]"), "address 1"),
        ("mon_host", Some("[v2:10.0.0.1:3300/0"), "address 1"),
        ("mon_host", Some("a=10.0.0.1:6789"), "address 1"),
        ("fsid", None, "is missing"),
        ("fsid", Some("6d2a1b7e"), "is no UUID"),
        ("fsid", Some("6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3z"), "is no UUID"),
        ("glance.key", None, "is missing"),
        ("glance.key", Some(""), "is empty"),
        ("glance.key", Some(keyring.as_str()), "not base64"),
        ("glance.key", Some("AAAA"), "length does not fit"),
        ("glance.key", Some(half.as_str()), "length does not fit"),
        ("glance.key", Some(huge.as_str()), "length does not fit"),
        ("glance.key", Some(untyped.as_str()), "length does not fit"),
        ("cinder.pool", None, "is missing"),
        ("cinder.pool", Some("volumes; rm"), "is no pool"),
        ("cinder.user", Some("client."), "is no user"),
        ("cinder.user", Some("a b"), "is no user"),
        ("nova.key", Some("%"), "not base64"),
    ] {
        let complaint = told(external, good(), key, value.map(str::as_bytes));
        assert!(complaint.contains(says), "{key}: {complaint}, not {says}");
    }
    assert!(told(external, good(), "glance.key", Some(&[0xFF, 0xFE])).contains("UTF-8"));
}

#[test]
fn every_malformed_key_of_mirantis_layout_is_named_and_not_shown() {
    let [no_client, no_pool, two, cut] = [
        format!("glance;{};images:images:hdd", aes()),
        format!("client.glance;{}", aes()),
        format!("client.glance;{};images:images:hdd;volumes:hdd", aes()),
        format!("client.glance;{};images:images:hdd", key(1, 16, 15)),
    ];
    for (key, value, says) in [
        ("mon_endpoints", None, "is missing"),
        ("mon_endpoints", Some("10.0.0.1:x"), "address 1"),
        ("glance", Some(""), "is empty"),
        ("glance", Some("client.glance"), "is not of the form"),
        ("glance", Some(no_client.as_str()), "is not of the form"),
        ("glance", Some(no_pool.as_str()), "is not of the form"),
        ("glance", Some(two.as_str()), "pool 2"),
        ("glance", Some(cut.as_str()), "length does not fit"),
    ] {
        let complaint = told(mirantis, old(), key, value.map(str::as_bytes));
        assert!(complaint.contains(says), "{key}: {complaint}, not {says}");
    }
}

#[test]
fn a_secret_without_users_is_refused() {
    let problem = external("openstack/ceph", &data(&[("mon_host", "10.0.0.1"), ("fsid", FSID)])).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "Secret openstack/ceph, key glance.key: is missing, and so is every other service's; give at least one service's key"
    );
    assert_eq!(
        mirantis("openstack/ceph", &data(&[("mon_endpoints", "10.0.0.1:6789")])).unwrap_err().complaint,
        Complaint::NoUsers
    );
}

#[test]
fn a_key_is_not_shown_by_debug() {
    let shown = format!("{:?}", external("openstack/ceph", &good()).unwrap());
    assert!(!shown.contains(&aes()) && shown.contains("[redacted]"), "{shown}");
}
