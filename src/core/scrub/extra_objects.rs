//! Finds secrets in `extraObjects`, the key of a release's values with which users add Kubernetes objects to a release.
//!
//! OpenStack-Helm's template `extra-manifests.yaml` takes a map or list of manifests. A manifest is a map, or a text
//! that helm renders as a template.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::collect_secret_scalars;
use osdpl_values::yaml;
use osdpl_values::{Path, Values};

/// The key of a release's values that contains the manifests.
const OBJECTS: &str = "extraObjects";
/// The fields of a Kubernetes Secret that contain its data.
const PARTS: [&str; 2] = ["data", "stringData"];
/// The annotation in which `kubectl apply` stores a copy of the object, secrets included.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the paths of the values in `extraObjects` that contain secrets.
///
/// A `Path` consists of keys of maps, so it cannot name an item of a list or a part of a text. If a list or a text
/// contains the manifest of a Secret, the result contains the path of the whole list or text.
pub fn find_secret_paths(values: &Values) -> Vec<Path> {
    let root = Path::root().child(OBJECTS);
    match values.get(OBJECTS) {
        Some(Value::Object(objects)) => {
            objects.iter().flat_map(|(name, object)| paths_of_object(&root.child(name), object)).collect()
        }
        Some(value) if has_secret(value, false) => vec![root],
        _ => Vec::new(),
    }
}

/// Returns the secrets in `extraObjects`, each as written and, if it is base64, also decoded.
///
/// The function skips texts that are not valid YAML, such as most templates, because only helm can render templates.
pub fn collect_secret_texts(values: &Values) -> Vec<String> {
    let mut found = Vec::new();
    match values.get(OBJECTS) {
        Some(Value::Object(objects)) => objects.values().for_each(|object| gather(object, false, &mut found)),
        Some(value) => gather(value, false, &mut found),
        None => {}
    }
    let decoded = found.iter().filter_map(|text| String::from_utf8(STANDARD.decode(text).ok()?).ok());
    let decoded: Vec<String> = decoded.collect();
    found.extend(decoded);
    found
}

fn paths_of_object(path: &Path, object: &Value) -> Vec<Path> {
    match object {
        Value::Object(map) if is_secret(map) => {
            let parts = PARTS.map(|part| path.child(part)).into_iter();
            parts.chain([path.child("metadata").child("annotations").child(APPLIED)]).collect()
        }
        value if has_secret(value, false) => vec![path.clone()],
        _ => Vec::new(),
    }
}

/// Whether a value contains the manifest of a Secret, or may contain one. `in_text` is true if the value comes from a
/// text that osdpl has parsed.
///
/// osdpl does not parse a text inside a parsed text: helm would not render it as a manifest, and with aliases at each
/// level, a short text could take hours.
fn has_secret(value: &Value, in_text: bool) -> bool {
    match value {
        Value::String(text) if in_text => may_have_secret(text),
        Value::String(text) => documents(text).any(|document| match document {
            Ok(read) => !read.is_string() && has_secret(&read, true),
            Err(text) => may_have_secret(text),
        }),
        Value::Array(items) => items.iter().any(|item| has_secret(item, in_text)),
        Value::Object(map) => is_secret(map) || map.get("items").is_some_and(|items| has_secret(items, in_text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a manifest is a Secret, or may be one.
///
/// A manifest may be a Secret if its kind is a template, or if it has no kind: osdpl checks each layer on its own, and
/// another layer may set the kind.
fn is_secret(map: &Map<String, Value>) -> bool {
    match map.get("kind") {
        Some(Value::String(kind)) => kind == "Secret" || kind.contains("{{"),
        None | Some(Value::Null) => PARTS.iter().any(|part| map.contains_key(*part)),
        Some(_) => false,
    }
}

/// Splits a text into YAML documents and parses them. For a document that is not valid YAML, such as most templates,
/// the result contains the text of the document.
fn documents(text: &str) -> impl Iterator<Item = Result<Value, &str>> {
    text.split("\n---").map(|document| yaml::parse(OBJECTS, document.trim_start_matches("---")).map_err(|_| document))
}

/// Whether a text that is not YAML, such as a template, may contain a Secret.
fn may_have_secret(text: &str) -> bool {
    let names =
        |line: &str| line.split_once("kind").is_some_and(|(_, kind)| kind.contains("Secret") || kind.contains("{{"));
    text.contains("stringData") || text.lines().any(names)
}

/// Adds the secrets in a value to `found`. Skips a text inside a parsed text; see [`has_secret`].
fn gather(value: &Value, in_text: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if !in_text => {
            documents(text).filter_map(Result::ok).for_each(|document| gather(&document, true, found));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, in_text, found)),
        Value::Object(map) if is_secret(map) => {
            let parts = PARTS.iter().filter_map(|part| map.get(*part));
            found.extend(parts.flat_map(collect_secret_scalars).map(Into::into));
        }
        Value::Object(map) => map.get("items").into_iter().for_each(|items| gather(items, in_text, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(objects: &Value) -> (Vec<String>, Vec<String>) {
        let values = json!({ "extraObjects": objects });
        let values = values.as_object().unwrap();
        (find_secret_paths(values).iter().map(ToString::to_string).collect(), collect_secret_texts(values))
    }

    #[test]
    fn finds_secrets_in_maps_lists_and_texts() {
        let secret = json!({"kind": "Secret", "metadata": {"name": "secretly"}, "stringData": {"config": "hunter2"}});
        let other = json!({"kind": "ConfigMap", "data": {"config": "open"}});
        let text = "kind: ConfigMap\ndata: {a: b}\n---\nkind: Secret\ndata: {config: aHVudGVyMg==}\n";
        let parts = ["data", "stringData", "metadata.annotations.\"kubectl.kubernetes.io/last-applied-configuration\""];
        let parts = parts.map(|part| format!("extraObjects.one.{part}")).to_vec();
        let known = vec!["hunter2".to_owned()];
        assert_eq!(found(&json!({"one": secret, "two": other})), (parts.clone(), known.clone()));
        assert_eq!(found(&json!([other, secret])), (vec!["extraObjects".into()], known.clone()));
        let (paths, texts) = found(&json!({"one": text}));
        assert_eq!((paths, texts), (vec!["extraObjects.one".into()], vec!["aHVudGVyMg==".into(), "hunter2".into()]));
        assert_eq!(found(&json!([text])).0, ["extraObjects"]);
        let list = json!({"one": {"kind": "List", "items": [secret]}});
        assert_eq!(found(&list), (vec!["extraObjects.one".into()], known));
        assert_eq!(
            found(&json!({"one": {"stringData": {"config": "hunter2"}}})).0,
            parts,
            "a map without a kind counts as a Secret, because another layer may set the kind"
        );
    }

    #[test]
    fn does_not_parse_texts_in_texts() {
        let inner = "kind: Secret\nstringData: {config: hunter2}";
        let paths = vec!["extraObjects.one".to_owned()];
        assert_eq!(found(&json!({"one": json!([inner]).to_string()})), (paths, Vec::new()));
        assert_eq!(found(&json!({"one": json!(["{kind: Job}"]).to_string()})), (Vec::new(), Vec::new()));
    }

    #[test]
    fn takes_only_suspicious_templates_for_secrets() {
        for (object, expected) in [
            ("{{ if .Values.x }}\nkind: Secret\nstringData: {a: {{ .Values.a }}}\n{{ end }}", true),
            ("kind: '{{ .Values.kind }}'\nstringData: {a: hunter2}", true),
            ("{{ if .Values.x }}\nkind: Job\n{{ end }}", false),
            ("kind: Job\nspec: {imagePullSecrets: []}", false),
            ("hunter2", false),
            ("", false),
        ] {
            assert_eq!(!found(&json!({ "one": object })).0.is_empty(), expected, "{object}");
        }
        assert_eq!(found(&Value::Null), (Vec::new(), Vec::new()));
    }
}
