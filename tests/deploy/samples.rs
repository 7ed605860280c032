//! The samples: the smallest one is small, each is accepted by the CRD's rules and by the catalogue.

use kube::core::cel::Validator;
use osdpl::desired::select;
use osdpl::{api, yaml};
use serde_json::Value;

use crate::{path, read, shipped};

fn samples() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(path("deploy/samples")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| (name.clone(), read(&format!("deploy/samples/{name}")))).collect()
}

#[test]
fn the_smallest_useful_resource_is_small() {
    let text = read("deploy/samples/minimal.yaml");
    assert!(text.lines().count() <= 12, "{text}");
}

#[test]
fn every_sample_is_applied_by_the_server_and_accepted() {
    let catalog = shipped();
    let crd = serde_json::to_value(api::crd(&catalog).unwrap()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for (name, text) in samples() {
        assert!(
            text.contains(&format!("# kubectl apply --server-side -f deploy/samples/{name}\n")),
            "{name} says how it is applied"
        );
        let object: Value = yaml::parse(&name, &text).unwrap();
        if object["kind"] == "NodeMaintenance" {
            let crd = serde_json::to_value(api::maintenance_crd().unwrap()).unwrap();
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
