//! Validates one resource: with the schema and the CEL rules of the CRD, the catalogue, and osdpl's own rules.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::crd::{Schemas, ValidFields, check_types};
use super::kinds::Kind;
use crate::evaluate::{Evaluation, Input};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired;
use osdpl_core::finding::Finding;
use osdpl_core::observed::ClusterInfo;

/// The input for the validation of an object, except for the object itself.
#[derive(Clone, Copy)]
pub struct ReviewInput<'a> {
    /// The catalogue, including the additions that the resource names.
    pub catalog: &'a Catalog,
    /// The schemas of the CRDs, which include the schemas of the catalogue's features.
    pub schemas: &'a Schemas,
    /// The objects that are applied together with the resource, such as Secrets and `ConfigMap`s that the resource
    /// references.
    pub manifests: &'a [Value],
    /// The properties of the cluster that rules use, such as the address ranges of pods; empty if osdpl does not know
    /// these properties.
    pub cluster_info: &'a ClusterInfo,
    /// The current time; without it, osdpl does not check the expiry of certificates.
    pub now: Option<Timestamp>,
}

impl ReviewInput<'_> {
    /// Validates one object without access to a cluster.
    ///
    /// Returns the findings and, if the object is an `OpenStackDeployment`, the evaluation of its spec. If an invalid
    /// field may affect the findings about other fields, the function does not evaluate the spec. In this case it
    /// checks at most whether the names in the spec exist in the catalogue.
    pub fn review(&self, kind: Kind, object: &Value) -> (Vec<Finding>, Option<Evaluation>) {
        let mut found = self.schemas.check(kind, object);
        if found.is_empty() {
            found.extend(check_types(kind, object));
        }
        let valid = self.parse_spec(kind, object);
        let evaluation = valid.as_ref().filter(|valid| valid.is_complete).map(|valid| {
            let deployed = object["status"]["openstackRelease"]["deployed"].as_str();
            let input = Input { deployed, now: self.now, ..self.input(object, &valid.spec) };
            input.evaluate_offline(self.manifests, self.cluster_info)
        });
        let findings = match (&evaluation, &valid) {
            (Some(evaluation), _) => evaluation.desired.findings.clone(),
            (None, Some(valid)) => desired::check_names(&valid.spec, self.catalog),
            (None, None) => Vec::new(),
        };
        for finding in findings {
            // If the schema and the catalogue report errors about the same field, keep only the catalogue's error,
            // because its message is more helpful. A warning of the catalogue does not replace an error of the schema.
            let is_better = finding.level == Level::Error;
            found.retain(|known| {
                known.field() != finding.field() || !is_better || !(known.rule == "schema" || is_release(known))
            });
            let is_reported = found.iter().any(|known| {
                known.field() == finding.field() && (known.rule == "field" || known.text() == finding.text())
            });
            found.extend((!is_reported).then_some(finding));
        }
        found.sort();
        found.dedup();
        (found, evaluation)
    }

    /// Returns the names of the certificate Secrets that a resource uses.
    pub(super) fn certificates(&self, kind: Kind, object: &Value) -> Vec<String> {
        let valid = self.parse_spec(kind, object);
        let certificates = valid.map(|valid| self.input(object, &valid.spec).select().certificates);
        certificates.into_iter().flatten().map(|certificate| certificate.name).collect()
    }

    /// Evaluates a resource offline. `deployed` is the OpenStack release that is deployed now; `None` if it is not
    /// known.
    pub fn evaluate(&self, deployment: &OpenStackDeployment, deployed: Option<&str>) -> Evaluation {
        let input = Input { deployed, now: self.now, ..Input::of_resource(deployment, &deployment.spec, self.catalog) };
        input.evaluate_offline(self.manifests, self.cluster_info)
    }

    /// Returns the valid fields of the spec of an `OpenStackDeployment` ([`Schemas::parse_valid_fields`]); `None` for a
    /// NodeMaintenance.
    fn parse_spec(&self, kind: Kind, object: &Value) -> Option<ValidFields> {
        match kind {
            Kind::OpenStackDeployment => self.schemas.parse_valid_fields(object),
            Kind::NodeMaintenance => None,
        }
    }

    /// Returns the input for evaluating `spec`: the spec, the catalogue, and the name and namespace of `object`.
    fn input<'b>(&'b self, object: &'b Value, spec: &'b OpenStackDeploymentSpec) -> Input<'b> {
        let defaults = Input::of_spec(spec, self.catalog);
        let metadata = |field: &str| object["metadata"][field].as_str();
        Input {
            name: metadata("name").unwrap_or(defaults.name),
            namespace: metadata("namespace").unwrap_or(defaults.namespace),
            ..defaults
        }
    }
}

/// Whether a finding is the error of the CEL rule about the format of `spec.openstackRelease`.
///
/// If the catalogue also reports an error about `spec.openstackRelease`, osdpl drops the error of the CEL rule, because
/// the catalogue's error lists the available OpenStack releases.
fn is_release(finding: &Finding) -> bool {
    finding.rule == "cel" && finding.field() == "spec.openstackRelease"
}
