//! Tests that a pass uses the selection of the last pass again.

use std::sync::Arc;

use osdpl_core::catalog::Catalog;
use serde_json::json;

use super::*;

/// Changes the snapshot after a pass, and returns whether the next pass uses the same selection again.
///
/// Also checks that the next pass selects and finds the same as a pass that knows no earlier selection.
fn reuses_selection(change: fn(&mut Snapshot)) -> bool {
    let mut snapshot = snapshot(json!({"spec": {"paused": true}}));
    let first = complete(&mut snapshot);
    snapshot.kept = first.kept;
    change(&mut snapshot);
    let second = complete(&mut snapshot);
    snapshot.kept = Kept::default();
    let new = complete(&mut snapshot);
    let texts = |plan: &Plan| plan.findings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&second), texts(&new));
    let (first, second, new) = (first.selection.unwrap(), second.selection.unwrap(), new.selection.unwrap());
    assert_eq!((&second.name, &second.releases), (&new.name, &new.releases));
    assert_eq!(second.scope.variable("spec"), new.scope.variable("spec"));
    Arc::ptr_eq(&first, &second)
}

#[test]
fn reuses_the_selection_until_its_inputs_change() {
    assert!(reuses_selection(|_| {}));
    assert!(reuses_selection(|snapshot| snapshot.helm.major = 3), "the selection does not depend on facts");
    let changes: [fn(&mut Snapshot); 6] = [
        |snapshot| snapshot.deployment.metadata.name = Some("cirrus".into()),
        |snapshot| snapshot.deployment.metadata.namespace = Some("clouds".into()),
        |snapshot| snapshot.deployment.spec.region = Some("north".into()),
        |snapshot| {
            let applied = json!({"spec": {"common": {"all": {"values": {"conf": null}}}}}).to_string();
            let annotations = snapshot.deployment.metadata.annotations.get_or_insert_default();
            annotations.insert("kubectl.kubernetes.io/last-applied-configuration".into(), applied);
        },
        |snapshot| {
            let status = json!({"openstackRelease": {"deployed": "2025.2"}});
            snapshot.deployment.status = Some(serde_json::from_value(status).unwrap());
        },
        |snapshot| snapshot.catalog = Arc::new(Catalog::load(&osdpl_core::testing::files(&[])).unwrap()),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert!(!reuses_selection(change), "change {index}");
    }
}

#[test]
fn the_work_of_earlier_passes_does_not_count() {
    let mut snapshot = snapshot(json!({"spec": {"paused": true}}));
    // Another version of helm changes the facts, so each pass resolves the releases again.
    let mut used = |major: u64| {
        snapshot.helm.major = major;
        let plan = complete(&mut snapshot);
        snapshot.kept = plan.kept;
        plan.selection.unwrap().scope.used()
    };
    let (first, second, third) = (used(4), used(3), used(4));
    assert!(first.steps > 0);
    assert_eq!([second, third], [first, first], "all expressions of one pass share a limit, not those of all passes");
}
