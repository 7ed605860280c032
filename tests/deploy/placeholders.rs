//! Checks which facts commands without a cluster take from the file of the resource, and that the outputs name the
//! placeholders for all other facts.

use std::process::Command;

use serde_json::{Value, json};

use crate::read;

/// A Secret that describes an external Ceph with gateways.
const CEPH: &str = "\
---
apiVersion: v1
kind: Secret
metadata: {name: ceph, namespace: openstack}
stringData:
  mon_host: 10.0.0.1
  fsid: 6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b
  glance.pool: pictures
  glance.user: painter
  glance.key: AQABAgMEBQYHCBAApqampqampqampqampqamgQ==
  cinder.pool: volumes
  cinder.key: AQABAgMEBQYHCBAApqampqampqampqampqamgg==
  cinder-backup.pool: backups
  cinder-backup.key: AQABAgMEBQYHCBAApqampqampqampqampqamgw==
  manila.pool: shares
  manila.key: AQABAgMEBQYHCBAApqampqampqampqampqamhA==
  nova.pool: vms
  rgw_internal: http://rgw.storage.example.org:8080
";

const USER: &str = "conf.glance.rbd.rbd_store_user";
const HOSTS: &str = "endpoints.object_store.host_fqdn_override";

/// Returns the sample `storage` with an object store.
fn storage() -> String {
    let secret = "        secret: {name: ceph}\n";
    let sample = read("deploy/samples/storage.yaml");
    assert!(sample.contains(secret), "{sample}");
    let store = "        objectStore: {name: objects, publicUrl: \"https://objects.example.org\"}\n";
    sample.replace(secret, &format!("{secret}{store}"))
}

/// Returns the lines with which commands name the placeholders for a Ceph whose Secret is not in the file.
fn lines() -> [String; 2] {
    let why = "Secret ceph, which spec.features.storage.ceph.secret references, is not in the file";
    ["Ceph's monitors, fsid, users and pools", "the internal addresses of the object store's gateways (RGW)"]
        .map(|facts| format!("{facts}: {why}"))
}

/// Runs osdpl in a folder with the resource in `cloud.yaml`, and a passing test case for it in `cases.yaml`. Returns
/// the standard output and the standard error.
fn run(resource: &str, arguments: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cloud.yaml"), resource).unwrap();
    let cases = "file: cloud.yaml\ncases:\n- name: images\n  expect: [{release: glance, wanted: true}]\n";
    std::fs::write(folder.path().join("cases.yaml"), cases).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.current_dir(folder.path()).args(arguments).env_remove("OSDPL_CATALOG").env_remove("KUBECONFIG");
    let output = command.output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
    (stdout, stderr)
}

/// Returns the field `placeholders` in the JSON output of each command that prints one.
fn in_json(resource: &str) -> [Value; 4] {
    let printed = |arguments: &[&str]| -> Value {
        serde_json::from_str(&run(resource, &[arguments, &["-o", "json"]].concat()).0).unwrap()
    };
    [
        printed(&["explain", "-f", "cloud.yaml", "glance", USER])[0]["placeholders"].clone(),
        printed(&["plan", "--offline", "-f", "cloud.yaml"])["placeholders"].clone(),
        printed(&["preset", "diff", "-f", "cloud.yaml", "compute,storage", "storage"])["placeholders"].clone(),
        printed(&["test", "cases.yaml"])["cases"][0]["placeholders"].clone(),
    ]
}

#[test]
fn uses_the_facts_in_the_file() {
    let resource = storage() + CEPH;
    for (arguments, expected) in [
        (
            &["render", "-f", "cloud.yaml", "glance", "ceph-rgw"][..],
            &["rbd_store_pool: pictures\n", "rbd_store_user: painter\n", "host: rgw.storage.example.org\n"][..],
        ),
        (
            &["explain", "-f", "cloud.yaml", "glance", USER],
            &[" = \"painter\"\n", "reads Ceph, as described by Secret openstack/ceph\n"],
        ),
        (
            &["explain", "-f", "cloud.yaml", "ceph-rgw", &format!("{HOSTS}.public.host")],
            &[" = \"objects.example.org\"\n", "reads spec.features.storage.ceph.objectStore.publicUrl\n"],
        ),
        (&["plan", "--offline", "-f", "cloud.yaml"], &["glance "]),
        (&["preset", "diff", "-f", "cloud.yaml", "compute,storage", "storage"], &["releases removed: "]),
        (&["test", "cases.yaml"], &["1 passed, 0 failed.\n"]),
    ] {
        let (stdout, stderr) = run(&resource, arguments);
        assert!(expected.iter().all(|text| stdout.contains(text)), "{arguments:?}: {stdout}");
        assert!(!(stdout.clone() + &stderr).contains("placeholder"), "{arguments:?}: {stdout}{stderr}");
    }
    assert_eq!(in_json(&resource), [const { Value::Null }; 4]);
}

#[test]
fn names_placeholders_for_missing_facts() {
    let resource = storage();
    let [settings, gateways] = lines();
    let printed = format!("placeholder: {settings}\nplaceholder: {gateways}\n");
    for arguments in [
        &["explain", "-f", "cloud.yaml", "glance", USER][..],
        &["plan", "--offline", "-f", "cloud.yaml"],
        &["render", "-f", "cloud.yaml", "glance"],
    ] {
        let (stdout, stderr) = run(&resource, arguments);
        assert!(stderr.contains(&printed), "{arguments:?}: {stdout}{stderr}");
    }
    for arguments in [
        &["preset", "diff", "-f", "cloud.yaml", "compute,storage", "storage"][..],
        &["test", "cases.yaml"],
        &["test", "cases.yaml", "-o", "junit"],
    ] {
        let (stdout, _) = run(&resource, arguments);
        let expected = if arguments.contains(&"junit") { printed.trim_end() } else { &printed };
        assert!(stdout.contains(expected), "{arguments:?}: {stdout}");
    }
    assert_eq!(in_json(&resource), [(); 4].map(|()| json!([settings, gateways])));
    let (explained, _) = run(&resource, &["explain", "-f", "cloud.yaml", "glance", USER]);
    assert!(explained.contains("reads Ceph, as described by a placeholder\n"), "{explained}");
}

/// The commands also name values that they leave out: those of objects that are not in the file, and those that need
/// the facts of a Job.
#[test]
fn names_values_that_are_left_out() {
    let resource = "\
apiVersion: osdpl.dev/v1alpha1
kind: OpenStackDeployment
metadata: {name: cloud, namespace: openstack}
spec:
  openstackRelease: \"2026.1\"
  presets: [compute]
  services:
    octavia: {enabled: true}
    glance: {releases: {glance: {valuesFrom: [{kind: Secret, name: more}]}}}
";
    let field = "spec.services.glance.releases.glance.valuesFrom[0]";
    let expected = json!([
        format!(
            "Secret more, key values.yaml, which {field} references, is not in the file, so osdpl leaves out its values"
        ),
        "the facts in ConfigMap openstack/octavia-prerequisites, which a Job of octavia stores in the cluster; osdpl \
         leaves out the values that need these facts",
    ]);
    for placeholders in in_json(resource) {
        assert_eq!(placeholders, expected);
    }
}

#[test]
fn rendered_files_name_placeholders() {
    let [settings, gateways] = lines();
    let comments = format!("# placeholder: {settings}\n# placeholder: {gateways}\n");
    let arguments = ["render", "-f", "cloud.yaml", "ceph-rgw"];
    let (stdout, _) = run(&storage(), &arguments);
    assert!(stdout.starts_with(&format!("{comments}---\n# ceph-rgw ")), "{stdout}");
    assert!(stdout.contains("host: rgw.placeholder.invalid\n"), "{stdout}");
    assert!(stdout.contains("host: objects.example.org\n"), "{stdout}");
    let folder = tempfile::tempdir().unwrap();
    run(&storage(), &[&arguments[..], &["--out", folder.path().to_str().unwrap()]].concat());
    let script = std::fs::read_to_string(folder.path().join("install.sh")).unwrap();
    assert!(script.contains(&comments), "{script}");
}
