//! What a validating webhook answers (`admission.k8s.io/v1` `AdmissionReview`).

use serde_json::{Value, json};

use super::{Judged, Question};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{Finding, contradictions, lacks_names};

/// How many warnings a client is shown; the API server cuts them all off at 4096 characters.
const WARNINGS: usize = 8;

/// The rule that judges values, whoever sets them: what someone adds to the catalogue may set them, whether the spec names it or not.
const OF_VALUES: &str = "values";

/// The rule that judges by what the catalogue holds: a preset that is not known may set what is missing, and turn what is wrong into right.
const OF_CATALOGUE: &str = "catalogue";

/// The spec that a review asks about; `None` for one that is let through unjudged, or can't be read.
pub fn asked(review: &Value) -> Option<OpenStackDeploymentSpec> {
    let request = &review["request"];
    is_judged(request).then(|| serde_json::from_value(request["object"]["spec"].clone()).ok()).flatten()
}

fn is_judged(request: &Value) -> bool {
    let (object, old) = (&request["object"], &request["oldObject"]);
    object["metadata"]["deletionTimestamp"].is_null() && (old.is_null() || object["spec"] != old["spec"])
}

/// The fields of presets that can't be beside others: nothing that may be added to the catalogue mends that.
fn settled(presets: &Value, catalog: &Catalog) -> Vec<String> {
    let presets: Vec<String> = serde_json::from_value(presets.clone()).unwrap_or_default();
    let later = contradictions(&presets, catalog).into_iter().map(|(later, ..)| later);
    later.map(|later| format!("spec.presets[{later}]")).collect()
}

impl Question<'_> {
    /// The answer to a review: what is refused is refused with all its findings, what is doubtful is let through with a warning.
    ///
    /// The API server has judged the schema and the CEL rules by then. What is being deleted, or keeps its spec, is let through: an operator that
    /// learns a new rule must not lock what stands. Where the catalogue may hold more than is known of it (not `is_whole`), names that it is said to lack lock
    /// nothing that stands either, nor does what may follow of one that is missing, nor values that come out of it: that has become warnings, the first of
    /// them. Where it has all names that the spec says, what it refuses is wrong whatever is added to it.
    pub fn admission(&self, review: &Value, is_whole: bool) -> Value {
        let request = &review["request"];
        let found = self.judged(request);
        let is_lenient = !is_whole && !request["oldObject"].is_null();
        let settled = settled(&request["object"]["spec"]["presets"], self.catalog);
        let lacks = asked(review).is_some_and(|spec| lacks_names(&spec, self.catalog));
        let is_open = |judged: &Judged| match judged.rule {
            OF_VALUES => true,
            OF_CATALOGUE => lacks && !settled.contains(&judged.field),
            _ => false,
        };
        let is_spared = |judged: &&Judged| is_lenient && judged.level == Level::Error && is_open(judged);
        let words = |judged: &Judged| Finding::from(judged.clone()).to_string();
        let refused = found.iter().filter(|judged| judged.level == Level::Error && !is_spared(judged));
        let errors: Vec<String> = refused.map(words).collect();
        let spared = found.iter().filter(is_spared);
        let doubtful = found.iter().filter(|judged| judged.level == Level::Warning);
        let mut warnings: Vec<String> = spared.chain(doubtful).map(words).collect();
        if warnings.len() > WARNINGS {
            let more = warnings.len() - WARNINGS;
            warnings.truncate(WARNINGS);
            warnings.push(format!("and {more} more, which `osdpl validate` tells"));
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

    fn judged(&self, request: &Value) -> Vec<Judged> {
        let (object, old) = (&request["object"], &request["oldObject"]);
        if !is_judged(request) {
            return Vec::new();
        }
        let deployment: OpenStackDeployment = match serde_json::from_value(object.clone()) {
            Ok(deployment) => deployment,
            Err(error) => {
                let error = osdpl_values::yaml::without_literals(&error.to_string());
                let message = format!(
                    "the operator can't read the resource, so that it is not judged: {error}; apply the operator's CRD"
                );
                return vec![Judged::warning("schema", "spec", message)];
            }
        };
        let deployed = old["status"]["openstackRelease"]["deployed"].as_str();
        let mut found = deployed.map(|deployed| self.moved(deployed, &deployment)).unwrap_or_default();
        found.extend(self.resource(&deployment));
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
    use osdpl_core::observed::Site;

    fn answer(spec: &Value, more: &Value) -> Value {
        answer_by(spec, more, true)
    }

    fn answer_by(spec: &Value, more: &Value, is_whole: bool) -> Value {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let question = Question {
            catalog: &catalog,
            schemas: &Schemas::new(&catalog).unwrap(),
            beside: &[],
            site: &Site::default(),
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
        let answer = question.admission(&json!({"request": request}), is_whole);
        assert_eq!((&answer["kind"], &answer["response"]["uid"]), (&json!("AdmissionReview"), &json!("1-2")));
        answer["response"].clone()
    }

    #[test]
    fn every_error_refuses_and_warnings_are_told() {
        let sound = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        assert_eq!(answer(&sound, &json!({})), json!({"uid": "1-2", "allowed": true}));
        let wrong = json!({"openstackRelease": "2026.1", "presets": ["smal"], "features": {"color": {}}});
        let refused = answer(&wrong, &json!({}));
        let message = refused["status"]["message"].as_str().unwrap();
        assert_eq!((&refused["allowed"], refused["status"]["code"].as_u64()), (&json!(false), Some(422)));
        assert!(
            message.contains("spec.presets[0]: there is no preset \"smal\"")
                && message.contains("spec.features.color: there is no feature"),
            "{message}"
        );
        let doubtful = json!({"openstackRelease": "2026.1", "presets": ["small"], "publicDomain": "cloud"});
        let told = answer(&doubtful, &json!({}));
        assert_eq!(told["allowed"], true);
        assert!(
            told["warnings"][0].as_str().unwrap().starts_with("spec.publicDomain: cloud is a single label"),
            "{told}"
        );
    }

    #[test]
    fn what_a_catalogue_that_is_not_whole_refuses_is_spared_where_a_name_is_missing_alone() {
        let stands = json!({"oldObject": {"spec": {}}});
        let green = json!({"colour": {"name": "green"}});
        let known = json!({"openstackRelease": "2026.1", "presets": ["small"], "features": green});
        let refused = answer_by(&known, &stands, false);
        let message = refused["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("spec.features.colour.name: \"green\" is not one of"), "{message}");
        let lacking = json!({"openstackRelease": "2026.1", "presets": ["small", "edge"], "features": green});
        let spared = answer_by(&lacking, &stands, false);
        assert_eq!((&spared["allowed"], spared["warnings"].as_array().map(Vec::len)), (&json!(true), Some(2)));
        assert_eq!(answer_by(&lacking, &json!({}), false)["allowed"], false, "nothing stands yet");
    }

    #[test]
    fn what_leaves_or_keeps_its_spec_is_let_through() {
        let wrong = json!({"openstackRelease": "2026.1", "presets": ["smal"]});
        let through = json!({"uid": "1-2", "allowed": true});
        assert_eq!(answer(&wrong, &json!({"oldObject": {"spec": wrong}})), through);
        assert_eq!(answer(&wrong, &json!({"object.deletionTimestamp": "2026-11-21T00:00:00Z"})), through);
        let moved = json!({"oldObject": {"spec": {}, "status": {"openstackRelease": {"deployed": "2025.2"}}}});
        let refused = answer(&json!({"openstackRelease": "2026.1", "presets": ["small"]}), &moved);
        assert_eq!(refused["allowed"], false, "{refused}");
    }
}
