//! Our Secrets: whose hand was at one, and how one is written.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use super::{Edits, Store};
use crate::api::MANAGED;
use crate::cluster::{Error, Explain, MANAGER};
use crate::credentials::Restored;

impl Store<'_> {
    /// Stores the data, and notes what was put back with it; a gate that only reads does neither.
    pub(super) async fn write(
        &self,
        restored: Restored,
        known: Option<Secret>,
        data: BTreeMap<String, ByteString>,
        edits: &mut Edits,
    ) -> Result<(), Error> {
        if self.cluster.only_reads {
            return Ok(());
        }
        let name = restored.secret.as_str();
        let namespace = &self.question.selection.namespace;
        let exists = known.is_some();
        let mut secret = known.unwrap_or_default();
        secret.metadata.name = Some(name.to_owned());
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.insert(MANAGED.into(), self.question.selection.name.clone());
        labels.insert("app.kubernetes.io/managed-by".into(), MANAGER.into());
        secret.data = Some(data);
        let api: Api<Secret> = Api::namespaced(self.cluster.client.clone(), namespace);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        // Both forms fail when someone else was faster (create: exists; replace: its resourceVersion), and the next pass reads again.
        let written =
            if exists { api.replace(name, &params, &secret).await } else { api.create(&params, &secret).await };
        if written.is_err() {
            self.own.forget(namespace, name);
        }
        self.own.put(written.because(|| format!("storing credentials in Secret {name}"))?);
        if !restored.keys.is_empty() {
            tracing::warn!("{restored}");
            edits.restored.push(restored);
        }
        Ok(())
    }
}

/// Whether the watch on our Secrets sees it.
pub fn is_labelled(secret: &Secret, deployment: &str) -> bool {
    secret.labels().get(MANAGED).is_some_and(|owner| owner == deployment)
}

/// Whether a field manager other than ours owns this key of the data: it wrote it last.
pub fn is_edited(secret: &Secret, key: &str) -> bool {
    let field = format!("f:{key}");
    secret.metadata.managed_fields.iter().flatten().any(|entry| {
        let owns = entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:data"].get(&field).is_some());
        owns && entry.manager.as_deref() != Some(MANAGER)
    })
}
