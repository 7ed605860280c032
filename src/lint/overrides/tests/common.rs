//! Tests warnings about values that `spec.common` sets for many releases. Also tests that a warning about an entry of
//! `unset` contains the index of the entry.

use super::*;

#[test]
fn reports_common_values_without_effect() {
    let keys = [
        ("values/keys/front.yaml", "pod: {history: 3, replicas: {api: 1}}\nname: string\n"),
        ("values/keys/store.yaml", "pod: {replicas: number}\n"),
    ];
    let of_all = |values: Value| warnings_with(json!({"common": {"values": values}}), &keys);
    let same = |path: &str| {
        format!(
            "no-effect spec.common.values.{path}: changes nothing: the chart has the same default; remove the value, so that later versions of the chart can change the default"
        )
    };
    assert_eq!(
        of_all(json!({"pod": {"history": 3}})),
        [same("pod.history")],
        "only `front` causes a warning, because the chart of `store` does not have the key"
    );
    assert_eq!(of_all(json!({"pod": {"history": 4}})), Vec::<String>::new());
    let empty = "changes nothing: helm merges maps, so an empty map keeps the chart's values; remove the empty map, or remove keys with `unset`";
    assert_eq!(
        warnings_with(
            json!({"services": {"front": {"releases": {"front": {"values": {"pod": {"replicas": {}}}}}}}}),
            &keys
        ),
        [format!("no-effect {OWN}.pod.replicas: {empty}")]
    );
}

#[test]
fn reports_the_index_of_an_unset_entry() {
    let found =
        warnings_of(json!({"services": {"front": {"releases": {"front": {"unset": ["a..b", "conf.front.debug"]}}}}}));
    assert!(found[0].starts_with("null-nothing spec.services.front.releases.front.unset[1]: "), "{found:?}");
}
