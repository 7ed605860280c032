//! Defines actions: the changes that a plan contains and that the operator executes. Most actions are one write to the
//! cluster. Others run helm, delete several objects, or delete hosts from Nova and Neutron.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use serde_json::Value;

use super::requests::{AbandonedCrd, Leftover};
use osdpl_core::catalog::file;
use osdpl_core::ceph::{Manifest, Object};
use osdpl_core::desired::ExternalService;
use osdpl_core::nodes::LabelChange;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::openstack::Mapping;
use osdpl_core::plan;
use osdpl_core::release::{Cleanup, Status};
use osdpl_core::rollout::{Eviction, Strategy};
use osdpl_core::status::Event;

/// The kind of a CRD in Kubernetes' API.
const CRD: &str = "CustomResourceDefinition";

/// An action of a plan, with the reason for it and the events to record.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The action that the operator executes.
    pub action: Action,
    /// Why osdpl executes the action.
    pub reason: String,
    /// Whether the action waits for a person's approval.
    pub approval: Approval,
    /// The events that the operator records after it has executed the action.
    pub events: Vec<Event>,
}

/// Whether an action waits for a person's approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// The action needs no approval.
    NotNeeded,
    /// The action needs an approval that nobody has given. The plan shows the action, but the operator does not execute
    /// it.
    Missing,
}

/// A change that the operator executes: a write to the cluster, a run of helm, or the deletion of hosts from Nova.
#[derive(Clone, Debug)]
pub enum Action {
    /// Add osdpl's finalizer to the `OpenStackDeployment`.
    AddFinalizer,
    /// Store credentials in a Secret of osdpl.
    StoreCredentials(Box<SecretWrite>),
    /// Apply the headless Service through which pods reach an external service.
    PublishService {
        /// The name of the external service in the catalogue.
        service: String,
        /// The external host, and the Service that osdpl publishes for the host.
        external: ExternalService,
    },
    /// Apply the Endpoints that contain the addresses of an external service's host.
    PublishEndpoints {
        /// The name of the external service in the catalogue.
        service: String,
        /// The external host, and the Service that osdpl publishes for the host.
        external: ExternalService,
        /// The addresses of the external host.
        addresses: Vec<IpAddr>,
    },
    /// Write a `ConfigMap` or a Secret that pods mount to use Ceph.
    WriteObject(Object),
    /// Apply an object of Rook, such as a pool or a user. Rook's operator then changes Ceph.
    ApplyRook {
        /// The namespace in which Rook runs.
        namespace: String,
        /// The object to apply.
        manifest: Manifest,
    },
    /// Set the Keystone settings of a `CephObjectStore`.
    ConfigureStore {
        /// The namespace and name of the `CephObjectStore`.
        store: ReleaseKey,
        /// The uid of the `CephObjectStore`.
        uid: Value,
        /// The fields to set in the spec of the `CephObjectStore`.
        settings: Value,
    },
    /// Change the labels that osdpl manages on a node.
    LabelNode {
        /// The name of the node.
        name: String,
        /// The labels to set and to remove.
        change: LabelChange,
    },
    /// Set the update strategy of a `DaemonSet`.
    SetStrategy(Strategy),
    /// Delete the objects that failed revisions of a release left behind, and label the records of these revisions as
    /// cleaned up.
    CleanUp {
        /// The namespace and name of the release.
        release: ReleaseKey,
        /// The revisions that may have left objects behind, and the revisions whose objects osdpl keeps.
        cleanup: Cleanup,
        /// The objects to delete. If there are none, osdpl only labels the records.
        leftovers: Vec<Leftover>,
    },
    /// Create a namespace.
    CreateNamespace(String),
    /// Transfer a CRD to a release. A release of the same name in another namespace left the CRD behind when helm
    /// uninstalled that release.
    TransferCrd {
        /// The CRD to transfer.
        definition: AbandonedCrd,
        /// The release to which osdpl transfers the CRD.
        release: ReleaseKey,
    },
    /// Apply a CRD from the `crds/` folder of a chart, because helm installs such CRDs, but never upgrades them.
    ApplyCrd {
        /// The release whose chart contains the CRD.
        release: ReleaseKey,
        /// The CRD as the chart contains it.
        definition: Arc<CustomResourceDefinition>,
    },
    /// Execute the step of a release, such as an upgrade.
    Release {
        /// The name of the release in the catalogue.
        name: String,
        /// The namespace and name of the release.
        key: ReleaseKey,
        /// The operation that osdpl runs on the release, such as an upgrade or an uninstall.
        action: plan::Action,
    },
    /// Evict a pod, so that its `DaemonSet` creates a new one.
    Evict(Eviction),
    /// Create a Job from a `CronJob`.
    RunCron {
        /// The namespace and name of the `CronJob`.
        cron: ReleaseKey,
        /// The name of the Job to create.
        job: String,
        /// The Nova hosts that the Job maps to a cell, and the number of the attempt to map them.
        mapping: Mapping,
    },
    /// Delete the compute hosts of removed Kubernetes nodes from Nova and Neutron. The list contains the names of the
    /// nodes.
    ForgetHosts(Vec<String>),
    /// Change annotations of the `OpenStackDeployment`; the value `None` removes an annotation.
    Annotate(BTreeMap<&'static str, Option<String>>),
    /// Delete an object that osdpl or a chart created.
    Delete {
        /// The kind of the object.
        kind: Kind,
        /// The namespace and name of the object.
        key: ReleaseKey,
        /// The uid of the object. osdpl does not delete a newer object of the same name, because that object has
        /// another uid.
        uid: String,
    },
    /// Remove osdpl's Keystone settings from a `CephObjectStore`.
    ReleaseStore {
        /// The namespace and name of the `CephObjectStore`.
        store: ReleaseKey,
        /// The uid of the `CephObjectStore`.
        uid: String,
    },
    /// Remove osdpl's finalizer from the `OpenStackDeployment`.
    RemoveFinalizer,
}

/// A kind of object that osdpl deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A `ConfigMap`.
    ConfigMap,
    /// A Job, together with its pods.
    Job,
    /// A `PersistentVolumeClaim`.
    Claim,
    /// A Secret.
    Secret,
    /// A Service.
    Service,
}

impl Kind {
    /// Returns the name of the kind in Kubernetes.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Job => "Job",
            Self::Claim => "PersistentVolumeClaim",
            Self::Secret => "Secret",
            Self::Service => "Service",
        }
    }
}

/// A Secret with credentials that the operator will store.
///
/// Its `Debug` output contains no values.
#[derive(Clone)]
pub struct SecretWrite {
    /// The service of the catalogue that the credentials belong to.
    pub service: String,
    /// The Secret to store, without the values that the operator generates when it stores the Secret.
    pub secret: Secret,
    /// Whether the Secret exists. The operator replaces an existing Secret only if its resourceVersion has not changed.
    pub exists: bool,
    /// The Secret's keys for which the operator generates values, each with the format and length of the value.
    pub generated: BTreeMap<String, file::Credential>,
}

impl SecretWrite {
    /// Returns the name of the Secret.
    pub fn name(&self) -> &str {
        self.secret.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace of the Secret.
    pub fn namespace(&self) -> &str {
        self.secret.metadata.namespace.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for SecretWrite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generated: Vec<&String> = self.generated.keys().collect();
        write!(formatter, "Secret {}/{} with generated {generated:?}", self.namespace(), self.name())
    }
}

impl Planned {
    /// Plans `action` as an action that needs no approval.
    pub(crate) fn new(action: Action, reason: impl Into<String>) -> Self {
        Self { action, reason: reason.into(), approval: Approval::NotNeeded, events: Vec::new() }
    }

    /// Returns this planned action with `events`, which the operator records after it has executed the action.
    #[must_use]
    pub(crate) fn with_events(self, events: impl IntoIterator<Item = Event>) -> Self {
        Self { events: events.into_iter().collect(), ..self }
    }
}

impl Action {
    /// Returns the key of the action in [`Kept::refused`](super::Kept::refused), the map of the failed actions.
    pub fn id(&self) -> String {
        match self {
            Self::Evict(pod) => format!("{self} {}", pod.uid),
            Self::LabelNode { name, change } => format!("label node {name} {}", change.uid),
            Self::SetStrategy(strategy) => format!("{self} {}", strategy.generation),
            // The Service and its Endpoints share a key, and the key does not contain the addresses: after a refusal of
            // one of these writes, both wait for the retry time, even if the host has other addresses by then.
            Self::PublishService { external, .. } | Self::PublishEndpoints { external, .. } => {
                format!("publish {external:?}")
            }
            // Leave out the objects to delete: later passes look up the refusal of a cleanup before they read these
            // objects.
            Self::CleanUp { release, cleanup, .. } => describe_cleanup(release, cleanup),
            other => other.to_string(),
        }
    }

    /// Returns the kind, namespace and name of every object that osdpl itself changes in this action.
    ///
    /// The result contains neither the objects that helm changes nor the `OpenStackDeployment`.
    pub fn objects(&self, observed: &Observed) -> Vec<(String, String, String)> {
        let id = |kind: &str, namespace: String, name: String| (kind.to_owned(), namespace, name);
        let record = |key: &ReleaseKey, revision: i64| {
            id("Secret", key.namespace.clone(), format!("sh.helm.release.v1.{}.v{revision}", key.name))
        };
        let existing = |key: &ReleaseKey| observed.releases.get(key);
        match self {
            Self::Release { key, action, .. } => match action {
                plan::Action::Upgrade { delete_jobs, .. } => {
                    delete_jobs.iter().map(|job| id("Job", key.namespace.clone(), job.clone())).collect()
                }
                plan::Action::Unlock => {
                    existing(key).map(|existing| record(key, existing.revision)).into_iter().collect()
                }
                plan::Action::Unmanage => {
                    let history = existing(key).into_iter().flat_map(|existing| &existing.history);
                    history.map(|past| record(key, past.revision.into())).collect()
                }
                plan::Action::Adopt { .. } => {
                    let newest = existing(key).map(|existing| record(key, existing.revision));
                    let others = existing(key)
                        .filter(|existing| !existing.is_ours())
                        .into_iter()
                        .flat_map(|existing| &existing.history);
                    let failed = others.filter(|past| past.status == Status::Failed);
                    newest.into_iter().chain(failed.map(|past| record(key, past.revision.into()))).collect()
                }
                plan::Action::Uninstall { .. } | plan::Action::Stop => Vec::new(),
            },
            Self::CleanUp { release, cleanup, leftovers } => {
                let objects = leftovers.iter().map(|leftover| {
                    let Leftover { resource, namespace, name, .. } = leftover;
                    id(&resource.kind, namespace.clone().unwrap_or_default(), name.clone())
                });
                objects.chain(cleanup.revisions.iter().map(|revision| record(release, (*revision).into()))).collect()
            }
            other => other.object().map(|(kind, namespace, name)| id(kind, namespace, name)).into_iter().collect(),
        }
    }

    /// Returns the kind, namespace and name of the object that the action changes.
    ///
    /// Returns `None` if the action changes several objects, the `OpenStackDeployment` itself, or no Kubernetes object.
    pub fn object(&self) -> Option<(&'static str, String, String)> {
        let of = |kind, namespace: &str, name: &str| Some((kind, namespace.to_owned(), name.to_owned()));
        match self {
            Self::StoreCredentials(write) => of("Secret", write.namespace(), write.name()),
            Self::PublishService { external, .. } => of("Service", &external.namespace, &external.service),
            Self::PublishEndpoints { external, .. } => of("Endpoints", &external.namespace, &external.service),
            Self::WriteObject(object) => of(object.kind.name(), &object.namespace, &object.name),
            Self::ApplyRook { namespace, manifest } => of(manifest.kind, namespace, &manifest.name),
            Self::ConfigureStore { store, .. } | Self::ReleaseStore { store, .. } => {
                of("CephObjectStore", &store.namespace, &store.name)
            }
            Self::LabelNode { name, .. } => of("Node", "", name),
            Self::SetStrategy(strategy) => of("DaemonSet", &strategy.namespace, &strategy.name),
            Self::CreateNamespace(name) => of("Namespace", "", name),
            Self::TransferCrd { definition, .. } => of(CRD, "", &definition.name),
            Self::ApplyCrd { definition, .. } => of(CRD, "", &definition.name_any()),
            Self::Evict(pod) => of("Pod", &pod.namespace, &pod.name),
            Self::RunCron { cron, job, .. } => of("Job", &cron.namespace, job),
            Self::Delete { kind, key, .. } => of(kind.name(), &key.namespace, &key.name),
            Self::AddFinalizer
            | Self::RemoveFinalizer
            | Self::Annotate(_)
            | Self::CleanUp { .. }
            | Self::Release { .. }
            | Self::ForgetHosts(_) => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddFinalizer => formatter.write_str("add the finalizer"),
            Self::RemoveFinalizer => formatter.write_str("remove the finalizer"),
            Self::StoreCredentials(write) => {
                write!(formatter, "store Secret {}/{}", write.namespace(), write.name())?;
                let generated: Vec<&str> = write.generated.keys().map(String::as_str).collect();
                if generated.is_empty() { Ok(()) } else { write!(formatter, ", generated: {}", generated.join(", ")) }
            }
            Self::PublishService { external, .. } => {
                write!(formatter, "apply Service {}/{}", external.namespace, external.service)
            }
            Self::PublishEndpoints { external, addresses, .. } => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let ExternalService { namespace, service, .. } = external;
                write!(formatter, "apply Endpoints {namespace}/{service}: {}", addresses.join(", "))
            }
            Self::WriteObject(object) => write!(formatter, "apply {object}"),
            Self::ApplyRook { namespace, manifest } => {
                write!(formatter, "apply {} {namespace}/{}", manifest.kind, manifest.name)
            }
            Self::ConfigureStore { store, .. } => write!(formatter, "set Keystone settings in CephObjectStore {store}"),
            Self::ReleaseStore { store, .. } => {
                write!(formatter, "remove Keystone settings from CephObjectStore {store}")
            }
            Self::LabelNode { name, change } => write!(formatter, "label node {name}: {change}"),
            Self::SetStrategy(strategy) => {
                let kind = if strategy.on_delete { "OnDelete" } else { "RollingUpdate" };
                write!(
                    formatter,
                    "set the update strategy of DaemonSet {}/{} to {kind}",
                    strategy.namespace, strategy.name
                )
            }
            Self::CleanUp { release, cleanup, leftovers } => {
                formatter.write_str(&describe_cleanup(release, cleanup))?;
                let mut names: Vec<String> = leftovers.iter().take(NAMED_LEFTOVERS).map(ToString::to_string).collect();
                let others = leftovers.len() - names.len();
                if others > 0 {
                    names.push(format!("and {others} more objects"));
                }
                if names.is_empty() { Ok(()) } else { write!(formatter, ": delete {}", names.join(", ")) }
            }
            Self::CreateNamespace(name) => write!(formatter, "create namespace {name}"),
            Self::TransferCrd { definition, release } => {
                write!(formatter, "transfer {CRD} {} from release {} to {release}", definition.name, definition.owner)
            }
            Self::ApplyCrd { definition, .. } => write!(formatter, "apply {CRD} {}", definition.name_any()),
            Self::Release { name, action, .. } => write!(formatter, "{name}: {action}"),
            Self::Evict(pod) => write!(formatter, "evict pod {}/{} on {}", pod.namespace, pod.name, pod.node),
            Self::RunCron { cron, job, .. } => write!(formatter, "run CronJob {cron} as Job {job}"),
            Self::ForgetHosts(nodes) => {
                write!(formatter, "delete the compute hosts of nodes {} from Nova and Neutron", nodes.join(", "))
            }
            Self::Annotate(annotations) => {
                let changes = annotations.iter().map(|(key, value)| match value {
                    Some(value) => format!("{key}={value}"),
                    None => format!("{key}-"),
                });
                write!(formatter, "annotate the resource: {}", changes.collect::<Vec<_>>().join(" "))
            }
            Self::Delete { kind, key, .. } => write!(formatter, "delete {} {key}", kind.name()),
        }
    }
}

/// The maximum number of objects that the description of a cleanup names. A release record can contain thousands.
const NAMED_LEFTOVERS: usize = 20;

/// Describes a cleanup without the objects that it deletes.
fn describe_cleanup(release: &ReleaseKey, cleanup: &Cleanup) -> String {
    let revisions: Vec<String> = cleanup.revisions.iter().map(ToString::to_string).collect();
    format!("clean up after failed revisions {} of {release}", revisions.join(", "))
}
