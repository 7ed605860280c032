//! Parses the objects in a rendered manifest: their identities, and the paths of the fields that the manifest sets.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::RESOURCE_POLICY_ANNOTATION;
use super::fields::{Budget, ENTRY, Field, Paths, SUMMARY_MAX, fields, paths};

/// An object of a revision: its identity and the paths of its fields, without the fields' values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// The API version: `batch/v1`.
    pub api_version: String,
    /// The kind: `Job`.
    pub kind: String,
    /// The namespace in the manifest. `None` if the manifest names no namespace: the object is then in the namespace of
    /// the release, or it is cluster-scoped.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// Whether the object has the annotation `helm.sh/resource-policy: keep`, so that helm never removes the object.
    pub keep: bool,
    /// The value of `spec.replicas` in the manifest; `None` if the manifest does not set this field.
    pub replicas: Option<i64>,
    /// Whether Kubernetes itself deletes the object some time after it has finished: a Job with
    /// `spec.ttlSecondsAfterFinished`.
    pub expires: bool,
    /// The paths of the fields that the manifest sets in the object, except for metadata.
    pub fields: Vec<Field>,
}

impl Object {
    /// Returns the approximate size of the object in memory, in bytes.
    ///
    /// The size includes all field paths of the object. Objects share copies of equal paths, so the sum of their sizes
    /// is larger than the memory that they take together.
    pub fn size(&self) -> usize {
        let paths: usize = self.fields.iter().map(|(path, _)| ENTRY + path.len()).sum();
        size_of::<Self>() + self.api_version.len() + self.kind.len() + self.name.len() + paths
    }
}

/// The separator of a manifest's documents: a line that begins with this text starts the next document (helm:
/// `(?m)^---[ \t]*` in `pkg/release/v1/util`).
const SEPARATOR: &str = "---";

/// The maximum number of objects in a manifest. The limit bounds the memory that osdpl needs, because even an object
/// with a very short text takes much memory. The manifests of upstream's charts have some hundred objects.
const OBJECTS_MAX: usize = 10_000;

/// The maximum size of the objects in all manifests of a record, in bytes. The content of a YAML anchor counts again
/// for each alias. The limit bounds the memory that osdpl needs, because aliases could repeat a value thousands of
/// times.
pub(super) const CONTENT_MAX: usize = 16 << 20;

/// The maximum number of copies of YAML events that the YAML library keeps for aliases of one document.
const COPIES_MAX: usize = 250_000;

/// Returns the identity and the field paths of every object that has a kind and a name, in the manifest's order.
/// Subtracts the size of the objects from `left`, the size that the objects of the record may still have.
///
/// A document that is not YAML is an error. If the function skipped such a document, a comparison of revisions would
/// report the document's objects as removed.
pub(super) fn objects(text: &str, budget: &mut Budget, left: &mut usize) -> Result<Vec<Object>, String> {
    let mut paths = paths();
    let found = parse(text, left, &mut |object| summarize(&object, &mut paths, budget))?;
    if budget.is_used_up() {
        let limit = SUMMARY_MAX >> 20;
        return Err(format!(
            "its objects and the names of their fields need more than {limit} MiB of memory, more than any release needs"
        ));
    }
    Ok(found)
}

/// Returns every object in a manifest with the values of all fields, in the manifest's order. The values of the fields
/// contain secrets.
///
/// # Errors
/// Returns an error if a document is not a YAML map, or if the objects of the manifest are too many or too large. The
/// error about a document names the template and the line of the document and does not quote the text.
pub fn parse_objects(text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let mut left = CONTENT_MAX;
    contents(text, &mut left)
}

/// Returns the same as [`parse_objects`]. Subtracts the size of the objects from `left`, the size that the objects of
/// the record may still have.
pub(super) fn contents(text: &str, left: &mut usize) -> Result<Vec<Map<String, Value>>, String> {
    parse(text, left, &mut Some)
}

/// Returns the objects of the kind `kind` in a manifest, with the values of all fields.
///
/// # Errors
/// Returns an error in the same cases as [`parse_objects`].
pub fn parse_objects_of_kind(text: &str, kind: &str) -> Result<Vec<Map<String, Value>>, String> {
    let mut left = CONTENT_MAX;
    parse(text, &mut left, &mut |object| Some(object).filter(|object| string(object.get("kind")) == Some(kind)))
}

/// Parses the documents of a manifest one after the other, and returns the result of `convert` for each object. Leaves
/// out the objects for which `convert` returns `None`.
fn parse<T>(
    text: &str,
    left: &mut usize,
    convert: &mut impl FnMut(Map<String, Value>) -> Option<T>,
) -> Result<Vec<T>, String> {
    let mut found = Vec::new();
    for document in documents(text) {
        if let Some(object) = read(&document, left)? {
            collect(object, convert, &mut found);
        }
        if found.len() > OBJECTS_MAX {
            return Err(format!("its manifest has more than {OBJECTS_MAX} objects, more than any release needs"));
        }
    }
    Ok(found)
}

/// Converts an object with `convert` and adds the result to `found`. If the object is a list (of the kind `List` or,
/// for example, `ConfigMapList`), the function adds the items of the list instead.
fn collect<T>(
    mut object: Map<String, Value>,
    convert: &mut impl FnMut(Map<String, Value>) -> Option<T>,
    found: &mut Vec<T>,
) {
    let is_list = string(object.get("kind")).is_some_and(|kind| kind.ends_with("List"));
    match object.get_mut("items") {
        Some(Value::Array(items)) if is_list => {
            for item in std::mem::take(items) {
                if let Value::Object(item) = item {
                    collect(item, convert, found);
                }
            }
        }
        _ => found.extend(convert(object)),
    }
}

/// Returns the identity of an object and the paths of its fields; `None` if the object lacks a kind or a name, or if
/// `budget` (the memory that the record's objects may still take) is used up.
fn summarize(object: &Map<String, Value>, paths: &mut Paths, budget: &mut Budget) -> Option<Object> {
    if !budget.take(size_of::<Object>()) {
        return None;
    }
    let metadata = |field: &str| object.get("metadata")?.get(field);
    let spec = |field: &str| object.get("spec")?.get(field).filter(|value| !value.is_null());
    let policy = string(metadata("annotations").and_then(|annotations| annotations.get(RESOURCE_POLICY_ANNOTATION)));
    Some(Object {
        api_version: string(object.get("apiVersion")).unwrap_or_default().to_owned(),
        kind: string(object.get("kind"))?.to_owned(),
        namespace: string(metadata("namespace")).map(ToOwned::to_owned),
        name: string(metadata("name"))?.to_owned(),
        keep: policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep")),
        replicas: spec("replicas").and_then(Value::as_i64),
        expires: spec("ttlSecondsAfterFinished").is_some(),
        fields: fields(object, paths, budget),
    })
}

/// Returns the value of a string field; `None` if the field is missing or empty.
fn string(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.is_empty())
}

/// Parses a document. Subtracts its approximate size in memory from `left`, and fails if `left` is too small.
fn read(document: &str, left: &mut usize) -> Result<Option<Map<String, Value>>, String> {
    // If a map has the same key twice, helm's YAML parser takes the last value. Charts rely on this rule: they
    // write their own hook annotations after the user's annotations.
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_total_scalar_bytes: *left,
            max_recorded_anchor_events: COPIES_MAX,
            max_recorded_anchor_bytes: CONTENT_MAX,
        },
    };
    let size = Rc::new(Cell::new(0));
    let measured = Rc::clone(&size);
    let options = options.with_budget_report(move |report| {
        measured.set(report.total_scalar_bytes.saturating_add(report.nodes * size_of::<Value>()));
    });
    let object = serde_saphyr::from_str_with_options(document, options);
    let Some(rest) = left.checked_sub(size.get()) else {
        return Err(format!(
            "its objects have more than {} MiB, including the content of YAML aliases, more than any release needs",
            CONTENT_MAX >> 20
        ));
    };
    *left = rest;
    object.map_err(|error| {
        // The text around the error may be a secret, so the message contains only the location of the error.
        let line = error.location().map_or(0, |location| location.line());
        let source = document.lines().find_map(|line| line.strip_prefix("# Source: ")).unwrap_or("an unnamed template");
        format!("its manifest is not valid YAML in line {line} of a document from {source}")
    })
}

/// Splits a manifest into documents as helm does: at every line that *begins* with three dashes, even if text follows
/// the dashes. Returns one document at a time, because a manifest may have millions of empty documents.
fn documents(text: &str) -> impl Iterator<Item = String> {
    let mut lines = text.trim_start().split_inclusive('\n');
    let mut next = Some(String::new());
    let all = std::iter::from_fn(move || {
        let mut document = next.take()?;
        for line in lines.by_ref() {
            if let Some(rest) = line.strip_prefix(SEPARATOR) {
                next = Some(rest.trim_start_matches([' ', '\t']).to_owned());
                break;
            }
            document.push_str(line);
        }
        Some(document)
    });
    all.filter(|document| document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_objects(text: &str) -> Result<Vec<Object>, String> {
        let mut left = CONTENT_MAX;
        objects(text, &mut Budget::new(), &mut left)
    }

    fn names(text: &str) -> Vec<String> {
        let found = read_objects(text).unwrap();
        found.into_iter().map(|object| format!("{}/{}", object.kind, object.name)).collect()
    }

    #[test]
    fn reads_objects_in_order_with_their_policy() {
        let text = "---\n# Source: keystone/templates/secret.yaml\napiVersion: v1\nkind: Secret\nmetadata:\n  name: keys\n  \
                    annotations:\n    helm.sh/resource-policy: ' Keep '\n    other: null\ndata: {a: x, b: '', c: null}\n\
                    ---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: api\n  namespace: elsewhere\nspec: {a: [1]}\n\
                    ---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: idle}\nspec: {replicas: 0}\n\
                    ---\napiVersion: v1\nkind: Odd\nmetadata: {name: odd}\nspec: [text]\ndata: text\n\
                    ---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: brief}\nspec: {ttlSecondsAfterFinished: 9}\n";
        let set = |name: &str| match name {
            "keys" => vec!["data.a", "data.b"],
            "api" => vec!["spec.a[]"],
            "idle" => vec!["spec.replicas"],
            "odd" => vec!["data", "spec[]"],
            _ => vec!["spec.ttlSecondsAfterFinished"],
        };
        let object = |api_version: &str, kind: &str, namespace: Option<&str>, name: &str, keep| Object {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.map(Into::into),
            name: name.into(),
            keep,
            replicas: (name == "idle").then_some(0),
            expires: name == "brief",
            fields: set(name).into_iter().map(|path| (path.into(), 1)).collect(),
        };
        assert_eq!(
            read_objects(text).unwrap(),
            [
                object("v1", "Secret", None, "keys", true),
                object("apps/v1", "Deployment", Some("elsewhere"), "api", false),
                object("apps/v1", "Deployment", None, "idle", false),
                object("v1", "Odd", None, "odd", false),
                object("batch/v1", "Job", None, "brief", false),
            ]
        );
    }

    #[test]
    fn splits_documents_like_helm() {
        assert_eq!(
            names("kind: A\nmetadata: {name: a}\n---kind: B\nmetadata: {name: b}\n--- \n# nothing\n"),
            ["A/a", "B/b"]
        );
        assert_eq!(names("\n\n"), [""; 0]);
    }

    #[test]
    fn dashes_inside_a_block_scalar_do_not_split() {
        let text =
            "kind: ConfigMap\nmetadata: {name: a}\ndata:\n  pem: |\n    -----BEGIN X-----\n    ---\n    kind: Fake\n";
        assert_eq!(names(text), ["ConfigMap/a"]);
    }

    #[test]
    fn the_last_of_duplicate_keys_wins_as_in_helm() {
        assert_eq!(names("kind: Job\nmetadata: {name: a}\nmetadata: {name: b}\n"), ["Job/b"]);
    }

    #[test]
    fn flattens_lists() {
        let text = "kind: List\nitems:\n- {kind: A, metadata: {name: a}}\n- {kind: B, metadata: {name: b}}\n";
        assert_eq!(names(text), ["A/a", "B/b"]);
    }

    #[test]
    fn reads_full_objects() {
        let text = "# Source: a\nkind: A\nmetadata: {name: a}\nspec: {x: 1}\n---\nkind: List\nitems: [{kind: B}]\n---\n# none\n";
        let found = Value::from(parse_objects(text).unwrap().into_iter().map(Value::Object).collect::<Vec<_>>());
        assert_eq!(
            found,
            serde_json::json!([{"kind": "A", "metadata": {"name": "a"}, "spec": {"x": 1}}, {"kind": "B"}])
        );
    }

    #[test]
    fn limits_the_size_of_all_objects_with_aliases() {
        let document = |aliases: usize| {
            let text = format!("&a {}{}", "x".repeat(100 << 10), ", *a".repeat(aliases));
            format!("---\nkind: A\nmetadata: {{name: a}}\ndata: [{text}]\n")
        };
        assert_eq!(names(&document(99)), ["A/a"]);
        assert_eq!(parse_objects(&document(99)).unwrap().len(), 1);
        let small = "- {a: [0, 0, 0, 0]}\n".repeat(10_000);
        let small = format!("---\nkind: A\ndata:\n{small}").repeat(8);
        for text in [document(99).repeat(2), document(60).repeat(3), small] {
            let of_kind = parse_objects_of_kind(&text, "B").unwrap_err();
            for error in [read_objects(&text).unwrap_err(), parse_objects(&text).unwrap_err(), of_kind] {
                let problem = "its objects have more than 16 MiB, including the content of YAML aliases";
                assert!(error.starts_with(problem), "{error}");
            }
        }
    }

    #[test]
    fn one_unreadable_document_fails_without_quoting_it() {
        let text = "---\n# Source: c/templates/x.yaml\nkind: Secret\nmetadata: {name: a}\ndata: {password: hunter22\n";
        let error = read_objects(text).unwrap_err();
        assert!(error.contains("c/templates/x.yaml") && error.contains("line"), "{error}");
        assert!(!error.contains("hunter22"), "{error}");
    }
}
