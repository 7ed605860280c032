use serde_json::{Value, json};

use super::super::{CloudInventory, Description, identify::identify_releases};
use super::*;
use crate::observed::{ComparisonResult, ReleaseKey};
use crate::release::{Chart, RevisionSource};

/// Has the form of the output of `ceph auth print-key`; it is not a real key.
const KEY: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";
const FSID: &str = "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b";

fn found(name: &str, defaults: Value) -> InstalledRelease {
    let chart = Chart { name: name.into(), version: "1.0.0".into(), app_version: String::new() };
    let map = |value: Value| serde_json::from_value(value).unwrap();
    let source = RevisionSource { config: map(json!({})), chart, defaults: map(defaults), fingerprint: String::new() };
    InstalledRelease::new(ReleaseKey::new("openstack", name), 1, source)
}

/// Releases with images, volumes, backups and disks on Ceph, in the form of upstream's charts.
fn cloud() -> Vec<InstalledRelease> {
    let rbd = json!({"rbd_store_pool": "glance.images", "rbd_store_user": "glance"});
    let glance = json!({"storage": "rbd", "conf": {"glance": {"rbd": rbd}}, "secrets": {"rbd": "images-rbd-keyring"}});
    let driver = "cinder.volume.drivers.rbd.RBDDriver";
    let cinder = json!({
        "conf": {
            "backends": {"rbd1": {"volume_driver": driver, "rbd_pool": "cinder.volumes", "rbd_user": "cinder"}},
            "cinder": {"DEFAULT": {
                "enabled_backends": "lvm, rbd1", "backup_driver": "cinder.backup.drivers.ceph.CephBackupDriver",
                "backup_ceph_pool": "cinder.backups", "backup_ceph_user": "cinderbackup",
            }},
        },
        "secrets": {"rbd": {"volume": "their-keyring", "backup": "cinder-backup-rbd-keyring"}},
    });
    let disks = json!({"images_type": "rbd", "images_rbd_pool": "vms", "rbd_user": "cinder"});
    vec![found("glance", glance), found("cinder", cinder), found("nova", json!({"conf": {"nova": {"libvirt": disks}}}))]
}

fn used(found: &[InstalledRelease]) -> Option<CephUses> {
    find_ceph_uses(&identify_releases(found, &crate::files::load_catalog(None).unwrap()))
}

fn answers() -> CephState {
    let keys = [Consumer::Glance, Consumer::Cinder, Consumer::CinderBackup].map(|one| (one, KEY.to_owned()));
    let configuration = format!("[global]\ncephx = true\nfsid = {FSID}\nmon_host = 10.0.0.1:6789\n");
    CephState { configuration: Some(configuration), keys: keys.into(), clusters: BTreeMap::new() }
}

fn storage(found: &[InstalledRelease], answers: &CephState) -> Result<CephDeclaration, Vec<String>> {
    let names = found.iter().map(|found| found.key.name.as_str());
    used(found).unwrap().storage(answers, ("openstack", "cloud-adopted-ceph"), names)
}

#[test]
fn describes_ceph_with_the_keys_in_use() {
    let uses = used(&cloud()).unwrap();
    assert_eq!(uses.who(), "glance, cinder, cinder-backup, nova");
    assert_eq!(uses.configuration, ("openstack".to_owned(), "ceph-etc".to_owned()));
    let volumes = &uses.consumers[&Consumer::Cinder];
    assert_eq!(
        volumes.keyring,
        Some(("openstack".to_owned(), "their-keyring".to_owned())),
        "the actual name of the Secret"
    );

    let storage = storage(&cloud(), &answers()).unwrap();
    let ceph = json!({"mode": "external", "secret": {"name": "cloud-adopted-ceph"}});
    assert_eq!(storage.feature, json!({"backend": "ceph", "ceph": ceph}));
    let contents: Vec<String> =
        storage.secret.1.iter().map(|(key, content)| format!("{key} {}", content.text())).collect();
    let fsid = format!("fsid {FSID}");
    let [backup, volumes, images] = ["cinder-backup", "cinder", "glance"].map(|name| format!("{name}.key {KEY}"));
    let expected = [
        &backup,
        "cinder-backup.pool cinder.backups",
        "cinder-backup.user cinderbackup",
        &volumes,
        "cinder.pool cinder.volumes",
        "cinder.user cinder",
        &fsid,
        &images,
        "glance.pool glance.images",
        "glance.user glance",
        "mon_host 10.0.0.1:6789",
        "nova.pool vms",
    ];
    assert_eq!(contents, expected);
    let variables = Value::Object(storage.declared.variables());
    assert_eq!((&variables["nova"]["user"], &variables["nova"]["own"]), (&json!("cinder"), &json!(false)));
}

#[test]
fn ignores_services_that_do_not_use_ceph() {
    let elsewhere = [
        found("glance", json!({"storage": "pvc"})),
        found("cinder", json!({"conf": {"cinder": {"DEFAULT": {"enabled_backends": "lvm"}}}})),
        found("nova", json!({"conf": {"ceph": {"enabled": true}, "nova": {"libvirt": {"images_type": "qcow2"}}}})),
    ];
    assert_eq!(used(&elsewhere), None);
    // With nova's disks elsewhere, nova still attaches volumes.
    let mut mixed = cloud();
    mixed[2] = found("nova", json!({"conf": {"nova": {"libvirt": {"images_rbd_pool": "vms", "rbd_user": "cinder"}}}}));
    assert!(storage(&mixed, &answers()).is_ok());
    mixed[0] = found("glance", json!({"storage": "pvc"}));
    let mut without = answers();
    without.keys.remove(&Consumer::Glance);
    let message = storage(&mixed, &without).err().unwrap().join("; ");
    assert!(message.contains("key glance.key: is missing"), "{message}");
}

#[test]
fn reports_everything_that_is_missing() {
    let messages = storage(&cloud(), &CephState::default()).err().unwrap();
    let missing = |secret: &str, user: &str| format!("Secret openstack/{secret} has no key of {user}");
    assert_eq!(
        messages,
        [
            "ConfigMap openstack/ceph-etc has no ceph.conf with mon_host".to_owned(),
            "its fsid is unknown (`ceph fsid` prints it)".to_owned(),
            missing("images-rbd-keyring", "glance's user glance"),
            missing("their-keyring", "cinder's user cinder"),
            missing("cinder-backup-rbd-keyring", "cinder-backup's user cinderbackup"),
        ]
    );
    let mut named = answers();
    named.configuration = Some(format!("fsid = {FSID}\nmon_host = ceph-mon.ceph.svc.cluster.local:6789"));
    let message = storage(&cloud(), &named).err().unwrap().join("; ");
    assert!(message.contains("key mon_host: address 1 is invalid"), "{message}");
}

#[test]
fn takes_a_missing_fsid_from_the_only_ceph_cluster() {
    let mut bare = answers();
    bare.configuration = Some("[global]\nmon_host = 10.0.0.1:6789\n".into());
    bare.clusters = [("rook-ceph/main".to_owned(), Some(FSID.to_owned()))].into();
    let known = storage(&cloud(), &bare).unwrap();
    assert_eq!(known.guessed.as_deref(), Some("rook-ceph/main"));
    assert_eq!(known.secret.1["fsid"].text(), FSID);
    bare.clusters.insert("rook-ceph/other".into(), Some(FSID.replace('6', "7")));
    assert!(storage(&cloud(), &bare).is_err(), "either of two may be in use");
    bare.configuration = answers().configuration;
    assert_eq!(storage(&cloud(), &bare).unwrap().guessed, None);
}

#[test]
fn the_declaration_changes_no_release() {
    let catalog = crate::files::load_catalog(None).unwrap();
    let found = cloud();
    let (known, storage) = (identify_releases(&found, &catalog), storage(&found, &answers()).unwrap());
    let provide_facts = |selection: &_| crate::placeholder::facts(&catalog, selection);
    let cloud = CloudInventory::new(("openstack", "cloud"), &known, &catalog, &provide_facts).with_storage(Some(&storage));
    let Description { spec, secrets, compared, .. } = cloud.describe();
    assert_eq!(spec.features["storage"], storage.feature);
    assert!(secrets["cloud-adopted-ceph"] == storage.secret.1);
    assert_eq!(compared.len(), 3);
    for (name, compared) in &compared {
        assert_eq!(compared.result, ComparisonResult::Same, "{name}");
    }
    let glance = serde_json::to_string(&spec.services["glance"]).unwrap();
    assert!(!glance.contains("rbd_store_pool"), "the value comes from the declaration: {glance}");
}
