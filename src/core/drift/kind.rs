//! Lists the kinds of objects that osdpl watches for drift: those in upstream's manifests, and those that osdpl's
//! features add.
//!
//! osdpl does not watch objects of other kinds, which users can add with `extraObjects`. Each kind needs `get`, `list`
//! and `watch` in the operator's ClusterRole; `tests/deploy/rules.rs` compares the two lists.
//! `CustomResourceDefinitions` are left out, because several releases can share them and helm keeps them.

/// A kind of object, as the API server names it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The name of the kind, such as `Deployment`.
    pub kind: &'static str,
    /// The API group, such as `apps`; empty for the core group.
    pub group: &'static str,
    /// The API version within the group, such as `v1`.
    pub version: &'static str,
    /// The name of the kind in URLs of the API server, such as `deployments`.
    pub plural: &'static str,
    /// Whether objects of the kind are in namespaces.
    pub namespaced: bool,
}

const fn namespaced(group: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { kind, group, version: "v1", plural, namespaced: true }
}

const CERTIFICATES: &str = "cert-manager.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// All kinds of objects that osdpl watches for drift.
pub static KINDS: [Kind; 20] = [
    namespaced("apps", "DaemonSet", "daemonsets"),
    namespaced("apps", "Deployment", "deployments"),
    namespaced("apps", "StatefulSet", "statefulsets"),
    namespaced("batch", "CronJob", "cronjobs"),
    namespaced("batch", "Job", "jobs"),
    namespaced("", "ConfigMap", "configmaps"),
    namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims"),
    namespaced("", "Secret", "secrets"),
    namespaced("", "Service", "services"),
    namespaced("", "ServiceAccount", "serviceaccounts"),
    namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
    namespaced("networking.k8s.io", "NetworkPolicy", "networkpolicies"),
    namespaced("gateway.networking.k8s.io", "HTTPRoute", "httproutes"),
    namespaced(CERTIFICATES, "Certificate", "certificates"),
    namespaced(CERTIFICATES, "Issuer", "issuers"),
    Kind { namespaced: false, ..namespaced(CERTIFICATES, "ClusterIssuer", "clusterissuers") },
    namespaced(RBAC, "Role", "roles"),
    namespaced(RBAC, "RoleBinding", "rolebindings"),
    Kind { namespaced: false, ..namespaced(RBAC, "ClusterRole", "clusterroles") },
    Kind { namespaced: false, ..namespaced(RBAC, "ClusterRoleBinding", "clusterrolebindings") },
];

/// Returns the watched kind for the `apiVersion` and `kind` in a manifest; the version in `apiVersion` does not matter.
pub fn find_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    KINDS.iter().find(|known| known.kind == kind && known.group == group)
}
