//! Checks the osdpl resources in manifests as the API server does: their metadata, and the schema and the CEL rules of
//! their CRD.

use kube::core::cel::{ErrorKind, Validator};
use serde_json::{Map, Value, json};

use super::kinds::{Kind, VERSION};
use super::{fields, metadata, nulls, schema};
use crate::field::quote_keys;
use osdpl_core::api::{NodeMaintenanceSpec, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::catalog::schema::{Nulls, validate};
use osdpl_core::finding::Finding;
use osdpl_core::schema::{SchemaError, crd, maintenance_crd};
use osdpl_values::normalize_numbers;
use osdpl_values::yaml::redact_literals;

/// The fields of `spec` that decide which helm releases the cloud has. If one of them can't be parsed, osdpl does not
/// evaluate the spec.
const SELECTING: [&str; 4] = [RELEASE, "presets", "features", "services"];
/// The fields of `spec` that no finding about another field depends on. If such a field can't be parsed, the findings
/// about the other fields are still right.
const INDEPENDENT: [&str; 7] = ["approval", "charts", "deletionPolicy", "drift", "images", "nodes", "paused"];
/// The required field of a spec. If this field is missing, osdpl can't parse the spec.
const RELEASE: &str = "openstackRelease";

/// The spec of an `OpenStackDeployment`, reduced to the fields that can be parsed.
pub(super) struct ValidFields {
    /// The spec. A field that can't be parsed is unset.
    pub(super) spec: OpenStackDeploymentSpec,
    /// Whether all fields of the spec could be parsed; fields in [`INDEPENDENT`] do not count. If false, a finding
    /// about a parsed field can be wrong, because the finding can depend on a field that is unset here.
    pub(super) is_complete: bool,
}

/// The `OpenAPI` schemas of osdpl's CRDs.
pub struct Schemas {
    deployment: Value,
    maintenance: Value,
    /// The OpenStack releases of the catalogue, the newest last.
    releases: Vec<String>,
}

impl Schemas {
    /// Builds the schemas. The schema of `OpenStackDeployment` contains the features of `catalog`.
    ///
    /// # Errors
    /// Returns an error if the schema of a feature is not valid.
    pub fn new(catalog: &Catalog) -> Result<Self, SchemaError> {
        let mut deployment = serde_json::to_value(crd(catalog)?)?;
        let mut maintenance = serde_json::to_value(maintenance_crd()?)?;
        let take_schema = |crd: &mut Value| crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
        let releases = catalog.openstack.keys().cloned().collect();
        Ok(Self { deployment: take_schema(&mut deployment), maintenance: take_schema(&mut maintenance), releases })
    }

    fn of(&self, kind: Kind) -> &Value {
        match kind {
            Kind::OpenStackDeployment => &self.deployment,
            Kind::NodeMaintenance => &self.maintenance,
        }
    }

    /// Returns a finding for each error for which the API server would refuse the object or drop a field.
    pub fn check(&self, kind: Kind, object: &Value) -> Vec<Finding> {
        let schema = self.of(kind);
        let mut found = fields::unknown_fields(schema, object);
        found.extend(check_version(kind, object));
        found.extend(metadata::check(object));
        if object["spec"].is_null() {
            found.push(Finding::error("schema", "spec", "is required; write the desired state below it"));
        }
        let mut object = object.clone();
        let nulls = nulls::remove_nulls(schema, &mut object);
        // Check only `spec` against the schema: the user writes it, and the operator writes `status`.
        let mut violations = schema::check(&schema["properties"]["spec"], &object["spec"], "spec");
        violations.retain(|violation| !found.iter().any(|known| fields::is_explained_by(violation, known)));
        found.extend(violations.into_iter().map(|violation| self.with_releases(violation)));
        let is_reported = |found: &[Finding], field: &str| found.iter().any(|known| known.field() == field);
        let nulls: Vec<Finding> = nulls.into_iter().filter(|null| !is_reported(&found, null.field())).collect();
        found.extend(nulls);
        // If the object violates the schema, the evaluation of a CEL rule may fail because of the violation. So drop
        // each error that says that a rule can't be evaluated. In any case, drop an error about a field that another
        // finding reports.
        let violates_schema = found.iter().any(|finding| finding.rule == "schema");
        let errors = Validator::new().validate(schema, &object, None).err().into_iter().flatten();
        let failed = errors.filter(|error| error.kind == ErrorKind::ValidationFailure || !violates_schema);
        let failed = failed.map(|error| Finding::error("cel", quote_keys(&object, &error.field_path), error.message));
        let failed: Vec<Finding> = failed.filter(|finding| !is_reported(&found, finding.field())).collect();
        found.extend(failed);
        found
    }

    /// Returns the spec of an `OpenStackDeployment` without the fields that can't be parsed.
    ///
    /// Returns `None` if a field that selects releases can't be parsed, or if a feature violates its schema: fields
    /// that depend on such a field would cause misleading findings.
    pub(super) fn parse_valid_fields(&self, object: &Value) -> Option<ValidFields> {
        let mut object = object.clone();
        nulls::remove_nulls(&self.deployment, &mut object);
        let features = &self.deployment["properties"]["spec"]["properties"]["features"];
        if !validate(features, &object["spec"]["features"], "spec.features", Nulls::Dropped).is_empty() {
            return None;
        }
        let mut spec = normalized_spec(&object);
        let release = spec.get(RELEASE)?.clone();
        let mut is_complete = true;
        spec.retain(|field, value| {
            let field = field.as_str();
            let is_kept = SELECTING.contains(&field) || parse_spec(json!({RELEASE: release, field: value})).is_ok();
            is_complete &= is_kept || INDEPENDENT.contains(&field);
            is_kept
        });
        Some(ValidFields { spec: parse_spec(spec.into()).ok()?, is_complete })
    }

    /// Adds the available OpenStack releases to a finding about a missing or unknown `spec.openstackRelease`.
    fn with_releases(&self, mut finding: Finding) -> Finding {
        let releases: Vec<String> = self.releases.iter().map(|release| format!("{release:?}")).collect();
        let quoted = finding.remedy.as_deref().and_then(|remedy| remedy.strip_prefix("put it in quotes: "));
        let is_unknown = quoted.is_some_and(|quoted| releases.iter().all(|release| release != quoted));
        if finding.field() == "spec.openstackRelease" && (is_unknown || finding.message == "is required") {
            let remedy = format!("set it to one of the available OpenStack releases: {}", releases.join(", "));
            finding.remedy = Some(remedy);
        }
        finding
    }
}

/// Returns a finding if an object has no `apiVersion`, or an `apiVersion` that the CRDs do not define.
fn check_version(kind: Kind, object: &Value) -> Option<Finding> {
    let version = &object["apiVersion"];
    let message = match version {
        Value::String(version) if version == VERSION => return None,
        Value::Null => format!("is required; write apiVersion: {VERSION}"),
        _ => format!("there is no version {version} of {}; write {VERSION}", kind.name()),
    };
    Some(Finding::error("schema", "apiVersion", message))
}

/// Parses the spec of an `OpenStackDeployment`.
///
/// # Errors
/// Returns an error if a field of the spec does not have the type that the schema requires.
pub fn read_spec(object: &Value) -> Result<OpenStackDeploymentSpec, serde_json::Error> {
    parse_spec(normalized_spec(object).into())
}

fn parse_spec(spec: Value) -> Result<OpenStackDeploymentSpec, serde_json::Error> {
    serde_json::from_value(spec)
}

/// Returns a finding if the spec of an object can't be parsed.
///
/// The caller uses this function only if [`Schemas::check`] has returned no findings.
pub(super) fn check_types(kind: Kind, object: &Value) -> Option<Finding> {
    let error = match kind {
        Kind::OpenStackDeployment => read_spec(object).err(),
        Kind::NodeMaintenance => serde_json::from_value::<NodeMaintenanceSpec>(normalized_spec(object).into()).err(),
    };
    error.map(|error| {
        Finding::error(
            "schema",
            "spec",
            format!("can't be parsed: {}; correct it", redact_literals(&error.to_string())),
        )
    })
}

/// Returns the spec of an object, with whole numbers such as 60.0 converted to integers. Returns an empty map if the
/// spec is not a map.
///
/// The API server accepts 60.0 where the schema has an integer (kube-openapi's `IsFloat64AJSONInteger`).
fn normalized_spec(object: &Value) -> Map<String, Value> {
    let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
    normalize_numbers(&mut spec);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemas() -> Schemas {
        Schemas::new(&Catalog::load(&osdpl_core::testing::files(&[])).unwrap()).unwrap()
    }

    /// Returns the names of the fields in the spec that [`Schemas::parse_valid_fields`] returns, and whether that spec
    /// is complete.
    fn parsed_fields(spec: &Value) -> Option<(Vec<String>, bool)> {
        let parsed = schemas().parse_valid_fields(&json!({"spec": spec}))?;
        let spec = serde_json::to_value(parsed.spec).unwrap();
        Some((spec.as_object().unwrap().keys().cloned().collect(), parsed.is_complete))
    }

    fn complete(fields: &[&str]) -> (Vec<String>, bool) {
        (fields.iter().map(|field| (*field).to_owned()).collect(), true)
    }

    #[test]
    fn leaves_out_fields_that_cannot_be_parsed() {
        let release = json!({"openstackRelease": "2026.1", "presets": ["small"], "nodes": {"roles": ["a"]}, "paused": "maybe", "charts": {"repository": "x"}});
        assert_eq!(parsed_fields(&release), Some(complete(&["charts", "openstackRelease", "presets"])));
        let whole_number = json!({"openstackRelease": "2026.1", "nodes": {"rollout": {"pauseSeconds": 60.0}}});
        assert_eq!(parsed_fields(&whole_number), Some(complete(&["nodes", "openstackRelease"])));
        let null = json!({"openstackRelease": "2026.1", "services": {"front": null}});
        assert_eq!(
            parsed_fields(&null),
            Some(complete(&["openstackRelease"])),
            "a field that is null counts as unset, as in the API server, so the parsed fields are complete"
        );
        for field in [json!({"common": {"values": [1]}}), json!({"publicDomain": 5})] {
            let mut spec = json!({"openstackRelease": "2026.1"});
            spec.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
            let only_release = (vec![RELEASE.to_owned()], false);
            assert_eq!(
                parsed_fields(&spec),
                Some(only_release),
                "the parsed fields are incomplete, because findings about other fields may depend on {field}"
            );
        }
    }

    #[test]
    fn parses_nothing_if_a_selecting_field_is_invalid() {
        for spec in [
            json!({"openstackRelease": 2026.1}),
            json!({"presets": ["small"]}),
            json!({"paused": true}),
            json!({"openstackRelease": "2026.1", "presets": "small"}),
            json!({"openstackRelease": "2026.1", "services": {"front": {"enabled": 1}}}),
            json!({"openstackRelease": "2026.1", "features": {"colour": {"name": 5}}}),
            json!(["2026.1"]),
            Value::Null,
        ] {
            assert_eq!(parsed_fields(&spec), None, "{spec}");
        }
    }

    #[test]
    fn reports_schema_violations_without_failures_that_follow() {
        let fields = |spec: Value| {
            let object =
                json!({"apiVersion": VERSION, "kind": "OpenStackDeployment", "metadata": {"name": "c"}, "spec": spec});
            let found = schemas().check(Kind::OpenStackDeployment, &object).into_iter();
            found.map(|finding| format!("{} {}", finding.rule, finding.field())).collect::<Vec<_>>()
        };
        let spec = json!({"openstackRelease": "2026.1", "region": 5, "publicDomain": "A B", "nodes": {"rollout": {"batchSize": 1.5}}});
        assert_eq!(
            fields(spec),
            ["schema spec.nodes.rollout.batchSize", "schema spec.region", "cel spec.publicDomain"]
        );
        assert_eq!(fields(json!({"openstackRelease": "2026.1"})), [""; 0]);
    }
}
