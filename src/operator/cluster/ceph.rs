//! Writes the `ConfigMap` and Secrets of Ceph that charts mount.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Cluster, Error, Explain, Inputs, MANAGER};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::{Kind, Object};
use osdpl_decide::COMPONENT;

/// The type of the Secrets that the charts' own Jobs write.
const SECRET_TYPE: &str = "kubernetes.io/rbd";

impl Cluster {
    /// Applies an object that charts mount.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn write_object(&self, deployment: &str, object: &Object, inputs: &Inputs) -> Result<(), Error> {
        self.ensure_namespace(&object.namespace).await?;
        match object.kind {
            Kind::ConfigMap => {
                let body = json!({"data": object.data});
                inputs.own_maps().put(self.apply::<ConfigMap>(object, deployment, body).await?);
            }
            Kind::Secret | Kind::Opaque => {
                let encoded = |text: &String| STANDARD.encode(text);
                let data = object.data.iter().map(|(key, text)| (key.clone(), encoded(text)));
                let data: BTreeMap<String, String> = data.collect();
                let type_ = if object.kind == Kind::Secret { SECRET_TYPE } else { "Opaque" };
                let body = json!({"data": data, "type": type_});
                inputs.own().put(self.apply::<Secret>(object, deployment, body).await?);
            }
        }
        Ok(())
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
}
