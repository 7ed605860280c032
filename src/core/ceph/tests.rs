use base64::Engine as _;

use super::*;

/// Returns a cephx key of type `kind` whose header says that the secret has `length` bytes. In fact, the secret has
/// `written` bytes.
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

/// Returns a description of each object that charts mount: for a `ConfigMap`, the description contains the keys of its
/// data; for a Secret, the Ceph user.
fn mounted(ceph: &Ceph) -> Vec<String> {
    let release = |name| {
        let namespace = if name == "libvirt" { "far" } else { "openstack" };
        (name, namespace)
    };
    let releases = ["glance", "cinder", "nova", "libvirt", "keystone"].map(release).into();
    let description = |object: Object| match object.data.get("key") {
        None => format!("{object}: {}", object.data.keys().cloned().collect::<Vec<_>>().join(" ")),
        Some(key) => {
            let user = object.data["keyring"].lines().next().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            assert!(object.data["keyring"].ends_with(&format!("    key = {key}\n")));
            format!("{object}: {key} {user}")
        }
    };
    desired_objects(ceph, "openstack", &releases, false).into_iter().map(description).collect()
}

#[test]
fn derives_objects_from_the_documented_layout() {
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
fn glance_gets_the_key_of_volumes_if_it_stores_images_in_them() {
    let ceph = external("openstack/ceph", &good()).unwrap();
    let releases = [("glance", "images"), ("cinder", "volumes")].into();
    let of_glance = |images_in_volumes: bool| {
        let objects = desired_objects(&ceph, "openstack", &releases, images_in_volumes).into_iter();
        let of_glance = objects.filter(|object| object.namespace == "images" && object.kind == Kind::Secret);
        of_glance.map(|object| object.name).collect::<Vec<_>>()
    };
    assert_eq!(of_glance(false), ["images-rbd-keyring"]);
    assert_eq!(of_glance(true), ["cinder-volume-rbd-keyring", "images-rbd-keyring"]);
}

#[test]
fn reads_mirantis_layout() {
    let ceph = mirantis("openstack-ceph-shared/openstack-ceph-keys", &old()).unwrap();
    assert_eq!(ceph.configuration(), "[global]\nmon_host = 10.0.0.1:6789,10.0.0.3:6789\n");
    let names: Vec<_> = mounted(&ceph)
        .iter()
        .filter_map(|description| description.split([' ', ':']).nth(1)?.strip_prefix("openstack/").map(str::to_owned))
        .collect();
    assert_eq!(names, ["ceph-etc", "cinder-backup-rbd-keyring", "cinder-volume-rbd-keyring", "images-rbd-keyring"]);
    assert_eq!(ceph.users[&Consumer::Cinder].pool(Consumer::Cinder), "volumes-hdd");
    let backup = &ceph.users[&Consumer::CinderBackup];
    assert_eq!((&*backup.name, &*backup.pools[0].name, backup.pools.len()), ("cinder", "backup-hdd", 1));
    assert_eq!(ceph.users[&Consumer::Cinder].pools[1].device_class.as_deref(), Some("hdd"));
}

#[test]
fn ignores_the_order_of_monitors() {
    assert_eq!(Monitors::parse("10.0.0.2,10.0.0.1 10.0.0.2"), Monitors::parse("10.0.0.1\n10.0.0.2"));
}

#[test]
fn parses_addresses_in_every_form() {
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

/// Reads a Secret in which the value under `key` is `value`, or is missing if `value` is `None`. Returns the error
/// message, and asserts that the message contains no value of the Secret.
fn complaint_of(
    read: fn(&str, &Data) -> Result<Ceph, SecretError>,
    mut data: Data,
    key: &str,
    value: Option<&[u8]>,
) -> String {
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
    problem.error.to_string()
}

#[test]
fn names_malformed_keys_without_values() {
    let half = key(1, 16, 9);
    let huge = key(1, 64, 64);
    let untyped = key(0, 16, 16);
    let keyring = format!("[client.glance]\n  key = {}", aes());
    for (key, value, expected) in [
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
        ("fsid", Some("6d2a1b7e"), "is not a UUID"),
        ("fsid", Some("6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3z"), "is not a UUID"),
        ("glance.key", None, "is missing"),
        ("glance.key", Some(""), "is empty"),
        ("glance.key", Some(keyring.as_str()), "not base64"),
        ("glance.key", Some("AAAA"), "wrong format or length"),
        ("glance.key", Some(half.as_str()), "wrong format or length"),
        ("glance.key", Some(huge.as_str()), "wrong format or length"),
        ("glance.key", Some(untyped.as_str()), "wrong format or length"),
        ("cinder.pool", None, "is missing"),
        ("cinder.pool", Some("volumes; rm"), "does not accept the name of the pool"),
        ("cinder.user", Some("client."), "does not accept the name of the Ceph user"),
        ("cinder.user", Some("a b"), "does not accept the name of the Ceph user"),
        ("nova.key", Some("%"), "not base64"),
    ] {
        let complaint = complaint_of(external, good(), key, value.map(str::as_bytes));
        assert!(complaint.contains(expected), "{key}: {complaint}, not {expected}");
    }
    assert!(complaint_of(external, good(), "glance.key", Some(&[0xFF, 0xFE])).contains("UTF-8"));
}

#[test]
fn names_malformed_keys_of_mirantis_layout() {
    let [no_client, no_pool, two, cut] = [
        format!("glance;{};images:images:hdd", aes()),
        format!("client.glance;{}", aes()),
        format!("client.glance;{};images:images:hdd;volumes:hdd", aes()),
        format!("client.glance;{};images:images:hdd", key(1, 16, 15)),
    ];
    for (key, value, expected) in [
        ("mon_endpoints", None, "is missing"),
        ("mon_endpoints", Some("10.0.0.1:x"), "address 1"),
        ("glance", Some(""), "is empty"),
        ("glance", Some("client.glance"), "is not of the form"),
        ("glance", Some(no_client.as_str()), "is not of the form"),
        ("glance", Some(no_pool.as_str()), "is not of the form"),
        ("glance", Some(two.as_str()), "the pool at position 2 of the value"),
        ("glance", Some(cut.as_str()), "wrong format or length"),
    ] {
        let complaint = complaint_of(mirantis, old(), key, value.map(str::as_bytes));
        assert!(complaint.contains(expected), "{key}: {complaint}, not {expected}");
    }
}

#[test]
fn rejects_secrets_without_users() {
    let problem = external("openstack/ceph", &data(&[("mon_host", "10.0.0.1"), ("fsid", FSID)])).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "Secret openstack/ceph, key glance.key: the key is missing, and so are the keys of all other services; set the key of at least one service"
    );
    assert_eq!(
        mirantis("openstack/ceph", &data(&[("mon_endpoints", "10.0.0.1:6789")])).unwrap_err().error,
        ValueError::NoUsers
    );
}

#[test]
fn redacts_keys_in_debug_output() {
    let shown = format!("{:?}", external("openstack/ceph", &good()).unwrap());
    assert!(!shown.contains(&aes()) && shown.contains("[redacted]"), "{shown}");
}

/// Reads a valid Secret in osdpl's documented layout. `pairs` are additional keys and values of the Secret.
fn with(pairs: &[(&str, &str)]) -> Result<Ceph, SecretError> {
    external("openstack/ceph", &good().into_iter().chain(data(pairs)).collect())
}

#[test]
fn nova_uses_cinders_user_without_its_own_key() {
    let lent = with(&[("nova.pool", "vms")]).unwrap();
    let nova = &lent.users[&Consumer::Nova];
    assert_eq!((&*nova.name, nova.pool(Consumer::Nova), lent.has_own_nova()), ("volumes", "vms", false));
    let own = with(&[("nova.pool", "vms"), ("nova.key", &aes())]).unwrap();
    assert_eq!((&*own.users[&Consumer::Nova].name, own.has_own_nova()), ("nova", true));
    let keyrings = mounted(&own).into_iter().filter(|description| description.contains("nova-rbd-keyring")).count();
    assert_eq!(keyrings, 2, "osdpl writes a Secret with nova's key to the namespaces of both nova and libvirt");
}

#[test]
fn rejects_two_keys_for_one_user() {
    let problem = with(&[("nova.pool", "vms"), ("nova.user", "volumes"), ("nova.key", &aes())]).unwrap_err();
    assert!(problem.to_string().contains("differs from another service's key for the same user"), "{problem}");
    let (nova, manila) = (aes(), key(1, 32, 32));
    let nova = [("nova.pool", "vms"), ("nova.key", nova.as_str())];
    let manila = [("manila.pool", "shares"), ("manila.user", "nova"), ("manila.key", manila.as_str())];
    let problem = with(&[&nova[..], &manila[..]].concat()).unwrap_err();
    assert_eq!((problem.key.as_str(), problem.error), ("nova.key", ValueError::OtherKey));
}

#[test]
fn variables_have_digests_and_no_keys() {
    let variables_of = |pairs: &[(&str, &str)]| variables(&with(pairs).unwrap());
    let before = variables_of(&[("nova.pool", "vms")]);
    assert_eq!(before["cinder"]["user"], "volumes");
    assert_eq!((&before["glance"]["pool"], &before["nova"]["own"]), (&"glance.images".into(), &false.into()));
    assert_eq!(before["libvirt"]["secret"], "cinder-volume-rbd-keyring");
    let text = serde_json::to_string(&before).unwrap();
    assert!(!text.contains(&aes()) && !text.contains(&key(2, 32, 32)), "{text}");
    let digests = |variables: &osdpl_values::Values| {
        let digest = |name: &str| variables[name]["digest"].clone();
        ["glance", "cinder", "nova", "libvirt"].map(digest)
    };
    let old = digests(&before);
    let moved = digests(&variables_of(&[("nova.pool", "vms"), ("mon_host", "10.0.0.9")]));
    assert_eq!(
        moved.each_ref().map(|one| old.contains(one)),
        [false, false, false, true],
        "new monitors change all digests except libvirt's, because libvirt mounts no ceph.conf"
    );
    let rotated = digests(&variables_of(&[("nova.pool", "vms"), ("cinder.key", &key(1, 32, 32))]));
    assert_eq!(
        rotated.each_ref().map(|one| old.contains(one)),
        [true, false, false, false],
        "cinder's new key changes all digests except glance's, because glance has its own key"
    );
}

#[test]
fn reports_missing_users_and_collects_secrets() {
    let read = |data: Data| {
        read_declared_ceph("openstack/ceph", Ok(data), ["glance", "libvirt", "keystone"].into_iter(), None)
    };
    let incomplete = read(good());
    assert_eq!(
        incomplete.not_ready_reason().unwrap().to_string(),
        "Secret openstack/ceph, key nova.pool: the key is missing; add it"
    );
    assert_eq!(incomplete.missing_reason("nova"), incomplete.not_ready_reason().map(|trouble| trouble.to_string()));
    assert_eq!(incomplete.missing_reason("glance"), None);
    let half = key(1, 16, 9);
    let broken = read(good().into_iter().chain(data(&[("nova.key", &half)])).collect());
    let secrets: Vec<&str> = broken.secrets.iter().map(|secret| secret.0.as_str()).collect();
    assert!(broken.settings.is_err() && secrets.contains(&half.as_str()) && secrets.contains(&aes().as_str()));
    assert!(!secrets.iter().any(|secret| FSID == *secret || secret.contains("10.0.0.1")), "{secrets:?}");
    let moved = read(old());
    assert!(moved.secrets.iter().any(|secret| secret.0 == aes()) && moved.secrets.len() == 2, "{moved:?}");
    assert_eq!(
        moved.not_ready_reason().unwrap().to_string(),
        "Secret openstack/ceph, key nova: the key is missing; add it"
    );
}

#[test]
fn says_how_to_add_a_missing_user_to_mirantis_layout() {
    let reason = |cinder: Option<String>, name: &str| {
        let mut data = old();
        data.remove("cinder");
        data.extend(cinder.map(|text| ("cinder".to_owned(), text.into_bytes())));
        read_declared_ceph("openstack/ceph", Ok(data), std::iter::empty(), None).missing_reason(name).unwrap()
    };
    let no_backups = format!("client.cinder;{};volumes-hdd:volumes:hdd", aes());
    for (cinder, name, expected) in [
        (Some(no_backups), "backup", "key cinder: no pool in the value has the role backup"),
        (None, "backup", "key cinder: the key is missing; add it"),
        (None, "gnocchi", "key gnocchi: the layout of Mirantis has no key for this service; describe Ceph in osdpl's"),
        (None, "manila", "key manila: the key is missing; add it"),
    ] {
        let reason = reason(cinder, name);
        assert!(reason.starts_with(&format!("Secret openstack/ceph, {expected}")), "{reason}");
    }
}

#[test]
fn finds_consumers_in_expressions() {
    assert!(uses_ceph("ceph.glance.pool") && uses_ceph("has(ceph.backup) ? ceph.backup.digest : ''"));
    assert!(!uses_ceph("features.storage.ceph.mode") && !uses_ceph("my_ceph.x"));
    let named = |text: &str| ceph_names_in(text).filter_map(Consumer::named).map(Consumer::name).collect::<Vec<_>>();
    assert_eq!(named("${ceph.backup.digest}-${ceph.cinder.digest}"), ["cinder-backup", "cinder"]);
    assert_eq!(named("has(features.storage.ceph) && ceph.libvirt.user"), ["nova"]);
}
