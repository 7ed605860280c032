//! Lists the kinds of objects that osdpl watches for drift: the kinds in upstream's manifests, and the kinds that
//! osdpl's features add.
//!
//! osdpl does not report drift of any other kind of object, even if users add such objects with `extraObjects`. The
//! list does not contain the kind `CustomResourceDefinition`: several releases can share a CRD, and helm keeps a CRD
//! when it uninstalls the CRD's release.
//!
//! The operator's ClusterRole must allow `get`, `list` and `watch` for each kind in the list; `tests/deploy/rbac.rs`
//! compares the ClusterRole with the list.

/// A kind of object with the names under which the API server knows it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The name of the kind, such as `Deployment`.
    pub kind: &'static str,
    /// The API group of the kind, such as `apps`; empty for the core group.
    pub group: &'static str,
    /// The version of the API group, such as `v1`.
    pub version: &'static str,
    /// The name of the kind in URLs of the API server, such as `deployments`.
    pub plural: &'static str,
    /// Whether objects of this kind belong to a namespace.
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

/// Returns the entry of `KINDS` for the `apiVersion` and `kind` of an object in a manifest; `None` if osdpl does not
/// watch this kind. The function compares only the group in `apiVersion`, not the version.
pub fn find_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    KINDS.iter().find(|known| known.kind == kind && known.group == group)
}
