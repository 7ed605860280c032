//! The places where a secret must not be visible: objects of the cluster, and files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::discovery::{ApiGroup, Discovery, Scope, verbs};
use kube::{Api, ResourceExt};
use osdpl_core::api::MANAGER;

use super::search::{Found, Search};
use crate::pool::SYSTEM;
use crate::world::World;

/// The kinds whose objects are always searched completely for all secrets. A namespaced object of another kind, except
/// for a Secret, is searched completely for all secrets only if osdpl wrote it; otherwise, the complete object is
/// searched only for Ceph's keys, and its metadata for all secrets. Of Secrets and of cluster-scoped objects of other
/// kinds, only the metadata is searched.
const COMPLETE: [&str; 3] = ["Event", "OpenStackDeployment", "NodeMaintenance"];

/// The annotations with which tests set the log and the termination message of a pod. The search ignores them: tests
/// put secrets into these annotations, to check that the operator removes the secrets from what it reports.
const SET_BY_TESTS: [&str; 2] = ["kwok.osdpl.dev/log", "kwok.osdpl.dev/message"];

/// The beginnings of the names of files and folders in a test's folder that must contain no secret, even if only their
/// owner can read them. They belong to the operator and its helm processes, or contain outputs of commands or statuses.
const OF_OPERATOR: [&str; 6] = ["operator", "helm", "cache", "temporary", "commands", super::STATUSES];

/// The object or file in which a secret is visible, and the text that the search found there.
pub type Leak = (String, Found);

/// The two searches of a test: `all` finds every secret, and `ceph` finds the keys of Ceph's users.
pub struct Searches {
    pub all: Search,
    pub ceph: Search,
}

impl World {
    /// Returns the secrets that are visible in the test's namespaces, in the operator's namespace and in cluster-scoped
    /// objects.
    pub async fn leaks_in_objects(&self, searches: &Searches) -> Vec<Leak> {
        let discovery = Discovery::new(self.client.clone()).run_aggregated().await.unwrap();
        let mut leaks = Vec::new();
        for (resource, capabilities) in discovery.groups().flat_map(ApiGroup::recommended_resources) {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let is_complete = COMPLETE.contains(&resource.kind.as_str());
            if capabilities.scope == Scope::Namespaced && resource.kind != "Secret" || is_complete {
                leaks.extend(self.leaks_in(&resource, searches, is_complete).await);
            } else {
                leaks.extend(self.leaks_in_metadata(&resource, searches).await);
            }
        }
        leaks
    }

    async fn leaks_in(&self, resource: &ApiResource, searches: &Searches, is_complete: bool) -> Vec<Leak> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let objects = match api.list(&ListParams::default()).await {
            Err(error) if is_kind_gone(&error) => return Vec::new(),
            objects => objects.unwrap().items.into_iter(),
        };
        let objects = objects.filter(|object| self.is_searched(object.namespace().as_deref()));
        let find = |mut object: DynamicObject| {
            let is_ours =
                is_complete || object.managed_fields().iter().any(|by| by.manager.as_deref() == Some(MANAGER));
            object.annotations_mut().retain(|key, _| !SET_BY_TESTS.contains(&key.as_str()));
            let place = format!("{} {}", resource.kind, object.name_any());
            let metadata = serde_json::to_vec(&object.metadata).unwrap();
            let text = if is_ours { serde_json::to_vec(&object).unwrap() } else { metadata };
            // Upstream's charts put some credentials into objects other than Secrets. So if osdpl did not write an
            // object, search the complete object only for Ceph's keys, and only its metadata for all other secrets.
            let found = searches.all.find(&text);
            let found = found.or_else(|| searches.ceph.find(&serde_json::to_vec(&object).unwrap()));
            found.map(|found| (place, found))
        };
        objects.filter_map(find).collect()
    }

    async fn leaks_in_metadata(&self, resource: &ApiResource, searches: &Searches) -> Vec<Leak> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let objects = match api.list_metadata(&ListParams::default()).await {
            Err(error) if is_kind_gone(&error) => return Vec::new(),
            objects => objects.unwrap().items.into_iter(),
        };
        let objects = objects.filter(|object| self.is_searched(object.namespace().as_deref()));
        let find = |object: kube::core::PartialObjectMeta<DynamicObject>| {
            let found = searches.all.find(&serde_json::to_vec(&object.metadata).unwrap());
            found.map(|found| (format!("{} {}", resource.kind, object.name_any()), found))
        };
        objects.filter_map(find).collect()
    }

    /// Whether the search reads objects in this namespace; `None` means cluster-scoped objects. Includes the namespace
    /// `default`, because it contains the events about nodes.
    fn is_searched(&self, namespace: Option<&str>) -> bool {
        namespace.is_none_or(|name| [SYSTEM.0, "default"].contains(&name) || self.owns(name))
    }

    /// Returns the secrets that are visible in files of the test's folder. Searches all files in [`OF_OPERATOR`]: logs,
    /// command lines, environments, metrics, outputs of commands, caches and temporary files, and the temporary files
    /// that existed when a helm process started. Of the remaining files, skips those that only their owner can read:
    /// they may contain secrets.
    pub fn leaks_in_files(&self, searches: &Searches) -> Vec<Leak> {
        let (root, mut leaks) = (self.folder.path(), Vec::new());
        visit(root, &mut |path| {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let is_operators = OF_OPERATOR.iter().any(|begin| name.starts_with(begin));
            let others = 0o077;
            let is_private = std::fs::metadata(path).unwrap().permissions().mode() & others == 0;
            if is_operators || !is_private {
                leaks.extend(searches.all.find(&std::fs::read(path).unwrap()).map(|found| (name, found)));
            }
        });
        leaks
    }
}

/// Whether a request failed because a test has just deleted the CRD of the kind. Checks only the HTTP status code,
/// because the body of this response is not always a `Status`.
pub fn is_kind_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Calls `look` with each file below a folder, except for symbolic links and chart archives.
fn visit(folder: &Path, look: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_symlink() || path.extension().is_some_and(|extension| extension == "tgz") {
            continue;
        }
        if path.is_dir() {
            visit(&path, look);
        } else if path.is_file() {
            look(&path);
        }
    }
}
