//! Validates a resource as the API server does, and returns the part of it that is valid.

use kube::core::cel::{ErrorKind, Validator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::document::VERSION;
use super::place::quoted;
use super::sound::Sound;
use super::{Kind, Schemas, fields, metadata, nulls, schema};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::finding::Finding;
use osdpl_values::normalize_numbers;
use osdpl_values::yaml::redact_literals;

/// The findings of the API server's own validation, and the resource without its invalid fields.
pub(super) struct Served {
    pub found: Vec<Finding>,
    pub sound: Sound,
}

impl Schemas {
    /// Validates an object as the API server does.
    pub(super) fn served(&self, kind: Kind, object: &Value) -> Served {
        let schema = self.of(kind);
        let mut found = fields::unknown_fields(schema, object);
        found.extend(version(kind, object));
        found.extend(metadata::check(object));
        let mut whole = object.clone();
        let nulls = nulls::remove_nulls(schema, &mut whole);
        // `status` is the operator's.
        if object["spec"].is_null() {
            found.push(Finding::error("schema", "spec", "is required; say what is wanted"));
        }
        let said = schema::check(&schema["properties"]["spec"], &whole["spec"], "spec");
        let is_below = |finding: &Finding| found.iter().any(|told| fields::is_explained_by(finding, told));
        let said: Vec<Finding> = said.into_iter().filter(|finding| !is_below(finding)).collect();
        found.extend(said.into_iter().map(|finding| self.with_releases(finding)));
        let is_told = |null: &Finding| found.iter().any(|known| known.field() == null.field());
        let nulls: Vec<Finding> = nulls.into_iter().filter(|null| !is_told(null)).collect();
        found.extend(nulls);
        let is_misshapen = found.iter().any(|finding| finding.rule == "schema");
        let newest = self.releases().last().map(String::as_str);
        // Also evaluate the CEL rules on the object with its incomplete parts.
        let lacking = Sound::lacking(schema, &whole, newest);
        let sound = self.mended(kind, whole);
        for sound in std::iter::once(&sound).chain(&lacking) {
            let said: Vec<Finding> = broken(schema, sound, is_misshapen).filter(|said| !found.contains(said)).collect();
            found.extend(said);
        }
        Served { found, sound }
    }

    /// Returns an object without its invalid fields.
    pub(super) fn sound(&self, kind: Kind, object: &Value) -> Sound {
        let mut whole = object.clone();
        nulls::remove_nulls(self.of(kind), &mut whole);
        self.mended(kind, whole)
    }

    fn mended(&self, kind: Kind, whole: Value) -> Sound {
        Sound::of(self.of(kind), whole, self.releases().last().map(String::as_str))
    }

    /// Adds the available OpenStack releases to a finding about a missing or unknown release.
    fn with_releases(&self, finding: Finding) -> Finding {
        let is_release = |text: &str| self.releases().iter().any(|release| text == format!("{release:?}"));
        let said = match finding.message.split_once("; put it in quotes: ") {
            Some((said, release)) if !is_release(release) => said,
            None if finding.message.starts_with("is required") => "is required",
            _ => return finding,
        };
        if finding.location.field != "spec.openstackRelease" {
            return finding;
        }
        let releases: Vec<String> = self.releases().iter().map(|release| format!("{release:?}")).collect();
        let message =
            format!("{said}; set it to one of the OpenStack releases that there are: {}", releases.join(", "));
        Finding { message, ..finding }
    }
}

/// Returns violations of CEL rules. Runtime errors are skipped if the schema is violated, which is already reported.
fn broken(schema: &Value, sound: &Sound, is_misshapen: bool) -> impl Iterator<Item = Finding> {
    let errors = Validator::new().validate(schema, &sound.object, None).err().into_iter().flatten();
    let errors = errors.filter(move |error| error.kind == ErrorKind::ValidationFailure || !is_misshapen);
    errors.filter_map(|error| {
        sound.map_finding(Finding::error("cel", quoted(&sound.object, &error.field_path), error.message))
    })
}

impl Sound {
    /// Maps a finding about the corrected resource to the original one; `None` if it only follows from a reported change.
    pub(super) fn map_finding(&self, finding: Finding) -> Option<Finding> {
        let is_of_name = finding.message.starts_with("there is no ");
        let field = self.written(finding.field(), is_of_name)?;
        Some(finding.at_field(field))
    }
}

/// Returns a finding if an object has another API version.
fn version(kind: Kind, object: &Value) -> Option<Finding> {
    let version = &object["apiVersion"];
    let message = match version {
        Value::String(version) if version == VERSION => return None,
        Value::Null => format!("there is none, so that nobody knows what this is; write apiVersion: {VERSION}"),
        _ => format!("there is no version {version} of {}; write {VERSION}", kind.name()),
    };
    Some(Finding::error("schema", "apiVersion", message))
}

/// Returns the spec of a resource as the API server stores it: 60.0 is as good an integer as 60 (kube-openapi's
/// `IsFloat64AJSONInteger`).
fn plain_spec(object: &Value) -> Map<String, Value> {
    let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
    normalize_numbers(&mut spec);
    spec
}

/// Parses the spec of a resource.
///
/// # Errors
/// If the spec does not have the types of its schema.
pub fn read_spec(object: &Value) -> Result<OpenStackDeploymentSpec, serde_json::Error> {
    serde_json::from_value(plain_spec(object).into())
}

/// Parses the corrected resource; adds a finding if that fails and no finding explains it. Of the metadata only the name
/// and the namespace are used. The operator owns the status.
pub(super) fn typed<T: DeserializeOwned>(object: &Value, sound: &Sound, found: &mut Vec<Finding>) -> Option<T> {
    // serde would accept a list as the fields in their order.
    if !sound.object["spec"].is_object() {
        return None;
    }
    let texts = ["name", "namespace"].map(|field| (field, object["metadata"][field].as_str()));
    let metadata: Map<String, Value> =
        texts.into_iter().filter_map(|(field, text)| Some((field.to_owned(), text?.into()))).collect();
    let spec = plain_spec(&sound.object);
    let whole = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": spec});
    match serde_json::from_value(whole) {
        Ok(typed) => Some(typed),
        Err(error) => {
            if found.is_empty() {
                let message = format!("{}; correct it", redact_literals(&error.to_string()));
                found.push(Finding::error("schema", "", message));
            }
            None
        }
    }
}
