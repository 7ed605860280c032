//! Responses of the validating webhook (`admission.k8s.io/v1` `AdmissionReview`).

use serde_json::{Value, json};

use super::ReviewInput;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{find_excluded_presets, has_unknown_names};
use osdpl_core::finding::Finding;

/// The number of warnings in a response; the API server truncates all of them at 4096 characters in total.
const WARNINGS: usize = 8;

/// The rule about values: additions to the catalogue may set them, whether the spec names the addition or not.
const OF_VALUES: &str = "values";

/// The rule about names of the catalogue: a preset that is not known yet may set what is missing.
const OF_CATALOGUE: &str = "catalogue";

/// The spec of a review; `None` if the review is allowed without validation, or if the spec can't be parsed.
pub fn spec_to_check(review: &Value) -> Option<OpenStackDeploymentSpec> {
    let request = &review["request"];
    is_validated(request).then(|| serde_json::from_value(request["object"]["spec"].clone()).ok()).flatten()
}

fn is_validated(request: &Value) -> bool {
    let (object, old) = (&request["object"], &request["oldObject"]);
    object["metadata"]["deletionTimestamp"].is_null() && (old.is_null() || object["spec"] != old["spec"])
}

/// Returns the fields of presets that exclude others: no addition to the catalogue resolves this.
fn settled(presets: &Value, catalog: &Catalog) -> Vec<String> {
    let presets: Vec<String> = serde_json::from_value(presets.clone()).unwrap_or_default();
    let later = find_excluded_presets(&presets, catalog).into_iter().map(|(later, ..)| later);
    later.map(|later| format!("spec.presets[{later}]")).collect()
}

impl ReviewInput<'_> {
    /// Returns the response to a review: errors refuse it with all findings, warnings allow it.
    ///
    /// The API server has already checked the schema and the CEL rules. An object that is being deleted, or whose spec
    /// does not change, is allowed: new rules of an operator must not lock existing clouds.
    ///
    /// If the catalogue may be incomplete (not `is_whole`), existing clouds are not refused for unknown names, for
    /// consequences of those, or for values that come from the catalogue. Such errors become the first warnings. If the
    /// catalogue has all names of the spec, its errors stay errors: no addition can resolve them.
    pub fn admission(&self, review: &Value, is_whole: bool) -> Value {
        let request = &review["request"];
        let found = self.findings(request);
        let is_lenient = !is_whole && !request["oldObject"].is_null();
        let settled = settled(&request["object"]["spec"]["presets"], self.catalog);
        let has_unknown_names = spec_to_check(review).is_some_and(|spec| has_unknown_names(&spec, self.catalog));
        let is_open = |judged: &Finding| match judged.rule {
            OF_VALUES => true,
            OF_CATALOGUE => has_unknown_names && !settled.contains(&judged.location.field),
            _ => false,
        };
        let is_downgraded = |judged: &&Finding| is_lenient && judged.level == Level::Error && is_open(judged);
        let text = |judged: &Finding| judged.to_string();
        let refused = found.iter().filter(|judged| judged.level == Level::Error && !is_downgraded(judged));
        let errors: Vec<String> = refused.map(text).collect();
        let downgraded = found.iter().filter(is_downgraded);
        let warnings_found = found.iter().filter(|judged| judged.level == Level::Warning);
        let mut warnings: Vec<String> = downgraded.chain(warnings_found).map(text).collect();
        if warnings.len() > WARNINGS {
            let more = warnings.len() - WARNINGS;
            warnings.truncate(WARNINGS);
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
                    "the operator can't parse the resource, so it is not validated: {error}; apply the operator's CRD"
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
    use crate::rule::Schemas;
    use osdpl_core::catalog::Catalog;
    use osdpl_core::observed::ClusterInfo;

    fn respond(spec: &Value, more: &Value) -> Value {
        respond_with(spec, more, true)
    }

    fn respond_with(spec: &Value, more: &Value, is_whole: bool) -> Value {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let question = ReviewInput {
            catalog: &catalog,
            schemas: &Schemas::new(&catalog).unwrap(),
            beside: &[],
            site: &ClusterInfo::default(),
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
        let response = question.admission(&json!({"request": request}), is_whole);
        assert_eq!((&response["kind"], &response["response"]["uid"]), (&json!("AdmissionReview"), &json!("1-2")));
        response["response"].clone()
    }

    #[test]
    fn errors_refuse_and_warnings_allow() {
        let sound = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        assert_eq!(respond(&sound, &json!({})), json!({"uid": "1-2", "allowed": true}));
        let wrong = json!({"openstackRelease": "2026.1", "presets": ["smal"], "features": {"color": {}}});
        let refused = respond(&wrong, &json!({}));
        let message = refused["status"]["message"].as_str().unwrap();
        assert_eq!((&refused["allowed"], refused["status"]["code"].as_u64()), (&json!(false), Some(422)));
        assert!(
            message.contains("spec.presets[0]: there is no preset \"smal\"")
                && message.contains("spec.features.color: there is no feature"),
            "{message}"
        );
        let warnings_found = json!({"openstackRelease": "2026.1", "presets": ["small"], "publicDomain": "cloud"});
        let response = respond(&warnings_found, &json!({}));
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
        assert_eq!(respond_with(&lacking, &json!({}), false)["allowed"], false, "a new object is refused");
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
