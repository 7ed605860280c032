//! Ceph's ConfigMap and Secrets for the charts, each written only when it differs, and withdrawn when nobody mounts it any more.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::{Metadata, NamespaceResourceScope};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::remove::gone;
use super::{Cluster, Error, Explain, Inputs, MANAGER, Reference};
use osdpl_core::api::{DEPLOYMENT_LABEL, ValuesKind};
use osdpl_core::ceph::{Kind, NotReady, Object};

/// Tells Ceph's objects from the Secrets with credentials, which are labelled as ours as well.
pub(super) const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "ceph");
/// What the charts' own Jobs write.
const SECRET_TYPE: &str = "kubernetes.io/rbd";

/// An object's text by key.
type Data = BTreeMap<String, String>;

/// A kind that holds data.
trait Holds {
    fn data(self) -> Data;
}

impl Holds for ConfigMap {
    fn data(self) -> Data {
        self.data.unwrap_or_default()
    }
}

impl Holds for Secret {
    fn data(self) -> Data {
        texts(self.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
    }
}

fn texts(data: BTreeMap<String, Vec<u8>>) -> Data {
    data.into_iter().map(|(key, bytes)| (key, String::from_utf8_lossy(&bytes).into_owned())).collect()
}

fn reference(object: &Object) -> Reference {
    let kind = if object.kind == Kind::ConfigMap { ValuesKind::ConfigMap } else { ValuesKind::Secret };
    Reference { kind, namespace: object.namespace.clone(), name: object.name.clone() }
}

impl Inputs {
    /// Of what others keep in place of ours, watches what stands where one of these is to be, and nothing else any more.
    pub fn keep_in_place_of<'a>(&self, objects: impl IntoIterator<Item = &'a Object>) {
        self.keep_beside(&objects.into_iter().map(reference).collect());
    }
}

impl Cluster {
    /// Writes what differs, but nothing where an object stands in the way that is not ours and says something else, or where the charts were given
    /// another Ceph: the first such trouble is returned.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn write_ceph(
        &self,
        deployment: &str,
        objects: &[Object],
        inputs: &Inputs,
    ) -> Result<Option<NotReady>, Error> {
        let mut different = Vec::new();
        for object in objects {
            let held = self.held(object, deployment, inputs).await?;
            let stays = matches!(&held, Held::Foreign(data) if object.is_equivalent_to(data));
            inputs.watch_beside(reference(object), stays && !self.only_reads);
            match held {
                Held::Foreign(_) if stays => {}
                Held::Foreign(_) => return Ok(Some(NotReady::Occupied(object.to_string()))),
                Held::Ours(data) if data == object.data => {}
                Held::Ours(data) => {
                    if let Some(problem) = object.other_ceph_error(&data) {
                        return Ok(Some(problem));
                    }
                    different.push(object);
                }
                Held::Absent => different.push(object),
            }
        }
        if self.only_reads {
            return Ok(None);
        }
        for object in different {
            self.ensure_namespace(&object.namespace).await?;
            match object.kind {
                Kind::ConfigMap => {
                    let body = json!({"data": object.data});
                    inputs.own_maps().put(self.apply::<ConfigMap>(object, deployment, body).await?);
                }
                Kind::Secret | Kind::Opaque => {
                    let encoded = |text: &String| STANDARD.encode(text);
                    let data: Data = object.data.iter().map(|(key, text)| (key.clone(), encoded(text))).collect();
                    let type_ = if object.kind == Kind::Secret { SECRET_TYPE } else { "Opaque" };
                    let body = json!({"data": data, "type": type_});
                    inputs.own().put(self.apply::<Secret>(object, deployment, body).await?);
                }
            }
            tracing::info!(%object, "written for the charts that use Ceph");
        }
        Ok(None)
    }

    /// What stands there: as a watch tells, of ours or of what was left to others; else as the API server has it.
    async fn held(&self, object: &Object, deployment: &str, inputs: &Inputs) -> Result<Held, Error> {
        let known = match object.kind {
            Kind::ConfigMap => {
                inputs.own_maps().known(&object.namespace, &object.name).map(|own| Held::of(Some(own), deployment))
            }
            Kind::Secret | Kind::Opaque => {
                inputs.own().known(&object.namespace, &object.name).map(|own| Held::of(Some(own), deployment))
            }
        };
        let beside = || inputs.beside(&reference(object)).map(|data| Held::Foreign(texts(data)));
        match (known.or_else(beside), object.kind) {
            (Some(held), _) => Ok(held),
            (None, Kind::ConfigMap) => Ok(Held::of(self.read::<ConfigMap>(object).await?, deployment)),
            (None, Kind::Secret | Kind::Opaque) => Ok(Held::of(self.read::<Secret>(object).await?, deployment)),
        }
    }

    async fn read<K>(&self, object: &Object) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace);
        api.get_opt(&object.name).await.because(|| format!("reading {object}"))
    }

    async fn apply<K>(&self, object: &Object, deployment: &str, mut body: serde_json::Value) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace);
        let labels = json!({
            DEPLOYMENT_LABEL: deployment, "app.kubernetes.io/managed-by": MANAGER, COMPONENT.0: COMPONENT.1,
        });
        body["apiVersion"] = "v1".into();
        body["kind"] = object.kind.name().into();
        body["metadata"] = json!({"name": object.name, "namespace": object.namespace, "labels": labels});
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&object.name, &params, &Patch::Apply(body)).await.because(|| format!("writing {object}"))
    }

    /// Removes Ceph's objects that are not among `kept`.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn remove_ceph(&self, deployment: &str, kept: &[Object]) -> Result<(), Error> {
        self.withdraw::<ConfigMap>(deployment, Kind::ConfigMap.name(), kept).await?;
        self.withdraw::<Secret>(deployment, Kind::Secret.name(), kept).await
    }

    async fn withdraw<K>(&self, deployment: &str, kind: &str, kept: &[Object]) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Metadata<Ty = ObjectMeta>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let selector = format!("{DEPLOYMENT_LABEL}={deployment},{}={}", COMPONENT.0, COMPONENT.1);
        let all: Api<K> = Api::all(self.client.clone());
        let found = all.list_metadata(&ListParams::default().labels(&selector)).await;
        for held in found.because(|| format!("listing {kind}s with {selector}"))? {
            let (namespace, name) = (held.namespace().unwrap_or_default(), held.name_any());
            let is_kept =
                |object: &Object| object.kind.name() == kind && object.namespace == namespace && object.name == name;
            if !kept.iter().any(is_kept) {
                let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
                gone(api.delete(&name, &DeleteParams::default()).await, || {
                    format!("deleting {kind} {namespace}/{name}")
                })?;
            }
        }
        Ok(())
    }
}

/// What stands where an object is to be.
enum Held {
    Absent,
    Ours(Data),
    Foreign(Data),
}

impl Held {
    fn of<K: Holds + ResourceExt>(found: Option<K>, deployment: &str) -> Self {
        match found {
            None => Self::Absent,
            Some(held) if held.labels().get(DEPLOYMENT_LABEL).is_some_and(|owner| owner == deployment) => {
                Self::Ours(held.data())
            }
            Some(held) => Self::Foreign(held.data()),
        }
    }
}
