//! Checks the samples: the minimal sample stays small, and the CRD's rules and the catalogue accept each sample.

use kube::core::cel::Validator;
use osdpl_core::desired::select;
use osdpl_core::{api, schema};
use osdpl_values::yaml;
use serde_json::Value;

use crate::{path, read, shipped};

fn samples() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(path("deploy/samples")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| (name.clone(), read(&format!("deploy/samples/{name}")))).collect()
}

#[test]
fn minimal_sample_is_small() {
    let text = read("deploy/samples/minimal.yaml");
    assert!(text.lines().count() <= 12, "{text}");
}

#[test]
fn server_accepts_every_sample() {
    let catalog = shipped();
    let crd = serde_json::to_value(schema::crd(&catalog).unwrap()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for (name, text) in samples() {
        assert!(
            text.contains(&format!("# kubectl apply --server-side -f deploy/samples/{name}\n")),
            "{name} lacks the command that applies it"
        );
        let object: Value = yaml::parse(&name, &text).unwrap();
        if object["kind"] == "NodeMaintenance" {
            let crd = serde_json::to_value(schema::maintenance_crd().unwrap()).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            Validator::new().validate(schema, &object, None).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
            drop(yaml::parse::<api::NodeMaintenance>(&name, &text).unwrap());
            continue;
        }
        Validator::new().validate(schema, &object, None).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        let resource: api::OpenStackDeployment = yaml::parse(&name, &text).unwrap();
        let selection = select("cloud", "openstack", &resource.spec, &catalog);
        assert!(!selection.is_refused(), "{name}: {:?}", selection.findings);
    }
}

#[test]
fn invalid_kubeconfig_is_not_a_new_cloud() {
    let home = tempfile::tempdir().unwrap();
    let plan = |text: Option<&str>| {
        if let Some(text) = text {
            std::fs::create_dir_all(home.path().join(".kube")).unwrap();
            std::fs::write(home.path().join(".kube/config"), text).unwrap();
        }
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.current_dir(path("")).args(["plan", "-f", "deploy/samples/minimal.yaml"]);
        let command = command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST").env("HOME", home.path());
        let output = command.output().unwrap();
        (String::from_utf8(output.stderr).unwrap(), output.status.success())
    };
    let new_cloud = "no cluster is configured: this is the plan of a new cloud";
    let (stderr, planned) = plan(None);
    assert!(planned && stderr.contains(new_cloud), "{stderr}");
    let (stderr, planned) = plan(Some("apiVersion: v1\nkind: Config\n"));
    assert!(
        planned && stderr.contains(new_cloud),
        "with a kubeconfig without clusters, osdpl must plan a new cloud: {stderr}"
    );
    let (stderr, planned) = plan(Some("clusters: [broken\n"));
    assert!(!planned && stderr.contains("this is not a kubeconfig: "), "{stderr}");
}
