//! Computes the overrides with which a release keeps its current values after the adoption.

use serde_json::Value;

use crate::api::Overrides;
use crate::scrub::{find_secret_paths, is_secret_value};
use osdpl_values::{Path, Values, coalesce, merge, normalize_numbers, set};

/// The maximum number of rounds of [`compute_overrides`]. Each round computes the values that result from the overrides
/// so far, and adds an override where they differ from the values of the running release.
///
/// One round may not be enough: if an override replaces a scalar in the desired values with a map, helm also merges the
/// chart's default map into this map. The next round must then override these defaults, too.
const ROUNDS: usize = 4;

/// The maximum number of paths in the field `unset` of a release, according to the CRD.
const MOST_UNSET: usize = 40;
/// The maximum length of a path in the field `unset` of a release, according to the CRD.
const LONGEST_UNSET: usize = 128;

/// The overrides with which one release keeps its current values after the adoption: overrides without secrets for the
/// spec, and overrides with secrets for a Secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RemainingOverrides {
    /// The overrides without secrets, for the spec.
    pub plain: Overrides,
    /// The overrides with secrets, for a Secret that the spec references.
    pub secret: Values,
}

/// Returns the overrides with which a desired release gets `given`, the values of the running release.
///
/// `wanted` are the values of the desired release without these overrides. Helm merges the values of a release into the
/// chart's `defaults`. So the result also overrides defaults that `given` removes or replaces.
pub(super) fn compute_overrides(defaults: &Values, wanted: &Values, given: &Values) -> RemainingOverrides {
    let effective = |values: &Values| {
        let mut values = coalesce(defaults, values);
        normalize_numbers(&mut values);
        values
    };
    let target = effective(given);
    let mut overrides = Values::new();
    for _ in 0..ROUNDS {
        let mut values = wanted.clone();
        merge(&mut values, overrides.clone());
        let before = overrides.clone();
        differences(&effective(&values), &target, &Path::root(), &mut overrides);
        if overrides == before {
            break;
        }
    }
    split(overrides, &find_secret_paths(&target))
}

/// Adds to `overrides` the overrides that change the map `from` into the map `to`. The override null removes a key.
///
/// `parent` is the path of both maps in the release's values.
fn differences(from: &Values, to: &Values, parent: &Path, overrides: &mut Values) {
    for (key, value) in to {
        let path = parent.child(key);
        match (from.get(key), value) {
            (Some(before), value) if before == value => {}
            (Some(Value::Object(before)), Value::Object(after)) => differences(before, after, &path, overrides),
            (_, value) => set(overrides, &path, value.clone()),
        }
    }
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        set(overrides, &parent.child(key), Value::Null);
    }
}

/// Divides overrides into those that contain secrets and those that contain none.
///
/// Some tools remove nulls from manifests. So the function turns each null into an entry of the list `unset`. It keeps
/// the null if the CRD does not allow the path in the list.
fn split(overrides: Values, secret_paths: &[Path]) -> RemainingOverrides {
    let mut remaining = RemainingOverrides::default();
    split_below(overrides, &Path::root(), secret_paths, &mut remaining);
    remaining
}

fn split_below(values: Values, parent: &Path, secret_paths: &[Path], remaining: &mut RemainingOverrides) {
    for (key, value) in values {
        let path = parent.child(&key);
        match value {
            Value::Object(map) if !map.is_empty() => split_below(map, &path, secret_paths, remaining),
            Value::Null if fits(&path, &remaining.plain.unset) => remaining.plain.unset.push(path.to_string()),
            value if is_secret_value(&path, &value) || secret_paths.iter().any(|secret| secret.covers(&path)) => {
                set(&mut remaining.secret, &path, value);
            }
            value => set(&mut remaining.plain.values, &path, value),
        }
    }
}

/// Whether the list `unset` can contain `path`. The CRD limits the number of paths in the list and the length of each
/// path. In addition, [`Path::parse`] must convert the text in the list back to the same path.
fn fits(path: &Path, unset: &[String]) -> bool {
    let text = path.to_string();
    unset.len() < MOST_UNSET && text.len() <= LONGEST_UNSET && Path::parse(&text).as_ref() == Ok(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Values {
        serde_json::from_value(value).unwrap()
    }

    /// Returns the values that templates read if the release has the overrides in `remaining`. Applies the overrides in
    /// the operator's order: the values in the Secret, the values in the spec, then `unset`.
    fn applied(defaults: &Values, wanted: &Values, remaining: &RemainingOverrides) -> Values {
        let mut values = wanted.clone();
        merge(&mut values, remaining.secret.clone());
        merge(&mut values, remaining.plain.values.clone());
        for path in &remaining.plain.unset {
            set(&mut values, &Path::parse(path).unwrap(), Value::Null);
        }
        coalesce(defaults, &values)
    }

    #[test]
    fn overrides_only_differences_and_splits_secrets() {
        let defaults = map(json!({"pod": {"replicas": 1}, "conf": {"a": {"x": 1, "y": 2}}}));
        let wanted = map(json!({"pod": {"replicas": 3}, "conf": {"a": {"x": 1}}, "auth": {"password": "made"}}));
        let given =
            map(json!({"pod": {"replicas": 3}, "conf": {"a": {"x": 9, "y": null}}, "auth": {"password": "theirs"}}));
        let remaining = compute_overrides(&defaults, &wanted, &given);
        assert_eq!(Value::Object(remaining.plain.values.clone()), json!({"conf": {"a": {"x": 9}}}));
        assert_eq!(remaining.plain.unset, ["conf.a.y"]);
        assert_eq!(Value::Object(remaining.secret.clone()), json!({"auth": {"password": "theirs"}}));
        assert_eq!(applied(&defaults, &wanted, &remaining), coalesce(&defaults, &given));
    }

    #[test]
    fn splits_secrets_of_extra_objects_in_every_form() {
        let one = json!({"kind": "Secret", "data": {"tls.key": "aHVudGVyMg=="}});
        for objects in
            [json!({ "one": one }), json!([one]), json!({"one": "kind: Secret\ndata: {tls.key: aHVudGVyMg==}\n"})]
        {
            let remaining = compute_overrides(&Values::new(), &Values::new(), &map(json!({ "extraObjects": objects })));
            let plain = Value::Object(remaining.plain.values.clone()).to_string();
            assert!(!plain.contains("aHVudGVyMg=="), "{plain}");
            assert!(Value::Object(remaining.secret).to_string().contains("aHVudGVyMg=="), "{objects}");
        }
        let wanted = map(json!({"extraObjects": {"one": {"kind": "Secret", "data": {"tls.key": "bWluZQ=="}}}}));
        let remaining = compute_overrides(&Values::new(), &wanted, &map(json!({"extraObjects": {"one": one}})));
        assert_eq!(
            remaining.plain,
            Overrides::default(),
            "an override of the data of a Secret in `extraObjects` is secret, even if the override itself lacks `kind: Secret`"
        );
    }

    #[test]
    fn splits_texts_with_passwords_but_not_with_templates() {
        let (text, template) = ("global:\n  smtp_auth_password: 'hunter2'\n", "password: {{ .Values.password }}\n");
        let given = map(json!({"conf": {"text": text, "template": template}}));
        let remaining = compute_overrides(&Values::new(), &Values::new(), &given);
        assert_eq!(Value::Object(remaining.secret), json!({"conf": {"text": text}}));
        assert_eq!(Value::Object(remaining.plain.values), json!({"conf": {"template": template}}));
    }

    #[test]
    fn a_map_that_replaces_a_scalar_exposes_no_defaults() {
        let defaults = map(json!({"tls": {"a": 1, "b": 2}}));
        let (wanted, given) = (map(json!({"tls": "off"})), map(json!({"tls": {"a": null, "c": 3}})));
        let remaining = compute_overrides(&defaults, &wanted, &given);
        assert_eq!(applied(&defaults, &wanted, &remaining), coalesce(&defaults, &given));
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..5i64).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
        })
    }

    fn trees() -> impl Strategy<Value = Values> {
        prop::collection::btree_map("[abc]", tree(), 0..4).prop_map(|m| m.into_iter().collect())
    }

    /// Removes the nulls that helm leaves when it merges values into the chart's defaults. Templates treat a null like
    /// a missing key.
    fn without_nulls(values: &mut Values) {
        values.retain(|_, value| !value.is_null());
        values.values_mut().filter_map(Value::as_object_mut).for_each(without_nulls);
    }

    proptest! {
        #[test]
        fn no_value_is_lost(defaults in trees(), wanted in trees(), given in trees()) {
            let remaining = compute_overrides(&defaults, &wanted, &given);
            let mut result = applied(&defaults, &wanted, &remaining);
            without_nulls(&mut result);
            prop_assert_eq!(result, coalesce(&defaults, &given));
        }
    }
}
