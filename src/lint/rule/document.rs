//! One resource, judged whole.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::lacking::Lacking;
use super::served::{Served, typed};
use super::{Judged, certificate, moved};
use crate::hazard::Cloud;
use osdpl_core::api::{self, OpenStackDeployment, OpenStackDeploymentSpec, SchemaError};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{self, Finding};
use osdpl_core::observed::Site;

/// The one version of both kinds.
pub(super) const VERSION: &str = "osdpl.dev/v1alpha1";

/// The kinds of resource that are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A cloud.
    OpenStackDeployment,
    /// A node that is taken out of it.
    NodeMaintenance,
}

impl Kind {
    /// The kind of an object; `None` for one that is not ours.
    pub fn of(object: &Value) -> Option<Self> {
        let ours = object["apiVersion"].as_str().is_some_and(|version| version.starts_with("osdpl.dev/"));
        match object["kind"].as_str() {
            Some("OpenStackDeployment") if ours => Some(Self::OpenStackDeployment),
            Some("NodeMaintenance") if ours => Some(Self::NodeMaintenance),
            _ => None,
        }
    }

    /// As manifests write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenStackDeployment => "OpenStackDeployment",
            Self::NodeMaintenance => "NodeMaintenance",
        }
    }
}

/// Whether an object is a cloud, or is most likely meant to be one: it names no version.
pub fn is_ours(object: &Value) -> bool {
    let is_meant = object["apiVersion"].is_null() && object["kind"] == Kind::OpenStackDeployment.name();
    is_meant || Kind::of(object) == Some(Kind::OpenStackDeployment)
}

/// The schemas of the custom resource definitions.
pub struct Schemas {
    deployment: Value,
    maintenance: Value,
    /// The OpenStack releases that there are.
    releases: Vec<String>,
}

impl Schemas {
    /// Those of this catalogue.
    ///
    /// # Errors
    /// When a feature's schema is none.
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

    /// What the API server would refuse of an object: of its names, its fields and their values.
    pub fn judge(&self, kind: Kind, object: &Value) -> Vec<Judged> {
        self.served(kind, object).found
    }
}

/// What objects are judged by.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The catalogue.
    pub catalog: &'a Catalog,
    /// Its schemas.
    pub schemas: &'a Schemas,
    /// Objects that are applied beside: Secrets and `ConfigMaps` that are named.
    pub beside: &'a [Value],
    /// The cluster, as far as it is known.
    pub site: &'a Site,
    /// What time it is; where nobody says so, nothing is said of what has run out.
    pub now: Option<Timestamp>,
}

impl Question<'_> {
    /// Everything about one object of this kind, of which nothing is known but what it and those beside it say: offline.
    pub fn document(&self, kind: Kind, object: &Value) -> Vec<Judged> {
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
            // The catalogue's own words help more than a schema's.
            let is_better = judged.level == Level::Error;
            found.retain(|known| {
                known.field != judged.field || !is_better || !(known.rule == "schema" || is_release(known))
            });
            let is_told = found
                .iter()
                .any(|known| known.field == judged.field && (known.rule == "field" || known.message == judged.message));
            found.extend((!is_told).then_some(judged));
        }
        found.sort();
        found.dedup();
        found
    }
}

/// Whether it is the rule for the shape of releases' names: a release that the catalogue does not have is told of with those that it has.
fn is_release(judged: &Judged) -> bool {
    judged.rule == "cel" && judged.field == "spec.openstackRelease"
}

impl Question<'_> {
    /// The Secrets of certificates that an object of this kind looks for.
    pub(super) fn certificates(&self, kind: Kind, object: &Value) -> Vec<String> {
        let sound = self.schemas.sound(kind, object);
        let deployment = typed::<OpenStackDeployment>(object, &sound, &mut Vec::new());
        let selected = deployment.filter(|_| kind == Kind::OpenStackDeployment).map(|deployment| {
            let (name, namespace) = named(&deployment);
            desired::select(name, namespace, &deployment.spec, self.catalog)
        });
        selected.into_iter().flat_map(|selection| selection.certificates).map(|certificate| certificate.name).collect()
    }

    /// What is wrong with the release of a resource where another one is deployed.
    pub(super) fn moved(&self, deployed: &str, deployment: &OpenStackDeployment) -> Vec<Judged> {
        let mut found = moved(deployed, &deployment.spec, self.catalog);
        if !found.is_empty() {
            let known = super::beside::values_from(&deployment.spec, named(deployment).1, self.beside);
            found.extend(super::pinned_beside(deployed, &deployment.spec, &known));
        }
        found
    }

    /// What goes beyond the API server's own judgement: the catalogue's findings, by made-up facts, and our rules.
    pub fn resource(&self, deployment: &OpenStackDeployment) -> Vec<Judged> {
        let (name, namespace) = named(deployment);
        let (spec, catalog) = (&deployment.spec, self.catalog);
        let selection = desired::select(name, namespace, spec, catalog);
        let mut facts = super::made_up_beside(spec, catalog, &selection, self.beside);
        facts.site = self.site.clone();
        let layered = desired::layered(spec, catalog, &selection, &facts);
        let mut found: Vec<Judged> =
            layered.desired.findings.iter().map(|finding| Judged::of("catalogue", finding.clone())).collect();
        if !selection.is_refused() {
            found.extend(layered.problems.iter().map(|finding| Judged::of("catalogue", placed(spec, finding))));
        }
        let cloud = Cloud::new(spec, catalog, &selection, &facts, &layered);
        found.extend(certificate::judge(&selection.certificates, namespace, self.beside, self.now));
        found.extend(super::judge(&cloud, self.now));
        found
    }
}

/// The name and the namespace of a resource, as those are taken that it does not say.
fn named(deployment: &OpenStackDeployment) -> (&str, &str) {
    let metadata = &deployment.metadata;
    (metadata.name.as_deref().unwrap_or("cloud"), metadata.namespace.as_deref().unwrap_or("openstack"))
}

/// A credential that the spec gives and that can't be used, with the field that gives it.
fn placed(spec: &OpenStackDeploymentSpec, problem: &Finding) -> Finding {
    let mut finding = problem.clone();
    let credential = finding.field.strip_prefix("credential ").and_then(|credential| credential.split_once('.'));
    if let Some((service, name)) = credential
        && spec.services.get(service).is_some_and(|service| service.credentials.contains_key(name))
    {
        finding.field = format!("spec.services.{service}.credentials.{name}");
    }
    finding
}
