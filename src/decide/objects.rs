//! Defines the part of a snapshot that contains watched objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::Value;

use super::requests::Reference;
use osdpl_core::desired::Unavailable;
use osdpl_core::observed::ReleaseKey;

/// The data of a Secret or `ConfigMap`, by key.
pub type Data = BTreeMap<String, Vec<u8>>;

/// The state of an object that the operator watches, as far as the operator knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ObjectState {
    /// The watch has not reported the object yet.
    #[default]
    Unread,
    /// The object does not exist.
    Missing,
    /// The object exists. Contains its data.
    Read(Arc<Data>),
    /// The operator can't read the object. Contains the reason.
    Failed(String),
}

/// The content of the watched objects at the time of the snapshot.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The objects that the spec names, each with its state.
    pub named: BTreeMap<Reference, ObjectState>,
    /// The objects in the field `foreign` of the last plan's `Requests`, each with its state. They lack osdpl's label.
    /// When osdpl made that plan, they contained the data that osdpl would write, but someone may have changed them
    /// since.
    pub foreign: BTreeMap<Reference, ObjectState>,
    /// The Secrets with osdpl's label, by namespace and name.
    pub secrets: BTreeMap<ReleaseKey, Arc<Secret>>,
    /// The `ConfigMap`s with osdpl's label, by namespace and name.
    pub maps: BTreeMap<ReleaseKey, Arc<ConfigMap>>,
    /// The names of all namespaces; `None` if the operator has no right to list them.
    pub namespaces: Option<BTreeSet<String>>,
    /// Whether the API server has answered all requests that list osdpl's objects or the namespaces. A refusal also
    /// counts as an answer.
    pub listed: bool,
    /// Rook's objects by kind and name; an error says why the operator can't list the objects of a kind.
    pub rook: BTreeMap<&'static str, Result<BTreeMap<String, Value>, String>>,
}

impl Objects {
    /// Returns the value under one key of an object that the spec names.
    ///
    /// # Errors
    /// The error says why there is no value and what to do. It contains no values of the object.
    pub fn get(&self, reference: &Reference, key: &str) -> Result<Vec<u8>, Unavailable> {
        let data = self.data(reference, || format!("create it with the key {key:?}"))?;
        data.get(key).cloned().ok_or_else(|| {
            let keys = data.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            Unavailable::Missing(format!(
                "{reference} has no key {key:?} (it has: {keys}); add the key or name another one"
            ))
        })
    }

    /// Returns all data of an object that the spec names.
    ///
    /// # Errors
    /// The error says why there is no data and what to do. It contains no values of the object.
    pub(crate) fn all(&self, reference: &Reference) -> Result<Data, Unavailable> {
        self.data(reference, || "create it, or correct the name".into()).map(|data| (*data).clone())
    }

    fn data(&self, reference: &Reference, remedy: impl FnOnce() -> String) -> Result<Arc<Data>, Unavailable> {
        match self.named.get(reference) {
            None | Some(ObjectState::Unread) => Err(Unavailable::Unusable(format!("{reference} is being read"))),
            Some(ObjectState::Missing) => {
                Err(Unavailable::Missing(format!("{reference} does not exist; {}", remedy())))
            }
            Some(ObjectState::Failed(error)) => {
                Err(Unavailable::Unusable(format!("{reference} can't be read: {error}")))
            }
            Some(ObjectState::Read(data)) => Ok(Arc::clone(data)),
        }
    }

    /// Returns Rook's objects of a kind, by name.
    ///
    /// # Errors
    /// Returns an error if the operator can't list the objects. The error contains the reason.
    pub(crate) fn rook_objects(&self, kind: &str) -> Result<&BTreeMap<String, Value>, String> {
        match self.rook.get(kind) {
            None => Err(format!("{kind}s are being read")),
            Some(Ok(objects)) => Ok(objects),
            Some(Err(problem)) => Err(problem.clone()),
        }
    }
}
