//! One resource, judged whole.

use kube::core::cel::{ErrorKind, Validator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Judged, fields, schema};
use crate::api::{self, OpenStackDeployment, SchemaError};
use crate::catalog::Catalog;

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

    /// What `kubectl explain` calls it.
    fn explained(self) -> &'static str {
        match self {
            Self::OpenStackDeployment => "osdpl",
            Self::NodeMaintenance => "nodemaintenance",
        }
    }
}

/// The schemas of the custom resource definitions.
pub struct Schemas {
    deployment: Value,
    maintenance: Value,
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
        Ok(Self { deployment: taken(&mut deployment), maintenance: taken(&mut maintenance) })
    }

    fn of(&self, kind: Kind) -> &Value {
        match kind {
            Kind::OpenStackDeployment => &self.deployment,
            Kind::NodeMaintenance => &self.maintenance,
        }
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
}

impl Question<'_> {
    /// Everything about one object of this kind, of which nothing is known but what it and those beside it say: offline.
    pub fn document(&self, kind: Kind, object: &Value) -> Vec<Judged> {
        let mut found = by_server(kind, object, self.schemas.of(kind));
        let deployment = match kind {
            Kind::OpenStackDeployment => typed::<OpenStackDeployment>(object, &mut found),
            Kind::NodeMaintenance => {
                drop(typed::<api::NodeMaintenance>(object, &mut found));
                None
            }
        };
        for judged in deployment.iter().flat_map(|deployment| self.resource(deployment)) {
            // The catalogue's own words help more than a schema's.
            found.retain(|known| known.field != judged.field || known.rule != "schema");
            let is_told = found.iter().any(|known| known.field == judged.field && known.rule == "field");
            found.extend((!is_told).then_some(judged));
        }
        found.sort();
        found.dedup();
        found
    }
}

/// What the API server would say.
fn by_server(kind: Kind, object: &Value, schema: &Value) -> Vec<Judged> {
    let mut found = fields::unknown_fields(schema, object);
    if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
        found.push(Judged::error("schema", "metadata.name", "Required value; give the resource a name, such as cloud"));
    }
    // `status` is the operator's.
    for part in ["spec"] {
        if object[part].is_null() {
            found.push(Judged::error("schema", part, "Required value; say what is wanted"));
        }
        found.extend(schema::judge(&schema["properties"][part], &object[part], part, kind.explained()));
    }
    let is_misshapen = found.iter().any(|judged| judged.rule == "schema");
    for error in Validator::new().validate(schema, object, None).err().into_iter().flatten() {
        // What has no sound shape can't be computed with either, and the shape has been told of.
        if error.kind == ErrorKind::ValidationFailure || !is_misshapen {
            found.push(Judged::error("cel", error.field_path.trim_start_matches('.'), error.message));
        }
    }
    found
}

/// The object as its type, where its shape lets it; why not, where nothing has said so already.
fn typed<T: DeserializeOwned>(object: &Value, found: &mut Vec<Judged>) -> Option<T> {
    let known = serde_json::from_value(object.clone());
    match known {
        Ok(typed) => Some(typed),
        Err(error) => {
            if found.is_empty() {
                found.push(Judged::error("schema", "", format!("{error}; correct it")));
            }
            None
        }
    }
}

impl Question<'_> {
    /// What goes beyond the API server's own judgement: the catalogue's findings, by made-up facts, and our rules.
    pub fn resource(&self, deployment: &OpenStackDeployment) -> Vec<Judged> {
        let name = deployment.metadata.name.as_deref().unwrap_or("cloud");
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or("openstack");
        let (spec, catalog) = (&deployment.spec, self.catalog);
        let selection = crate::desired::select(name, namespace, spec, catalog);
        let mut facts = super::made_up(catalog, &selection);
        facts.values_from = super::beside::values_from(spec, namespace, self.beside);
        let desired = crate::desired::resolve(spec, catalog, &selection, &facts);
        let mut found: Vec<Judged> =
            desired.findings.iter().cloned().map(|finding| Judged::of("catalogue", finding)).collect();
        found.extend(super::certificate::judge(spec, namespace, self.beside));
        found.extend(super::judge(spec, catalog, &selection, &facts));
        for (name, release) in &desired.releases {
            // A release that can't be put together, for a reason that no finding says.
            let blocked = release.blocked.as_ref().filter(|_| !selection.is_refused());
            found.extend(blocked.map(|blocked| {
                Judged::error(
                    "catalogue",
                    format!("spec.services.{}", release.service),
                    format!("release {name}: {}", blocked.message),
                )
            }));
        }
        found
    }
}
