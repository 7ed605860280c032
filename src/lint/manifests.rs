//! Reads the Secrets and `ConfigMap`s that a resource references, from the manifests that a user applies together with
//! the resource.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use osdpl_core::api::{AdditionReference, OpenStackDeploymentSpec, ValuesKind};
use osdpl_core::catalog::{ConfigMapData, NamedAdditions};
use osdpl_core::desired::Unavailable;
use osdpl_values::Values;
use osdpl_values::yaml;

/// The values under each key of an object that `valuesFrom` references, or the reason why they are not available.
///
/// Each key of this map consists of the object's kind, the object's name, and the key in the object's data.
type ValuesBySource = BTreeMap<(ValuesKind, String, String), Result<Values, Unavailable>>;

/// Returns the values in the objects that the spec's `valuesFrom` references. Leaves out objects that the manifests do
/// not contain.
pub(crate) fn values_from(spec: &OpenStackDeploymentSpec, namespace: &str, manifests: &[Value]) -> ValuesBySource {
    let releases = spec.services.values().flat_map(|service| service.releases.values());
    let mut values_from = ValuesBySource::new();
    for source in releases.flat_map(|release| &release.values_from) {
        let key = source.key.clone().unwrap_or_else(|| "values.yaml".into());
        let kind = kind(source.kind);
        let Some(object) = find(kind, &source.name, namespace, manifests) else { continue };
        let name = format!("{kind} {}, key {key}", source.name);
        let values = text(object, &key).and_then(|text| {
            let values: Result<Option<Values>, _> = yaml::parse(&name, &text);
            let values = values.map_err(|error| format!("{error}; it must be a YAML map"));
            values.map(Option::unwrap_or_default).map_err(Unavailable::Unusable)
        });
        values_from.insert((source.kind, source.name.clone(), key), values);
    }
    values_from
}

/// Returns the additions to the catalogue that a resource references, read from the `ConfigMap`s in the manifests.
pub fn named_additions(resource: &Value, manifests: &[Value]) -> NamedAdditions {
    let namespace = resource["metadata"]["namespace"].as_str().unwrap_or("openstack");
    let data = |name: &str| config_map_data(name, namespace, manifests).unwrap_or(Ok(None));
    NamedAdditions::read(&addition_references(resource), namespace, data)
}

/// Returns the list `spec.catalog` of a resource: the references to additions to the catalogue.
///
/// Returns no references if the list violates the schema of the CRD: the schema check already reports the violation.
pub fn addition_references(resource: &Value) -> Vec<AdditionReference> {
    Deserialize::deserialize(&resource["spec"]["catalog"]).unwrap_or_default()
}

/// Returns the data of the `ConfigMap` `name` from the manifests; `None` if the manifests do not contain the
/// `ConfigMap`.
///
/// `namespace` is the namespace of the resource that references the `ConfigMap`.
pub fn config_map_data(name: &str, namespace: &str, manifests: &[Value]) -> Option<ConfigMapData> {
    let data = find("ConfigMap", name, namespace, manifests)?["data"].as_object();
    let text = |(key, value): (&String, &Value)| match value.as_str() {
        Some(text) => Ok((key.clone(), text.to_owned())),
        None => Err(format!("key {key:?} must be a string; write `|` after the key, and the text below the key")),
    };
    Some(data.into_iter().flatten().map(text).collect::<Result<_, _>>().map(Some))
}

/// Describes each object that `valuesFrom` references and that the manifests do not contain.
///
/// Each description names the field that references the object.
pub(crate) fn missing_sources(spec: &OpenStackDeploymentSpec, namespace: &str, manifests: &[Value]) -> Vec<String> {
    let releases = spec.services.iter().flat_map(|(service, service_spec)| {
        service_spec
            .releases
            .iter()
            .map(move |(release, entry)| (format!("spec.services.{service}.releases.{release}"), entry))
    });
    let sources = releases.flat_map(|(field, entry)| {
        entry
            .values_from
            .iter()
            .enumerate()
            .map(move |(index, source)| (format!("{field}.valuesFrom[{index}]"), source))
    });
    let missing = sources.filter(|(_, source)| find(kind(source.kind), &source.name, namespace, manifests).is_none());
    missing
        .map(|(field, source)| {
            let key = source.key.as_deref().unwrap_or("values.yaml");
            format!("{} {}, key {key}, which {field} references, is not in the file", kind(source.kind), source.name)
        })
        .collect()
}

fn kind(kind: ValuesKind) -> &'static str {
    match kind {
        ValuesKind::Secret => "Secret",
        ValuesKind::ConfigMap => "ConfigMap",
    }
}

/// Returns the object of this kind and name from the manifests, if the object is in the namespace of the resource.
pub(crate) fn find<'a>(kind: &str, name: &str, namespace: &str, manifests: &'a [Value]) -> Option<&'a Value> {
    find_in(&ObjectName { kind, namespace, name }, namespace, manifests)
}

/// The kind, namespace and name of a `ConfigMap` or Secret.
pub(crate) struct ObjectName<'a> {
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Returns the object with this name from the manifests.
///
/// An object without a namespace counts as an object in `default_namespace`.
pub(crate) fn find_in<'a>(
    object_name: &ObjectName<'_>,
    default_namespace: &str,
    manifests: &'a [Value],
) -> Option<&'a Value> {
    let ObjectName { kind, namespace, name } = *object_name;
    manifests.iter().find(|object| {
        let metadata = &object["metadata"];
        object["kind"] == kind
            && object["apiVersion"] == "v1"
            && metadata["name"] == name
            && metadata["namespace"].as_str().unwrap_or(default_namespace) == namespace
    })
}

/// Returns the data of a Secret, by key.
///
/// # Errors
/// Returns an error if the value of a key is not text.
pub(crate) fn data(secret: &Value) -> Result<BTreeMap<String, Vec<u8>>, Unavailable> {
    let maps = ["data", "stringData"].into_iter().filter_map(|field| secret[field].as_object());
    maps.flat_map(|map| map.keys()).map(|key| Ok((key.clone(), text(secret, key)?.into_bytes()))).collect()
}

/// Returns the text under a key of a Secret or `ConfigMap`.
///
/// # Errors
/// Returns an error if there is no such key, or its value is not text.
pub(crate) fn text(object: &Value, key: &str) -> Result<String, Unavailable> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if let Some(plain) = object["stringData"][key].as_str() {
        return Ok(plain.to_owned());
    }
    let Some(data) = object["data"][key].as_str() else {
        let maps = ["data", "stringData", "binaryData"].into_iter().filter_map(|field| object[field].as_object());
        let keys = maps.flat_map(|map| map.keys()).map(String::as_str).collect::<Vec<_>>().join(", ");
        let message =
            format!("{kind} {name} has no text under key {key:?} (it has: {keys}); add the key or name another one");
        return Err(Unavailable::Missing(message));
    };
    if kind == "ConfigMap" {
        return Ok(data.to_owned());
    }
    let bytes = STANDARD.decode(data.split_whitespace().collect::<String>());
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        Unavailable::Unusable(format!(
            "Secret {name}, key {key}: the value is not base64-encoded text; encode it, or use stringData"
        ))
    })
}
