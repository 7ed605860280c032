//! Checks the limits on the steps and bytes of CEL expressions: the expressions in the shipped catalogue stay far below
//! the limits, and osdpl refuses a user's addition to the catalogue if one of its expressions exceeds a limit.

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Addition, extend_catalog};
use osdpl_core::desired::select;
use osdpl_values::expr::Work;
use serde_json::{Value, json};

use crate::clouds::{catalogue, clouds, files, refusals, resolved};

/// Returns the work (steps and bytes) of a cloud's most expensive expression, and the work of all of the cloud's
/// expressions together.
fn used(catalog: &osdpl_core::catalog::Catalog, spec: &Value) -> (Work, Work) {
    let parsed: OpenStackDeploymentSpec = serde_json::from_value(spec.clone()).unwrap();
    let selection = select("cloud", "openstack", &parsed, catalog);
    osdpl_core::desired::resolve(&parsed, catalog, &selection, &osdpl_core::desired::Facts::default());
    (selection.scope.largest(), selection.scope.used())
}

#[test]
fn shipped_expressions_need_little_work() {
    let catalog = catalogue();
    let (mut one, mut all) = (Work::default(), Work::default());
    // Add a cloud with as many flavors and properties as the schema allows: the longer a list, the more work an
    // expression over this list needs.
    let properties: Vec<String> = (0..64).map(|index| format!("hw:property_{index}=value")).collect();
    let flavor = |index| {
        let name = format!("flavor{index}");
        json!({"name": name, "vcpus": 1, "ramMiB": 1, "diskGiB": 1, "properties": properties})
    };
    let mut large = clouds()[0].1.clone();
    large["features"]["bootstrap"]["flavors"] = (0..64).map(flavor).collect::<Vec<_>>().into();
    for spec in clouds().into_iter().map(|(_, spec)| spec).chain([large]) {
        let (largest, sum) = used(catalog, &spec);
        one = Work { steps: one.steps.max(largest.steps), bytes: one.bytes.max(largest.bytes) };
        all = Work { steps: all.steps.max(sum.steps), bytes: all.bytes.max(sum.bytes) };
    }
    println!("largest expression {one:?} of {:?}; all expressions {all:?} of {:?}", Work::OF_ONE, Work::OF_ALL);
    assert!(one.steps > 0 && all.bytes > 0);
    assert!(one.steps * 10 < Work::OF_ONE.steps && one.bytes * 10 < Work::OF_ONE.bytes, "{one:?}");
    assert!(all.steps * 20 < Work::OF_ALL.steps && all.bytes * 10 < Work::OF_ALL.bytes, "{all:?}");
}

/// Returns a user's addition to the catalogue with this value and this condition. One of the two is an expression that
/// would run for hours or create gigabytes of data.
fn bomb(values: &str, when: &str) -> Addition {
    let fragment = format!(
        "- when: \"{when}\"\n  releases: {{memcached: {{values: {{conf: {{memcached: {{memory: \"{values}\"}}}}}}}}}}"
    );
    let text = format!("preset: bomb\ndescription: A test.\nservices: [memcached]\nfragments:\n{fragment}\n");
    Addition::new("openstack", "bomb", [("presets.bomb.yaml".to_owned(), text)].into())
}

#[test]
fn bombs_in_additions_give_one_finding() {
    let list = format!("[{}]", vec!["1"; 60].join(","));
    let nested = (0..8).fold("true".to_owned(), |body, depth| format!("{list}.all(x{depth}, {body})"));
    let doubled = format!("'aaaaaaaaaa'{}", ".replace('a', 'aaaaaaaaaa')".repeat(9));
    for (values, when) in [
        (format!("${{{doubled}}}"), "true".to_owned()),
        (format!("${{{nested}}}"), "true".to_owned()),
        ("x".to_owned(), nested.clone()),
        ("x".to_owned(), format!("{doubled} == 'a'")),
    ] {
        let extended = extend_catalog(&files(), &[bomb(&values, &when)]).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(extended.rejected, Vec::new());
        let desired = resolved(&extended.catalog, &json!({"openstackRelease": "2026.1", "presets": ["bomb"]}));
        let [refusal] = &refusals(&desired)[..] else { panic!("{:?}", refusals(&desired)) };
        let remedy =
            "an expression may take at most 400000 steps and create at most 8 MiB of values; use shorter lists";
        assert!(refusal.contains(remedy) && refusal.contains("presets.bomb.yaml"), "{refusal}");
    }
}
