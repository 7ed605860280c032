//! Tests that commands skip malformed release records. Anyone who may write Secrets in a namespace can create such a
//! record. The record must not stop the commands of other users.

use std::process::Command;

use serde_json::json;

use super::{SHARED, kubectl, namespaced, run};
use crate::resource;

const NAMESPACE: &str = "records";

/// Runs a command of osdpl that must fail; returns its standard error.
fn osdpl_fails(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.args(arguments).args(["--namespace", NAMESPACE]).env("KUBECONFIG", SHARED.cluster.kubeconfig());
    let output = command.env_remove("RUST_LOG").env_remove("OSDPL_CATALOG").output().unwrap();
    assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn commands_skip_a_malformed_release_record() {
    let _ = run(namespaced(NAMESPACE));
    let metadata = json!({"name": "nameless", "namespace": NAMESPACE, "labels": {"owner": "helm"}});
    let record = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "helm.sh/release.v1"});
    let mut cloud = resource("{openstackRelease: '2026.1'}");
    cloud["metadata"]["namespace"] = NAMESPACE.into();
    for object in [record, cloud] {
        kubectl(&["create", "-f", "-"], &object.to_string()).unwrap();
    }
    let status = json!({"status": {"ownedReleases": [format!("{NAMESPACE}/keystone")]}}).to_string();
    let patch =
        ["patch", "osdpl", "cloud", "--namespace", NAMESPACE, "--subresource", "status", "--type", "merge", "-p"];
    kubectl(&[&patch[..], &[&status]].concat(), "").unwrap();
    for (command, expected) in [
        ("adopt", "no release in namespace records uses a chart of the catalogue"),
        ("openrc", "cloud has no release of Keystone yet"),
        ("smoke", "cloud has no release of Keystone yet"),
    ] {
        let errors = osdpl_fails(&[command]);
        let warning = "warning: osdpl skips a release record: secret records/nameless has the type of a helm release \
                       record, but its label \"name\" is missing; ";
        assert!(errors.contains(warning) && errors.contains("correct its labels"), "{command}: {errors}");
        assert!(errors.contains(expected), "{command}: {errors}");
    }
}
