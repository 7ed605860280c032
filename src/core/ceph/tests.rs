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

/// What is written: each object with its key and its user.
fn mounted(ceph: &Ceph) -> Vec<String> {
    let release = |name| {
        let namespace = if name == "libvirt" { "far" } else { "openstack" };
        (name, namespace)
    };
    let releases = ["glance", "cinder", "nova", "libvirt", "keystone"].map(release).into();
    let said = |object: Object| match object.data.get("key") {
        None => format!("{object}: {}", object.data.keys().cloned().collect::<Vec<_>>().join(" ")),
        Some(key) => {
            let user = object.data["keyring"].lines().next().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            assert!(object.data["keyring"].ends_with(&format!("    key = {key}\n")));
            format!("{object}: {key} {user}")
        }
    };
    objects(ceph, "openstack", &releases).into_iter().map(said).collect()
}

#[test]
fn a_documented_secret_becomes_what_the_charts_mount() {
    let ceph = external("openstack/ceph", &good()).unwrap();
    let mon_host = "10.0.0.1:6789,[fd00::1]:3300,[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0]";
    let fsid = FSID.to_lowercase();
    assert_eq!(ceph.configuration(), format!("[global]\nfsid = {fsid}\nmon_host = {mon_host}\n"));
    assert_eq!(
        mounted(&ceph),
        [
            "ConfigMap far/ceph-etc: ceph.conf".to_owned(),
            "ConfigMap openstack/ceph-etc: ceph.conf".to_owned(),
            format!("Secret far/cinder-volume-rbd-keyring: {} client.volumes", key(2, 32, 32)),
            format!("Secret openstack/cinder-volume-rbd-keyring: {} client.volumes", key(2, 32, 32)),
            format!("Secret openstack/images-rbd-keyring: {} client.glance", aes()),
        ]
    );
    assert_eq!((&*ceph.users[&Consumer::Glance].name, &*ceph.users[&Consumer::Cinder].name), ("glance", "volumes"));
    assert_eq!(ceph.users[&Consumer::Cinder].pools[0].name, "volumes");
}

#[test]
fn mirantis_layout_is_read_with_its_newline_after_the_key() {
    let ceph = mirantis("openstack-ceph-shared/openstack-ceph-keys", &old()).unwrap();
    assert_eq!(ceph.configuration(), "[global]\nmon_host = 10.0.0.1:6789,10.0.0.3:6789\n");
    let names: Vec<_> = mounted(&ceph)
        .iter()
        .filter_map(|said| said.split([' ', ':']).nth(1)?.strip_prefix("openstack/").map(str::to_owned))
        .collect();
    assert_eq!(names, ["ceph-etc", "cinder-backup-rbd-keyring", "cinder-volume-rbd-keyring", "images-rbd-keyring"]);
    assert_eq!(ceph.users[&Consumer::Cinder].pool(Consumer::Cinder), "volumes-hdd");
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

/// The documented Secret with these keys on top.
fn with(pairs: &[(&str, &str)]) -> Result<Ceph, Problem> {
    external("openstack/ceph", &good().into_iter().chain(data(pairs)).collect())
}

#[test]
fn nova_is_cinders_user_unless_it_has_a_key_of_its_own() {
    let lent = with(&[("nova.pool", "vms")]).unwrap();
    let nova = &lent.users[&Consumer::Nova];
    assert_eq!((&*nova.name, nova.pool(Consumer::Nova), lent.has_own_nova()), ("volumes", "vms", false));
    let own = with(&[("nova.pool", "vms"), ("nova.key", &aes())]).unwrap();
    assert_eq!((&*own.users[&Consumer::Nova].name, own.has_own_nova()), ("nova", true));
    let keyrings = mounted(&own).into_iter().filter(|said| said.contains("nova-rbd-keyring")).count();
    assert_eq!(keyrings, 2, "libvirt, in its own namespace, needs it as well");
}

#[test]
fn two_keys_for_one_user_are_refused() {
    let problem = with(&[("nova.pool", "vms"), ("nova.user", "volumes"), ("nova.key", &aes())]).unwrap_err();
    assert!(problem.to_string().contains("is another key than a second service has for the same user"), "{problem}");
}

#[test]
fn expressions_see_names_and_digests_and_no_key() {
    let seen = |pairs: &[(&str, &str)]| variables(&with(pairs).unwrap());
    let before = seen(&[("nova.pool", "vms")]);
    assert_eq!(before["cinder"]["user"], "volumes");
    assert_eq!((&before["glance"]["pool"], &before["nova"]["own"]), (&"glance.images".into(), &false.into()));
    assert_eq!(before["libvirt"]["secret"], "cinder-volume-rbd-keyring");
    let text = serde_json::to_string(&before).unwrap();
    assert!(!text.contains(&aes()) && !text.contains(&key(2, 32, 32)), "{text}");
    let digests = |seen: &osdpl_values::Values| {
        let digest = |name: &str| seen[name]["digest"].clone();
        ["glance", "cinder", "nova", "libvirt"].map(digest)
    };
    let old = digests(&before);
    let moved = digests(&seen(&[("nova.pool", "vms"), ("mon_host", "10.0.0.9")]));
    assert_eq!(moved.each_ref().map(|one| old.contains(one)), [false, false, false, true], "libvirt has no ceph.conf");
    let rotated = digests(&seen(&[("nova.pool", "vms"), ("cinder.key", &key(1, 32, 32))]));
    assert_eq!(rotated.each_ref().map(|one| old.contains(one)), [true, false, false, false], "glance has its own key");
}

#[test]
fn what_wanted_releases_need_and_every_word_that_may_be_a_key_are_told() {
    let said = |data: Data| declared("openstack/ceph", Ok(data), ["glance", "libvirt", "keystone"].into_iter());
    let lacking = said(good());
    assert_eq!(lacking.trouble().unwrap().to_string(), "Secret openstack/ceph, key nova.pool: is missing; add it");
    assert_eq!(lacking.blame("nova"), lacking.trouble().map(|trouble| trouble.to_string()));
    assert_eq!(lacking.blame("glance"), None);
    let half = key(1, 16, 9);
    let broken = said(good().into_iter().chain(data(&[("nova.key", &half)])).collect());
    let secrets: Vec<&str> = broken.secrets.iter().map(|secret| secret.0.as_str()).collect();
    assert!(broken.read.is_err() && secrets.contains(&half.as_str()) && secrets.contains(&aes().as_str()));
    assert!(!secrets.iter().any(|secret| FSID == *secret || secret.contains("10.0.0.1")), "{secrets:?}");
    let moved = said(old());
    assert!(moved.secrets.iter().any(|secret| secret.0 == aes()) && moved.secrets.len() == 2, "{moved:?}");
    assert_eq!(moved.trouble().unwrap().to_string(), "Secret openstack/ceph, key nova: is missing; add it");
}

#[test]
fn an_expression_names_the_consumers_that_it_asks_for() {
    assert!(is_of_ceph("ceph.glance.pool") && is_of_ceph("has(ceph.backup) ? ceph.backup.digest : ''"));
    assert!(!is_of_ceph("features.storage.ceph.mode") && !is_of_ceph("my_ceph.x"));
    let named = |text: &str| named_in(text).filter_map(Consumer::named).map(Consumer::name).collect::<Vec<_>>();
    assert_eq!(named("${ceph.backup.digest}-${ceph.cinder.digest}"), ["cinder-backup", "cinder"]);
    assert_eq!(named("has(features.storage.ceph) && ceph.libvirt.user"), ["nova"]);
}
