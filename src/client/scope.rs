//! The namespaces in which the operator has rights.

use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};

/// The namespaces in which the operator has rights, and so reads and writes objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces. The operator reads the objects of all namespaces with one request or watch.
    All,
    /// Only these namespaces. The operator needs a request or watch for each of them.
    Namespaces(Vec<String>),
}

impl Scope {
    /// Returns the [`Api`]s that together contain all objects of a namespaced kind in the scope: one [`Api`] for all
    /// namespaces, or one for each namespace.
    pub fn apis<K>(&self, client: &Client) -> Vec<Api<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::All => vec![Api::all(client.clone())],
            Self::Namespaces(names) => names.iter().map(|name| Api::namespaced(client.clone(), name)).collect(),
        }
    }

    /// Returns the scope with only those namespaces for which `keep` returns true. Returns [`Scope::All`] unchanged.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        match self {
            Self::All => Self::All,
            Self::Namespaces(names) => Self::Namespaces(names.iter().filter(|name| keep(name)).cloned().collect()),
        }
    }

    /// Whether the operator has rights in a namespace.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(names) => names.iter().any(|name| name == namespace),
        }
    }
}
