//! Volumes that instances read and write, and the rotation of the key with which the services use Ceph.

use crate::cloud::{Cloud, run, until};
use crate::instance::Instance;
use crate::probe::{INSTANCE, Probes};
use crate::usable::smoke;

/// Deletes the volume $1 and its snapshots, and waits until the volume is gone.
const DELETE: &str = r#"
openstack volume delete --purge "$1"
while openstack volume list -f value -c Name | grep -qx -- "$1"; do sleep 1; done"#;
/// Replaces the key of cinder's Ceph user, and updates the Secret that describes Ceph for osdpl. Prints the new key.
const ROTATE: &str = r#"
key=$(ceph-authtool --gen-print-key)
ceph auth get client.cinder | sed "s|key = .*|key = $key|" | ceph auth import -i - 2> /dev/null
sh -eu /etc/ceph/describe > /dev/null 2>&1
echo "$key""#;

/// A volume, which is deleted at the end of the test.
struct Volume<'a> {
    cloud: &'a Cloud,
    name: &'static str,
}

impl<'a> Volume<'a> {
    /// Creates a volume of 1 GiB, and waits until it is available. `source` contains options of the client that name
    /// the source of the data.
    fn create(cloud: &'a Cloud, name: &'static str, source: &[&str]) -> Self {
        let volume = Self { cloud, name };
        cloud.openstack(&[&["volume", "create", "--size", "1"], source, &[name]].concat());
        volume.until("available");
        volume
    }

    fn attach(&self, instance: &Instance<'_>) {
        self.cloud.script(r#"openstack server add volume "$1" "$2" > /dev/null"#, &[instance.name, self.name]);
        self.until("in-use");
    }

    fn detach(&self, instance: &Instance<'_>) {
        self.cloud.script(r#"openstack server remove volume "$1" "$2""#, &[instance.name, self.name]);
        self.until("available");
    }

    fn until(&self, status: &str) {
        until(&format!("the volume {} is {status}", self.name), || {
            let volume = self.cloud.openstack(&["volume", "show", self.name]);
            let now = volume["status"].as_str().unwrap_or_default();
            assert!(!now.starts_with("error"), "the volume {} has the status {now}", self.name);
            (now == status).then_some(())
        });
        println!("  the volume {} is {status}", self.name);
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        match self.cloud.try_script(DELETE, &[self.name]) {
            Ok(_) => println!("  the volume {} is deleted", self.name),
            Err(error) if std::thread::panicking() => println!("  the volume {} is not deleted: {error}", self.name),
            Err(error) => panic!("the volume {} is not deleted: {error}", self.name),
        }
    }
}

/// Whether the cloud has a backend for volumes.
fn has_volumes(cloud: &Cloud) -> bool {
    let services = cloud.openstack(&["catalog", "list"]);
    let has = services.as_array().unwrap().iter().any(|service| service["Type"] == "volumev3");
    if !has {
        println!("the cloud has no volumes: create it with `make real SAMPLE=deploy/samples/real-ceph.yaml`");
    }
    has
}

/// A volume keeps its data when it moves from one instance to another. A snapshot keeps the data that the volume had.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn volume_keeps_its_data() {
    let cloud = Cloud::find();
    if !has_volumes(&cloud) {
        return;
    }
    smoke(&cloud, &["volume", "attachment"]);
    // The test deletes the instances first, which detaches the volumes.
    let volume = Volume::create(&cloud, "osdpl-volume", &[]);
    let [first, second] = ["osdpl-volume-1", "osdpl-volume-2"].map(|name| Instance::start(&cloud, name));

    volume.attach(&first);
    first.write_volume("first");
    volume.detach(&first);
    cloud.openstack(&["volume", "snapshot", "create", "--volume", volume.name, volume.name]);
    until("the snapshot is available", || {
        let snapshot = cloud.openstack(&["volume", "snapshot", "show", volume.name]);
        (snapshot["status"] == "available").then_some(())
    });
    volume.attach(&second);
    assert_eq!(second.read_volume(), "first");
    second.write_volume("second");

    let copy = Volume::create(&cloud, "osdpl-volume-copy", &["--snapshot", volume.name]);
    copy.attach(&first);
    assert_eq!(first.read_volume(), "first", "the snapshot is older than the second text");
    copy.detach(&first);
    drop(copy);
    volume.detach(&second);
}

/// The services use a new Ceph key after a rotation. Meanwhile, an instance uses its volume without an interruption.
/// Needs the Ceph cluster of `make real`.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn volumes_outlive_a_rotation_of_the_ceph_key() {
    let cloud = Cloud::find();
    if !has_volumes(&cloud) {
        return;
    }
    let volume = Volume::create(&cloud, "osdpl-ceph-key", &[]);
    let first = Instance::start(&cloud, "osdpl-ceph-key-1");
    volume.attach(&first);
    first.write_volume("before");

    println!("the key of client.cinder is replaced");
    let probes = Probes::start(&cloud, Some(&first.volume));
    let client = "-n ceph exec -i ceph-0 -c client -- sh -eu -s";
    let key = run("kubectl", &client.split(' ').collect::<Vec<_>>(), ROTATE);
    println!("  {}", cloud.until_message("approv"));
    cloud.osdpl(&["approve"]);
    cloud.until_ready();
    let failures = probes.stop().into_iter().find(|report| report.name == INSTANCE).map(|report| report.failures);
    assert_eq!(failures, Some(0), "the instance must read its volume at all times");
    let stored =
        cloud.kubectl(&["exec", "deployment/cinder-volume", "--", "cat", "/etc/ceph/ceph.client.cinder.keyring"]);
    assert!(stored.contains(key.trim()), "cinder-volume must have the new key");
    first.write_volume("after");
    volume.detach(&first);

    // The old key is invalid, so all of this needs the new key: the disk of an instance, and an attachment.
    let second = Instance::start(&cloud, "osdpl-ceph-key-2");
    volume.attach(&second);
    assert_eq!(second.read_volume(), "after");
    volume.detach(&second);
}
