//! Checks the CRDs: they match the types and the catalogue, respect the API server's limits, and refuse invalid
//! resources with helpful messages.

use kube::core::cel::Validator;
use serde_json::{Value, json};

use crate::invalid_resources::{Check, INVALID_RESOURCES, InvalidResource, VALID_CHANGES};
use crate::{read, resource, shipped};

const COMMITTED: [&str; 2] = ["crds/openstackdeployments.osdpl.dev.yaml", "crds/nodemaintenances.osdpl.dev.yaml"];
/// The copy of both CRDs in the operator's own chart. The chart needs a copy, because helm reads no files outside of a
/// chart's folder.
const CARRIED: &str = "deploy/osdpl/templates/crd.yaml";
const REGENERATE: &str = "crds/generate";

/// Returns both CRDs as `osdpl crd` prints them.
fn generated() -> [String; 2] {
    [osdpl_core::schema::crd_yaml(&shipped()).unwrap(), osdpl_core::schema::maintenance_crd_yaml().unwrap()]
}

/// Returns the schemas of both CRDs.
fn schemas() -> [Value; 2] {
    let maintenance = serde_json::to_value(osdpl_core::schema::maintenance_crd().unwrap()).unwrap();
    [schema(), maintenance["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()]
}

fn schema() -> Value {
    let crd = serde_json::to_value(osdpl_core::schema::crd(&shipped()).unwrap()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Adds to `found` a schema and the schemas of all fields, values and items below it, each with its path.
fn walk<'a>(path: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    found.push((path.to_owned(), schema));
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), below, found);
    }
    for (step, below) in [("*", &schema["additionalProperties"]), ("[]", &schema["items"])] {
        if below.is_object() {
            walk(&format!("{path}.{step}"), below, found);
        }
    }
}

#[test]
fn committed_crds_are_up_to_date() {
    for (file, generated) in COMMITTED.into_iter().zip(generated()) {
        assert!(read(file) == generated, "{file} differs from the output of `osdpl crd`; run: {REGENERATE}");
        assert!(!generated.contains("{{"), "{file} contains `{{{{`, which helm reads as a template");
    }
    let carried = read(CARRIED);
    let carried =
        carried.strip_prefix("{{- if .Values.crd.create }}\n").and_then(|text| text.strip_suffix("{{- end }}\n"));
    assert!(
        carried == Some(&generated().join("---\n")),
        "{CARRIED} must contain the output of `osdpl crd` between `if` and `end`; run: {REGENERATE}"
    );
}

#[test]
fn crd_fits_client_side_apply() {
    // Client-side apply stores the whole CRD in an annotation as JSON. The API server limits all annotations of an
    // object to 256 KiB together. The limit of this test leaves room for other annotations.
    for generated in generated() {
        let object: Value = osdpl_values::yaml::parse("crd.yaml", &generated).unwrap();
        assert!(object.to_string().len() <= 200 * 1024);
    }
}

#[test]
fn every_field_is_bounded_without_defaults() {
    let schemas = schemas();
    let mut found = Vec::new();
    for schema in &schemas {
        walk("spec", &schema["properties"]["spec"], &mut found);
    }
    let mut unbounded = Vec::new();
    for (path, schema) in &found {
        let bounded = match schema["type"].as_str() {
            Some("string") => schema["maxLength"].is_number() || schema["enum"].is_array(),
            Some("array") => schema["maxItems"].is_number(),
            Some("object") => schema["properties"].is_object() || schema["maxProperties"].is_number(),
            Some("integer" | "number") => schema["maximum"].is_number() && schema["minimum"].is_number(),
            Some("boolean") => true,
            // A value of this type is a string or a number. `maxLength` limits strings; a CEL rule limits numbers.
            None if schema["x-kubernetes-int-or-string"] == true => schema["maxLength"].is_number(),
            _ => false,
        };
        unbounded.extend((!bounded).then_some(path));
    }
    assert!(unbounded.is_empty(), "each field needs a type and a bound: {unbounded:?}");
    for schema in &schemas {
        walk("status", &schema["properties"]["status"], &mut found);
    }
    let forbidden = |schema: &Value| !schema["default"].is_null() || !schema["nullable"].is_null();
    let found: Vec<_> = found.iter().filter(|(_, schema)| forbidden(schema)).map(|(path, _)| path).collect();
    assert!(found.is_empty(), "the CRDs must have no nullable fields and no defaults: {found:?}");
}

#[test]
fn every_field_is_described() {
    let schemas = schemas();
    let mut found = Vec::new();
    for schema in &schemas {
        walk("spec", &schema["properties"]["spec"], &mut found);
    }
    let undescribed: Vec<_> = found
        .iter()
        .filter(|(path, schema)| schema["description"].is_null() && !path.ends_with(['*', ']']))
        .map(|(path, _)| path)
        .collect();
    assert!(undescribed.is_empty(), "these fields have no description: {undescribed:?}");
}

#[test]
fn known_features_have_a_schema() {
    let schema = schema();
    let features = &schema["properties"]["spec"]["properties"]["features"];
    assert_eq!(features["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(features["properties"]["network"]["properties"]["backend"]["enum"], json!(["ovs", "ovn"]));
}

/// Returns the errors with which the CRD's schema refuses an invalid resource, computed without an API server.
fn offline(schema: &Value, case: &InvalidResource) -> Vec<String> {
    match Validator::new().validate(schema, &resource(case.spec), None) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_vec().iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_rule_refuses_with_its_message() {
    let schema = schema();
    let mut wrong = Vec::new();
    for case in INVALID_RESOURCES.iter().filter(|case| case.check == Check::Rule) {
        let errors = offline(&schema, case);
        if !errors.iter().any(|errors| errors.contains(case.message)) {
            wrong.push(format!("{} → {errors:?}, expected {}: {}", case.spec, case.field, case.message));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut found = Vec::new();
    walk("", &schema, &mut found);
    let rules =
        found.iter().flat_map(|(_, schema)| schema["x-kubernetes-validations"].as_array().into_iter().flatten());
    let undescribed: Vec<_> = rules
        .filter_map(|rule| rule["message"].as_str())
        .filter(|message| !INVALID_RESOURCES.iter().any(|case| message.starts_with(case.message)))
        .collect();
    assert_eq!(
        undescribed,
        [
            "metadata.name may have at most 63 characters, because osdpl builds the names of Secrets from it; choose a shorter one"
        ]
    );
}

#[test]
fn valid_resources_and_changes_pass() {
    let schema = schema();
    for (before, after) in VALID_CHANGES {
        let verdict = Validator::new().validate(&schema, &resource(after), Some(&resource(before)));
        assert!(verdict.is_ok(), "{before} → {after}: {verdict:?}");
    }
}

#[test]
fn maintenance_node_and_window_are_checked() {
    let [_, schema] = schemas();
    let of = |node: &str, window: Value| json!({"metadata": {"name": "m"}, "spec": {"node": node, "window": window}});
    let errors = |new: &Value, old: Option<&Value>| match Validator::new().validate(&schema, new, old) {
        Ok(()) => String::new(),
        Err(errors) => errors.into_vec().iter().map(ToString::to_string).collect(),
    };
    let (one, two) = (of("n1", json!({})), of("n2", json!({})));
    assert_eq!(errors(&one, Some(&one)), "");
    assert!(errors(&two, Some(&one)).contains("can't be changed, because the old node would stay"));
    let window = |start: &str, end: &str| of("n1", json!({"start": start, "end": end}));
    assert_eq!(errors(&window("2026-11-28T22:00:00Z", "2026-11-29T04:00:00Z"), None), "");
    assert!(errors(&window("2026-11-28T22:00:00Z", "2026-11-28T21:00:00Z"), None).contains("must be after `start`"));
}
