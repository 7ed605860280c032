//! Fields of a resource that the CRD does not know: the API server would refuse or drop them, so a file with them is refused here too.

use kube::CustomResourceExt;
use serde_json::Value;

use crate::api::OpenStackDeployment;
use crate::catalog::did_you_mean;
use crate::yaml::{self, Located};

/// What the API server reads of every resource, beside what its schema says.
const COMMON: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// A line for every field of `text`, one YAML document, that the CRD does not know; `before` are the lines of the file before it.
pub fn unknown_fields(place: &str, text: &str, before: u64) -> anyhow::Result<Vec<String>> {
    let value: Value = yaml::parse(place, text)?;
    let located: Located = yaml::parse(place, text)?;
    let crd = serde_json::to_value(OpenStackDeployment::crd())?;
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut found = Vec::new();
    for key in value.as_object().into_iter().flat_map(|value| value.keys()) {
        if !COMMON.contains(&key.as_str()) {
            found.push((vec![key.clone()], did_you_mean(key, COMMON)));
        }
    }
    walk(&value["spec"], schema, &mut vec!["spec".to_owned()], &mut found);
    let line = |(path, hint): (Vec<String>, String)| {
        let line = located.nearest(path.iter().map(String::as_str)).line() + before;
        format!("{place}:{line}: {}: there is no such field{hint}", path.join("."))
    };
    Ok(found.into_iter().map(line).collect())
}

/// Goes as far as the schema does: what it leaves open holds anything.
fn walk(value: &Value, schema: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true) {
        return;
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        path.push(index.to_string());
        walk(item, &schema["items"], path, found);
        path.pop();
    }
    let properties = schema["properties"].as_object();
    for (key, value) in value.as_object().into_iter().flatten() {
        path.push(key.clone());
        match (properties.and_then(|properties| properties.get(key)), &schema["additionalProperties"]) {
            (Some(known), _) => walk(value, known, path, found),
            (None, any @ Value::Object(_)) => walk(value, any, path, found),
            (None, Value::Bool(true)) => {}
            (None, _) => {
                if let Some(properties) = properties {
                    found.push((path.clone(), did_you_mean(key, properties.keys().map(String::as_str))));
                }
            }
        }
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_the_crd_does_not_know_are_named_with_their_line_and_free_form_ones_are_left_alone() {
        let text = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nspec:\n  openstackRelease: \"2026.1\"\n  foo: 1\n  \
                    services:\n    nova:\n      enbled: false\n      releases:\n        nova:\n          values:\n            any: {thing: 1}\n";
        assert_eq!(
            unknown_fields("cloud.yaml", text, 10).unwrap(),
            [
                "cloud.yaml:15: spec.foo: there is no such field",
                "cloud.yaml:18: spec.services.nova.enbled: there is no such field, did you mean \"enabled\"?",
            ]
        );
    }
}
