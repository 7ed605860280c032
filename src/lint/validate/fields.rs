//! Reports fields of a resource that are unknown in the CRD, because the API server would refuse or drop such fields.

use serde_json::{Map, Value};

use super::metadata;
use crate::field::keys_of_field;
use osdpl_core::catalog::did_you_mean;
use osdpl_core::catalog::schema::field_path;
use osdpl_core::finding::Finding;

/// The top-level fields that every resource has.
const COMMON: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Returns a finding for each unknown field of a resource.
pub(super) fn unknown_fields(schema: &Value, object: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    for key in object.as_object().into_iter().flat_map(|object| object.keys()) {
        if !COMMON.contains(&key.as_str()) {
            let is_of_spec = schema["properties"]["spec"]["properties"].get(key).is_some();
            let hint = if is_of_spec { format!(" (did you mean \"spec.{key}\"?)") } else { did_you_mean(key, COMMON) };
            found.push(unknown(key.clone(), &hint));
        }
    }
    found.extend(metadata::unknown(object).map(|(field, hint)| unknown(field, &hint)));
    walk(&object["spec"], &schema["properties"]["spec"], "spec", &mut found);
    found
}

fn unknown(field: String, hint: &str) -> Finding {
    Finding::error("field", field, format!("there is no such field{hint}; correct it, or remove it"))
}

/// Adds a finding for each field in `value` that `schema` does not define. Accepts all fields of a map if the schema
/// lists no fields for the map, or permits unknown ones.
fn walk(value: &Value, schema: &Value, field: &str, found: &mut Vec<Finding>) {
    let keeps_unknown = schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true);
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        walk(item, &schema["items"], &format!("{field}[{index}]"), found);
    }
    let properties = schema["properties"].as_object();
    for (key, value) in value.as_object().into_iter().flatten() {
        let field = field_path(field, key);
        match (properties.and_then(|properties| properties.get(key)), &schema["additionalProperties"]) {
            (Some(known), _) => walk(value, known, &field, found),
            (None, entries @ Value::Object(_)) => walk(value, entries, &field, found),
            (None, Value::Bool(true)) => {}
            (None, _) => {
                if let Some(properties) = properties.filter(|_| !keeps_unknown) {
                    let similar = || did_you_mean(key, properties.keys().map(String::as_str));
                    found.push(unknown(field, &reference_hint(key, value, properties).unwrap_or_else(similar)));
                }
            }
        }
    }
}

/// The fields with which the spec of a container references a Secret or `ConfigMap`, each with the referenced kind.
const REFERENCES: [(&str, &str); 4] = [
    ("secretKeyRef", "Secret"),
    ("secretRef", "Secret"),
    ("configMapKeyRef", "ConfigMap"),
    ("configMapRef", "ConfigMap"),
];

/// Returns a hint if the user wrote a reference to a Secret or `ConfigMap` in the form that containers use.
///
/// Containers use the form `secretKeyRef: {name: …}`. osdpl's references have no `secretKeyRef`: `name` is a field of
/// the reference itself.
fn reference_hint(key: &str, value: &Value, properties: &Map<String, Value>) -> Option<String> {
    let (_, kind) = REFERENCES.iter().find(|(name, _)| *name == key).filter(|_| properties.contains_key("name"))?;
    let own = |field: &str| value[field].as_str().map(|text| format!("{field}: {text}"));
    let kind = properties.contains_key("kind").then(|| format!("kind: {kind}"));
    let name = own("name").unwrap_or_else(|| "name: NAME".to_owned());
    let fields = kind.into_iter().chain([name]).chain(own("key")).collect::<Vec<_>>().join(", ");
    Some(format!(" (did you mean {{{fields}}} without {key}?)"))
}

/// Whether the finding `missing` is superfluous, because `reported` describes the same mistake.
///
/// The mistake is a reference in the form that containers use, `secretKeyRef: {name: …}`. For this mistake, `reported`
/// says that the field `secretKeyRef` is unknown. `missing` says that a required field, such as `name`, is missing
/// beside `secretKeyRef`.
pub(super) fn is_explained_by(missing: &Finding, reported: &Finding) -> bool {
    let (field, reference) = (keys_of_field(missing.field()), keys_of_field(reported.field()));
    let (Some((field, above)), Some((reference, sibling))) = (field.split_last(), reference.split_last()) else {
        return false;
    };
    reported.rule == "field"
        && above == sibling
        && ["kind", "name", "key"].contains(&field.as_str())
        && REFERENCES.iter().any(|(name, _)| name == reference)
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use osdpl_core::api::OpenStackDeployment;

    #[test]
    fn reports_unknown_fields_but_not_free_form_ones() {
        let crd = serde_json::to_value(OpenStackDeployment::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let object = serde_json::json!({"foo": 1, "kind": "OpenStackDeployment", "presets": [], "metadata": {"lables": {"a": "b"}}, "spec": {
            "nodes": {"overrides": [{"nmae": "a"}]},
            "services": {"nova": {"enbled": false, "releases": {"nova": {"values": {"any": {"thing": 1}}}}}}}});
        let found: Vec<_> = unknown_fields(schema, &object).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "foo: there is no such field; correct it, or remove it",
                "presets: there is no such field (did you mean \"spec.presets\"?); correct it, or remove it",
                "metadata.lables: there is no such field (did you mean \"labels\"?); correct it, or remove it",
                "spec.nodes.overrides[0].nmae: there is no such field (did you mean \"name\"?); correct it, or remove it",
                "spec.services.nova.enbled: there is no such field (did you mean \"enabled\"?); correct it, or remove it",
            ]
        );
    }
}
