//! Secrets that values bring along: charts make the objects that stand in `extraObjects` (OpenStack-Helm's `extra-manifests.yaml` takes a map or a
//! list of manifests, each of them a map, or a text that is a template).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::scalars;
use osdpl_values::yaml;
use osdpl_values::{Path, Values};

const OBJECTS: &str = "extraObjects";
/// The parts of a Secret that are secret.
const PARTS: [&str; 2] = ["data", "stringData"];
/// What `kubectl apply` leaves on an object: the object once more.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Where what is secret of them stands; no path goes into a list or a text, so that it leads to the whole of it.
pub fn brought(values: &Values) -> Vec<Path> {
    let at = Path::root().child(OBJECTS);
    match values.get(OBJECTS) {
        Some(Value::Object(objects)) => {
            objects.iter().flat_map(|(name, object)| of_one(&at.child(name), object)).collect()
        }
        Some(whole) if holds(whole) => vec![at],
        _ => Vec::new(),
    }
}

/// What they say, as far as it can be read, also without their base64.
pub fn brought_texts(values: &Values) -> Vec<String> {
    let mut found = Vec::new();
    match values.get(OBJECTS) {
        Some(Value::Object(objects)) => objects.values().for_each(|object| gather(object, &mut found)),
        Some(whole) => gather(whole, &mut found),
        None => {}
    }
    let decoded = found.iter().filter_map(|text| String::from_utf8(STANDARD.decode(text).ok()?).ok());
    let decoded: Vec<String> = decoded.collect();
    found.extend(decoded);
    found
}

fn of_one(at: &Path, object: &Value) -> Vec<Path> {
    match object {
        Value::Object(map) if is_secret(map) => {
            let parts = PARTS.map(|part| at.child(part)).into_iter();
            parts.chain([at.child("metadata").child("annotations").child(APPLIED)]).collect()
        }
        whole if holds(whole) => vec![at.clone()],
        _ => Vec::new(),
    }
}

fn holds(value: &Value) -> bool {
    match value {
        Value::String(text) => documents(text).any(|document| match document {
            Ok(read) => !read.is_string() && holds(&read),
            Err(text) => may_hold(text),
        }),
        Value::Array(items) => items.iter().any(holds),
        Value::Object(map) => is_secret(map) || map.get("items").is_some_and(holds),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Layers are looked at one by one, and the kind may stand in another.
fn is_secret(map: &Map<String, Value>) -> bool {
    match map.get("kind") {
        Some(Value::String(kind)) => kind == "Secret" || kind.contains("{{"),
        None | Some(Value::Null) => PARTS.iter().any(|part| map.contains_key(*part)),
        Some(_) => false,
    }
}

/// The documents of a text: what can't be read, as a template most often can't, as it is.
fn documents(text: &str) -> impl Iterator<Item = Result<Value, &str>> {
    text.split("\n---").map(|document| yaml::parse(OBJECTS, document.trim_start_matches("---")).map_err(|_| document))
}

fn may_hold(text: &str) -> bool {
    let names =
        |line: &str| line.split_once("kind").is_some_and(|(_, kind)| kind.contains("Secret") || kind.contains("{{"));
    text.contains("stringData") || text.lines().any(names)
}

fn gather(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let read = documents(text).filter_map(Result::ok).filter(|document| !document.is_string());
            read.for_each(|document| gather(&document, found));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        Value::Object(map) if is_secret(map) => {
            let parts = PARTS.iter().filter_map(|part| map.get(*part));
            found.extend(parts.flat_map(scalars).map(Into::into));
        }
        Value::Object(map) => map.get("items").into_iter().for_each(|items| gather(items, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(objects: &Value) -> (Vec<String>, Vec<String>) {
        let values = json!({ "extraObjects": objects });
        let values = values.as_object().unwrap();
        (brought(values).iter().map(ToString::to_string).collect(), brought_texts(values))
    }

    #[test]
    fn a_secret_is_found_in_a_map_in_a_list_and_in_a_text() {
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
            "its kind is in another layer"
        );
    }

    #[test]
    fn a_template_that_may_be_one_is_taken_for_one_and_nothing_else_is() {
        for (object, is) in [
            ("{{ if .Values.x }}\nkind: Secret\nstringData: {a: {{ .Values.a }}}\n{{ end }}", true),
            ("kind: '{{ .Values.kind }}'\nstringData: {a: hunter2}", true),
            ("{{ if .Values.x }}\nkind: Job\n{{ end }}", false),
            ("kind: Job\nspec: {imagePullSecrets: []}", false),
            ("hunter2", false),
            ("", false),
        ] {
            assert_eq!(!found(&json!({ "one": object })).0.is_empty(), is, "{object}");
        }
        assert_eq!(found(&Value::Null), (Vec::new(), Vec::new()));
    }
}
