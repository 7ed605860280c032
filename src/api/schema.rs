//! The CRD: the types' schema, the rules over it, and the schemas of the catalogue's features.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use super::OpenStackDeployment;
use super::rules::RULES;
use crate::catalog::Catalog;

/// Why there is no CRD.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A feature's schema is not what a CRD can hold.
    #[error("{file}: schema: {source}; write it as the OpenAPI schema of a CRD (type, properties, enum, bounds)")]
    Feature {
        /// The feature's file.
        file: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The types' own schema can't be put together.
    #[error("the schema of OpenStackDeployment can't be put together: {0}; report this as a bug")]
    Types(#[from] serde_json::Error),
}

/// The CRD with the schemas of the catalogue's features in it.
///
/// Unknown features are kept by the API server and refused by the operator, because a feature can be of the user's own making; what is inside a
/// known feature is judged by the API server.
///
/// # Errors
/// When a feature's schema is none.
pub fn crd(catalog: &Catalog) -> Result<CustomResourceDefinition, SchemaError> {
    let mut crd = serde_json::to_value(OpenStackDeployment::crd())?;
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    structural(schema);
    for rule in RULES {
        if let Some(Value::Object(at)) = find(schema, rule.at) {
            let rules = at.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
            rules.as_array_mut().into_iter().for_each(|rules| rules.push(rule.schema()));
        }
    }
    if let Some(features) = find(schema, "spec.features") {
        features["properties"] = Value::Object(features_of(catalog)?);
    }
    Ok(serde_json::from_value(crd)?)
}

fn features_of(catalog: &Catalog) -> Result<Map<String, Value>, SchemaError> {
    let mut properties = Map::new();
    for (name, feature) in &catalog.features {
        let mut schema = feature.schema.clone();
        structural(&mut schema);
        if schema["description"].is_null() {
            schema["description"] = feature.description.as_str().into();
        }
        let props: JSONSchemaProps = serde_json::from_value(schema)
            .map_err(|source| SchemaError::Feature { file: feature.file.clone(), source })?;
        properties.insert(name.clone(), serde_json::to_value(props)?);
    }
    Ok(properties)
}

/// Leaves of a schema what a CRD may hold, and nothing that changes what a user wrote.
///
/// * No `default`: the API server would write it into the spec, where it shadows later defaults and looks like the user's own word.
/// * No `nullable`: without it and without a default the API server drops a null, so `publicDomain: null` is as if it was not there. Nulls inside
///   of free-form `values` are not touched by this.
/// * No `additionalProperties: false`: a structural schema may not say it; the API server knows every property and refuses or prunes others.
fn structural(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema.remove("default");
    schema.remove("nullable");
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        schema.remove("additionalProperties");
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(structural);
    }
    for below in ["items", "additionalProperties"] {
        schema.get_mut(below).into_iter().for_each(structural);
    }
}

/// The schema at a path of properties, `*` (values of a map) and `[]` (items of a list).
fn find<'a>(schema: &'a mut Value, at: &str) -> Option<&'a mut Value> {
    at.split('.').filter(|step| !step.is_empty()).try_fold(schema, |schema, step| match step {
        "*" => schema.get_mut("additionalProperties"),
        "[]" => schema.get_mut("items"),
        name => schema.get_mut("properties")?.get_mut(name),
    })
}

#[cfg(test)]
mod tests;
