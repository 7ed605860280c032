//! Computes the responses of the validating webhook (`admission.k8s.io/v1` `AdmissionReview`).

use serde_json::{Value, json};

use super::review::ReviewInput;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{find_excluded_presets, has_unknown_names};
use osdpl_core::finding::{CATALOGUE, Finding};

/// The maximum number of warnings in a response. After 4096 characters in total, the API server cuts off the warnings.
const MAX_WARNINGS: usize = 8;

/// The name of the rule that checks the final values of releases.
///
/// While the catalogue lacks one of the additions that a cloud uses, this rule can report wrong errors, because an
/// addition can set any value. This is possible even if the catalogue contains all presets, features and services that
/// the spec names.
const VALUES: &str = "values";

/// Returns the spec in an `AdmissionReview`.
///
/// Returns `None` if the webhook allows the request without validation, or if the spec can't be parsed.
pub fn spec_to_check(review: &Value) -> Option<OpenStackDeploymentSpec> {
    let request = &review["request"];
    is_validated(request).then(|| serde_json::from_value(request["object"]["spec"].clone()).ok()).flatten()
}

fn is_validated(request: &Value) -> bool {
    let (object, old) = (&request["object"], &request["oldObject"]);
    object["metadata"]["deletionTimestamp"].is_null() && (old.is_null() || object["spec"] != old["spec"])
}

/// Returns the fields, such as `spec.presets[1]`, of presets that can't be combined with an earlier preset of the list.
///
/// The webhook refuses such presets even if additions are missing, because no addition can make them compatible.
fn excluded_presets(presets: &Value, catalog: &Catalog) -> Vec<String> {
    let presets: Vec<String> = serde_json::from_value(presets.clone()).unwrap_or_default();
    let later = find_excluded_presets(&presets, catalog).into_iter().map(|(later, ..)| later);
    later.map(|later| format!("spec.presets[{later}]")).collect()
}

impl ReviewInput<'_> {
    /// Returns the response to a review: it refuses an object with errors, and allows an object that has only warnings.
    ///
    /// The function does not check the schema and the CEL rules, because the API server has already checked them.
    ///
    /// The response always allows an object that is being deleted, or whose spec does not change. Otherwise a rule of a
    /// new operator version could block the deletion of an existing cloud, or a change of its metadata.
    ///
    /// If `is_complete` is false, the catalogue can lack additions that the cloud uses. In this case, an error about an
    /// existing cloud becomes a warning if a missing addition can be the cause:
    /// * A missing addition can cause every error of the rule `values`.
    /// * A missing addition can cause an error of the rule `catalogue` only if the spec contains an unknown name.
    ///
    /// The response contains at most [`MAX_WARNINGS`] warnings, and then the number of the others. The errors that
    /// became warnings come first.
    pub fn admission(&self, review: &Value, is_complete: bool) -> Value {
        let request = &review["request"];
        let found = self.findings(request);
        let is_lenient = !is_complete && !request["oldObject"].is_null();
        let excluded = excluded_presets(&request["object"]["spec"]["presets"], self.catalog);
        let has_unknown_names = spec_to_check(review).is_some_and(|spec| has_unknown_names(&spec, self.catalog));
        let can_be_resolved = |finding: &Finding| match finding.rule {
            VALUES => true,
            CATALOGUE => has_unknown_names && !excluded.contains(&finding.location.field),
            _ => false,
        };
        let is_downgraded =
            |finding: &&Finding| is_lenient && finding.level == Level::Error && can_be_resolved(finding);
        let refused = found.iter().filter(|finding| finding.level == Level::Error && !is_downgraded(finding));
        let errors: Vec<String> = refused.map(ToString::to_string).collect();
        let downgraded = found.iter().filter(is_downgraded);
        let other_warnings = found.iter().filter(|finding| finding.level == Level::Warning);
        let mut warnings: Vec<String> = downgraded.chain(other_warnings).map(ToString::to_string).collect();
        if warnings.len() > MAX_WARNINGS {
            let more = warnings.len() - MAX_WARNINGS;
            warnings.truncate(MAX_WARNINGS);
            warnings.push(format!("and {more} more; `osdpl validate` shows all of them"));
        }
        let mut response = json!({ "uid": request["uid"], "allowed": errors.is_empty() });
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        if !errors.is_empty() {
            response["status"] = json!({ "code": 422, "reason": "Invalid", "message": errors.join("\n") });
        }
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
    }

    fn findings(&self, request: &Value) -> Vec<Finding> {
        let (object, old) = (&request["object"], &request["oldObject"]);
        if !is_validated(request) {
            return Vec::new();
        }
        let deployment: OpenStackDeployment = match serde_json::from_value(object.clone()) {
            Ok(deployment) => deployment,
            Err(error) => {
                let error = osdpl_values::yaml::redact_literals(&error.to_string());
                let message = format!(
                    "the operator can't parse the resource, so osdpl does not validate the resource: {error}; apply the operator's CRD"
                );
                return vec![Finding::warning("schema", "spec", message)];
            }
        };
        let deployed = old["status"]["openstackRelease"]["deployed"].as_str();
        let mut found = self.evaluate(&deployment, deployed).desired.findings;
        found.sort();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Schemas;
    use osdpl_core::catalog::Catalog;
    use osdpl_core::observed::ClusterInfo;

    fn respond(spec: &Value, more: &Value) -> Value {
        respond_with(spec, more, true)
    }

    fn respond_with(spec: &Value, more: &Value, is_complete: bool) -> Value {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let input = ReviewInput {
            catalog: &catalog,
            schemas: &Schemas::new(&catalog).unwrap(),
            manifests: &[],
            cluster_info: &ClusterInfo::default(),
            now: None,
        };
        let object = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "c", "namespace": "n"}, "spec": spec});
        let mut request = json!({"uid": "1-2", "operation": "CREATE", "object": object});
        for (path, value) in more.as_object().unwrap() {
            let (part, field) = path.split_once('.').unwrap_or((path, ""));
            if field.is_empty() {
                request[part] = value.clone();
            } else {
                request[part]["metadata"][field] = value.clone();
            }
        }
        let response = input.admission(&json!({"request": request}), is_complete);
        assert_eq!((&response["kind"], &response["response"]["uid"]), (&json!("AdmissionReview"), &json!("1-2")));
        response["response"].clone()
    }

    #[test]
    fn errors_refuse_and_warnings_allow() {
        let valid = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        assert_eq!(respond(&valid, &json!({})), json!({"uid": "1-2", "allowed": true}));
        let wrong = json!({"openstackRelease": "2026.1", "presets": ["smal"], "features": {"color": {}}});
        let refused = respond(&wrong, &json!({}));
        let message = refused["status"]["message"].as_str().unwrap();
        assert_eq!((&refused["allowed"], refused["status"]["code"].as_u64()), (&json!(false), Some(422)));
        assert!(
            message.contains("spec.presets[0]: there is no preset \"smal\"")
                && message.contains("spec.features.color: there is no feature"),
            "{message}"
        );
        let single_label = json!({"openstackRelease": "2026.1", "presets": ["small"], "publicDomain": "cloud"});
        let response = respond(&single_label, &json!({}));
        assert_eq!(response["allowed"], true);
        assert!(
            response["warnings"][0].as_str().unwrap().starts_with("spec.publicDomain: cloud is a single label"),
            "{response}"
        );
    }

    #[test]
    fn incomplete_catalogue_allows_unknown_names() {
        let existing = json!({"oldObject": {"spec": {}}});
        let green = json!({"colour": {"name": "green"}});
        let known = json!({"openstackRelease": "2026.1", "presets": ["small"], "features": green});
        let refused = respond_with(&known, &existing, false);
        let message = refused["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("spec.features.colour.name: \"green\" is not one of"), "{message}");
        let lacking = json!({"openstackRelease": "2026.1", "presets": ["small", "edge"], "features": green});
        let downgraded = respond_with(&lacking, &existing, false);
        assert_eq!((&downgraded["allowed"], downgraded["warnings"].as_array().map(Vec::len)), (&json!(true), Some(2)));
        assert_eq!(
            respond_with(&lacking, &json!({}), false)["allowed"],
            false,
            "a new object with errors is refused even if the catalogue is incomplete"
        );
    }

    #[test]
    fn allows_deleted_and_unchanged_objects() {
        let wrong = json!({"openstackRelease": "2026.1", "presets": ["smal"]});
        let allowed = json!({"uid": "1-2", "allowed": true});
        assert_eq!(respond(&wrong, &json!({"oldObject": {"spec": wrong}})), allowed);
        assert_eq!(respond(&wrong, &json!({"object.deletionTimestamp": "2026-11-21T00:00:00Z"})), allowed);
        let moved = json!({"oldObject": {"spec": {}, "status": {"openstackRelease": {"deployed": "2025.2"}}}});
        let refused = respond(&json!({"openstackRelease": "2026.1", "presets": ["small"]}), &moved);
        assert_eq!(refused["allowed"], false, "{refused}");
    }
}
