//! The namespaces in which the operator has rights.

use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};

/// The namespaces in which the operator reads and writes objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces. One request or watch reads the objects of all namespaces.
    All,
    /// Only the listed namespaces. Each namespace needs its own requests and watches.
    Namespaces(Vec<String>),
}

impl Scope {
    /// Returns the [`Api`]s with which a caller reads all objects of a namespaced kind: one [`Api`] for the whole
    /// cluster, or one for each namespace of the scope.
    pub fn apis<K>(&self, client: &Client) -> Vec<Api<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::All => vec![Api::all(client.clone())],
            Self::Namespaces(names) => names.iter().map(|name| Api::namespaced(client.clone(), name)).collect(),
        }
    }

    /// Returns the scope without the namespaces for which `keep` returns false. If the scope is [`Scope::All`], the
    /// function returns it unchanged.
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
