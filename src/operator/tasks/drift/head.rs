//! Reads the metadata of objects of any kind, reduced to the object's name and its field managers.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use kube::{Api, Client, Resource};
use serde::Deserialize;

use osdpl_client::Scope;
use osdpl_core::drift::{Entry, Kind};

/// The name, the resourceVersion and the field managers of an object of any kind. The parser skips all other fields.
#[derive(Clone, Deserialize)]
#[serde(from = "Wire")]
pub(super) struct ObjectHead {
    metadata: ObjectMeta,
    pub(super) writers: Vec<Entry>,
}

impl fmt::Debug for ObjectHead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}/{:?}", self.metadata.namespace, self.metadata.name)
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    managed_fields: Vec<Entry>,
}

impl From<Wire> for ObjectHead {
    fn from(Wire { metadata }: Wire) -> Self {
        let Metadata { name, namespace, resource_version, managed_fields: writers } = metadata;
        Self { metadata: ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() }, writers }
    }
}

impl Resource for ObjectHead {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn metadata_api() -> bool {
        true
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Returns the clients with which the task watches the objects of a kind: one client for the whole cluster, or one for
/// each namespace in `scope`.
pub(super) fn apis(kind: &Kind, scope: &Scope, client: &Client) -> Vec<Api<ObjectHead>> {
    match scope {
        Scope::Namespaces(names) if kind.namespaced => names.iter().map(|name| api(kind, name, client)).collect(),
        Scope::All | Scope::Namespaces(_) => vec![Api::all_with(client.clone(), &resource(kind))],
    }
}

/// Returns a client for the objects of a kind in a namespace. The function ignores `namespace` for cluster-wide kinds.
pub(super) fn api(kind: &Kind, namespace: &str, client: &Client) -> Api<ObjectHead> {
    if kind.namespaced {
        Api::namespaced_with(client.clone(), namespace, &resource(kind))
    } else {
        Api::all_with(client.clone(), &resource(kind))
    }
}

fn resource(kind: &Kind) -> ApiResource {
    let Kind { kind, group, version, plural, namespaced: _ } = *kind;
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource { api_version, group: group.into(), version: version.into(), kind: kind.into(), plural: plural.into() }
}
