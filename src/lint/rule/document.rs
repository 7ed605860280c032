//! Validates one resource completely.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::lacking::Lacking;
use super::served::{Served, typed};
use crate::evaluate::{Evaluation, Input};
use osdpl_core::api::{self, OpenStackDeployment, SchemaError};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::finding::Finding;
use osdpl_core::observed::ClusterInfo;

/// The API version of both kinds.
pub(super) const VERSION: &str = "osdpl.dev/v1alpha1";

/// The kinds of resource that are validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A cloud.
    OpenStackDeployment,
    /// The maintenance of a node.
    NodeMaintenance,
}

impl Kind {
    /// Returns the kind of an object; `None` if it is not an osdpl resource.
    pub fn of(object: &Value) -> Option<Self> {
        let ours = object["apiVersion"].as_str().is_some_and(|version| version.starts_with("osdpl.dev/"));
        match object["kind"].as_str() {
            Some("OpenStackDeployment") if ours => Some(Self::OpenStackDeployment),
            Some("NodeMaintenance") if ours => Some(Self::NodeMaintenance),
            _ => None,
        }
    }

    /// The kind as written in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenStackDeployment => "OpenStackDeployment",
            Self::NodeMaintenance => "NodeMaintenance",
        }
    }
}

/// Whether an object is a cloud, or most likely meant to be one (without an `apiVersion`).
pub fn is_deployment(object: &Value) -> bool {
    let may_be_ours = object["apiVersion"].is_null() && object["kind"] == Kind::OpenStackDeployment.name();
    may_be_ours || Kind::of(object) == Some(Kind::OpenStackDeployment)
}

/// The schemas of the custom resource definitions.
pub struct Schemas {
    deployment: Value,
    maintenance: Value,
    /// The OpenStack releases of the catalogue.
    releases: Vec<String>,
}

impl Schemas {
    /// Builds the schemas for a catalogue.
    ///
    /// # Errors
    /// If the schema of a feature is not valid.
    pub fn new(catalog: &Catalog) -> Result<Self, SchemaError> {
        let mut deployment = serde_json::to_value(api::crd(catalog)?)?;
        let mut maintenance = serde_json::to_value(api::maintenance_crd()?)?;
        let taken = |crd: &mut Value| crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
        let releases = catalog.openstack.keys().cloned().collect();
        Ok(Self { deployment: taken(&mut deployment), maintenance: taken(&mut maintenance), releases })
    }

    /// The OpenStack releases of the catalogue, the newest last.
    pub(super) fn releases(&self) -> &[String] {
        &self.releases
    }

    pub(super) fn of(&self, kind: Kind) -> &Value {
        match kind {
            Kind::OpenStackDeployment => &self.deployment,
            Kind::NodeMaintenance => &self.maintenance,
        }
    }

    /// Returns what the API server would refuse of an object: its name, its fields and their values.
    pub fn check(&self, kind: Kind, object: &Value) -> Vec<Finding> {
        self.served(kind, object).found
    }
}

/// The context in which objects are validated.
#[derive(Clone, Copy)]
pub struct ReviewInput<'a> {
    /// The catalogue.
    pub catalog: &'a Catalog,
    /// The schemas for the catalogue.
    pub schemas: &'a Schemas,
    /// Objects that are applied together with the resource: the Secrets and `ConfigMap`s that it references.
    pub beside: &'a [Value],
    /// The cluster, as far as it is known.
    pub site: &'a ClusterInfo,
    /// The current time; without it expiry is not checked.
    pub now: Option<Timestamp>,
}

impl ReviewInput<'_> {
    /// Validates one object offline, only from its content and the objects beside it.
    pub fn document(&self, kind: Kind, object: &Value) -> Vec<Finding> {
        self.review(kind, object).0
    }

    /// Validates one object as [`Self::document`] does, and returns the evaluation of a cloud whose parts could be
    /// parsed.
    pub fn review(&self, kind: Kind, object: &Value) -> (Vec<Finding>, Option<Evaluation>) {
        let Served { mut found, sound } = self.schemas.served(kind, object);
        let deployment = match kind {
            Kind::OpenStackDeployment => typed::<OpenStackDeployment>(object, &sound, &mut found),
            Kind::NodeMaintenance => {
                drop(typed::<api::NodeMaintenance>(object, &sound, &mut found));
                None
            }
        };
        let evaluation = deployment.as_ref().map(|deployment| {
            let deployed = object["status"]["openstackRelease"]["deployed"].as_str();
            self.evaluate(deployment, deployed)
        });
        let beyond = evaluation.iter().flat_map(|evaluation| evaluation.desired.findings.iter().cloned());
        let lacking = Lacking::of(&sound, self.catalog);
        let beyond = beyond.filter(|finding| !lacking.explains(finding));
        for finding in beyond.filter_map(|finding| sound.map_finding(finding)) {
            // The catalogue's message is more helpful than a schema's.
            let is_better = finding.level == Level::Error;
            found.retain(|known| {
                known.location.field != finding.location.field
                    || !is_better
                    || !(known.rule == "schema" || is_release(known))
            });
            let is_reported = found.iter().any(|known| {
                known.location.field == finding.location.field
                    && (known.rule == "field" || known.message == finding.message)
            });
            found.extend((!is_reported).then_some(finding));
        }
        found.sort();
        found.dedup();
        (found, evaluation)
    }
}

/// Whether this is the rule about the format of release names: the catalogue's finding lists the available releases.
fn is_release(finding: &Finding) -> bool {
    finding.rule == "cel" && finding.location.field == "spec.openstackRelease"
}

impl ReviewInput<'_> {
    /// Returns the Secrets of certificates that an object of this kind uses.
    pub(super) fn certificates(&self, kind: Kind, object: &Value) -> Vec<String> {
        let sound = self.schemas.sound(kind, object);
        let deployment = typed::<OpenStackDeployment>(object, &sound, &mut Vec::new());
        let selected = deployment
            .filter(|_| kind == Kind::OpenStackDeployment)
            .map(|deployment| Input::of_resource(&deployment, &deployment.spec, self.catalog).select());
        selected.into_iter().flat_map(|selection| selection.certificates).map(|certificate| certificate.name).collect()
    }

    /// Evaluates a resource offline. `deployed` is the deployed OpenStack release, if it is known.
    pub fn evaluate(&self, deployment: &OpenStackDeployment, deployed: Option<&str>) -> Evaluation {
        let input = Input { deployed, now: self.now, ..Input::of_resource(deployment, &deployment.spec, self.catalog) };
        input.evaluate_offline(self.beside, self.site)
    }
}
