//! Validates one resource completely.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::lacking::Lacking;
use super::served::{Served, typed};
use super::{certificate, check_release_move};
use osdpl_core::finding::Finding;
use crate::hazard::Cloud;
use osdpl_core::api::{self, OpenStackDeployment, OpenStackDeploymentSpec, SchemaError};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired;
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
    pub fn judge(&self, kind: Kind, object: &Value) -> Vec<Finding> {
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
        let Served { mut found, sound } = self.schemas.served(kind, object);
        let deployment = match kind {
            Kind::OpenStackDeployment => typed::<OpenStackDeployment>(object, &sound, &mut found),
            Kind::NodeMaintenance => {
                drop(typed::<api::NodeMaintenance>(object, &sound, &mut found));
                None
            }
        };
        let deployed = object["status"]["openstackRelease"]["deployed"].as_str().zip(deployment.as_ref());
        let moved = deployed.into_iter().flat_map(|(deployed, own)| self.moved(deployed, own));
        let beyond = moved.chain(deployment.iter().flat_map(|deployment| self.resource(deployment)));
        let lacking = Lacking::of(&sound, self.catalog);
        let beyond = beyond.filter(|judged| !lacking.explains(judged));
        for judged in beyond.filter_map(|judged| sound.judged(judged)) {
            // The catalogue's message is more helpful than a schema's.
            let is_better = judged.level == Level::Error;
            found.retain(|known| {
                known.location.field != judged.location.field || !is_better || !(known.rule == "schema" || is_release(known))
            });
            let is_reported = found
                .iter()
                .any(|known| known.location.field == judged.location.field && (known.rule == "field" || known.message == judged.message));
            found.extend((!is_reported).then_some(judged));
        }
        found.sort();
        found.dedup();
        found
    }
}

/// Whether this is the rule about the format of release names: the catalogue's finding lists the available releases.
fn is_release(judged: &Finding) -> bool {
    judged.rule == "cel" && judged.location.field == "spec.openstackRelease"
}

impl ReviewInput<'_> {
    /// Returns the Secrets of certificates that an object of this kind uses.
    pub(super) fn certificates(&self, kind: Kind, object: &Value) -> Vec<String> {
        let sound = self.schemas.sound(kind, object);
        let deployment = typed::<OpenStackDeployment>(object, &sound, &mut Vec::new());
        let selected = deployment.filter(|_| kind == Kind::OpenStackDeployment).map(|deployment| {
            let (name, namespace) = named(&deployment);
            desired::select(name, namespace, &deployment.spec, self.catalog)
        });
        selected.into_iter().flat_map(|selection| selection.certificates).map(|certificate| certificate.name).collect()
    }

    /// Checks a resource whose spec has another OpenStack release than the deployed one.
    pub(super) fn moved(&self, deployed: &str, deployment: &OpenStackDeployment) -> Vec<Finding> {
        let mut found = check_release_move(deployed, &deployment.spec, self.catalog);
        if !found.is_empty() {
            let known = super::beside::values_from(&deployment.spec, named(deployment).1, self.beside);
            found.extend(super::pinned_in_values_from(deployed, &deployment.spec, &known));
        }
        found
    }

    /// Returns the findings beyond the API server's own checks: the catalogue's, based on placeholder facts, and those
    /// of our rules.
    pub fn resource(&self, deployment: &OpenStackDeployment) -> Vec<Finding> {
        let (name, namespace) = named(deployment);
        let (spec, catalog) = (&deployment.spec, self.catalog);
        let selection = desired::select(name, namespace, spec, catalog);
        let mut facts = super::placeholder_facts_with(spec, catalog, &selection, self.beside);
        facts.site = self.site.clone();
        let layered = desired::resolve_with_layers(spec, catalog, &selection, &facts);
        let mut found: Vec<Finding> =
            layered.desired.findings.clone();
        if !selection.is_refused() {
            found.extend(
                layered.problems.iter().map(|finding| with_credential_field(spec, finding)),
            );
        }
        let cloud = Cloud::new(spec, catalog, &selection, &facts, &layered);
        found.extend(certificate::check(&selection.certificates, namespace, self.beside, self.now));
        found.extend(super::check(&cloud, self.now));
        found
    }
}

/// Returns the name and the namespace of a resource, or their defaults.
fn named(deployment: &OpenStackDeployment) -> (&str, &str) {
    let metadata = &deployment.metadata;
    (metadata.name.as_deref().unwrap_or("cloud"), metadata.namespace.as_deref().unwrap_or("openstack"))
}

/// Moves a problem with a credential of the spec to the field that references it.
fn with_credential_field(spec: &OpenStackDeploymentSpec, problem: &Finding) -> Finding {
    let mut finding = problem.clone();
    let credential = finding.location.field.strip_prefix("credential ").and_then(|credential| credential.split_once('.'));
    if let Some((service, name)) = credential
        && spec.services.get(service).is_some_and(|service| service.credentials.contains_key(name))
    {
        finding.location.field = format!("spec.services.{service}.credentials.{name}");
    }
    finding
}
