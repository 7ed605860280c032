use std::path::Path;

use serde_json::json;

use super::*;
use crate::value_change::Change;
use osdpl_core::difference::Id;

fn release(name: &str, effects: Effects) -> ReleaseReport {
    ReleaseReport {
        name: name.into(),
        release: format!("cloud/{name}"),
        chart: "store 1.0.0".into(),
        effects,
        ..ReleaseReport::default()
    }
}

fn object(kind: &str, effect: Effect) -> Difference {
    let id = Id { kind: kind.into(), group: String::new(), namespace: "cloud".into(), name: "api".into() };
    Difference { id, effect, fields: Vec::new() }
}

fn change(before: &str, after: &str) -> Change {
    Change { path: "conf.x".into(), before: Some(json!(before)), after: Some(json!(after)), source: None }
}

fn report(releases: Vec<ReleaseReport>, charts: bool) -> AdoptReport {
    AdoptReport { releases, openstack_release: "2026.1".into(), charts, ..AdoptReport::default() }
}

#[test]
fn reports_changes_of_each_release_and_a_summary() {
    let recreated = Effect::Recreated { fields: vec!["spec.selector".into()], pods: true };
    let effects = Effects {
        values: vec![change("1", "2"), change("<redacted>", "<redacted>")],
        objects: vec![
            object("ConfigMap", Effect::Changed),
            object("Deployment", Effect::RestartsPods),
            object("Job", recreated),
            object("Secret", Effect::Removed),
            object("Service", Effect::Added),
        ],
        unrendered: None,
    };
    let mut managed = release("managed", Effects { values: vec![change("1", "2")], ..Effects::default() });
    managed.owner = Some("Flux manages the release".into());
    let all = report(vec![release("same", Effects::default()), release("other", effects), managed], true);
    let expected = "\
same           cloud/same                   store 1.0.0                  adopting it changes nothing
other          cloud/other                  store 1.0.0                  adopting it would change 2 values, 5 objects
    conf.x: \"1\" → \"2\"
    conf.x: changed (secret, not shown)
    ConfigMap cloud/api changes
    Deployment cloud/api changes, and its pods restart
    Job cloud/api must be recreated: spec.selector can't be changed
    Secret cloud/api is removed
    Service cloud/api is added
managed        cloud/managed                store 1.0.0                  can't be adopted: Flux manages the release
1 of 3 releases can be adopted unchanged, 1 would change; objects: 1 added, 3 changed, 2 of these with a restart of pods, 1 to be recreated, 1 deleted \
(each waits for approval after adoption).
OpenStack 2026.1, no preset; nothing was written to the cluster.
osdpl wrote the resource and 0 Secrets to cloud.yaml; run `kubectl apply --server-side -f cloud.yaml`, then `osdpl plan`
";
    assert_eq!(all.table(Some(Path::new("cloud.yaml"))), expected);
}

#[test]
fn reports_only_values_without_charts() {
    let effects = Effects {
        values: vec![change("1", "2")],
        unrendered: Some("no charts are given (--charts)".into()),
        ..Effects::default()
    };
    let text = report(vec![release("other", effects)], false).table(None);
    assert!(
        text.contains("would change 1 value; objects not compared: no charts are given (--charts)\n    conf.x:"),
        "{text}"
    );
    assert!(text.contains("0 of 1 releases can be adopted unchanged, 1 would change"), "{text}");
    let text = report(vec![release("same", Effects::default())], false).table(None);
    assert!(text.contains("1 of 1 releases can be adopted unchanged, provided that the operator uses"), "{text}");
}
