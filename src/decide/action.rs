//! Actions: everything that osdpl does to the cluster, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

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

/// An action with its reason.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What is done.
    pub action: Action,
    /// Why.
    pub reason: String,
    /// Whether a person has to agree.
    pub approval: Approval,
    /// Events that are recorded once it was done.
    pub events: Vec<Event>,
}

/// Whether a person has to agree to an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Nobody has to.
    NotNeeded,
    /// Somebody has to, and has not yet: it is not done.
    Missing,
}

/// Something that is done to the cluster. The order of a plan's actions is the order in which they are done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Add our finalizer to the resource.
    AddFinalizer,
    /// Store credentials in our Secret.
    StoreCredentials(Box<SecretWrite>),
    /// Apply the Service of an external service.
    PublishService {
        /// The service.
        service: String,
        /// Where it is.
        external: ExternalService,
    },
    /// Apply the Endpoints of an external service.
    PublishEndpoints {
        /// The service.
        service: String,
        /// Where it is.
        external: ExternalService,
        /// The addresses.
        addresses: Vec<IpAddr>,
    },
    /// Write a `ConfigMap` or a Secret that charts mount.
    WriteObject(Object),
    /// Ask Rook for an object.
    ApplyRook {
        /// Rook's namespace.
        namespace: String,
        /// The object.
        manifest: Manifest,
    },
    /// Set the Keystone settings of an object store.
    ConfigureStore {
        /// Its namespace and name.
        store: ReleaseKey,
        /// Its uid.
        uid: Value,
        /// The part of its spec.
        settings: Value,
    },
    /// Give a node exactly these labels of ours.
    LabelNode {
        /// The node.
        name: String,
        /// Its labels.
        change: LabelChange,
    },
    /// Set the update strategy of a `DaemonSet`.
    SetStrategy(Strategy),
    /// Remove what failed revisions left behind.
    CleanUp {
        /// The release.
        release: ReleaseKey,
        /// Which revisions.
        sweep: Cleanup,
        /// The revisions of other releases that say what is theirs.
        others: Vec<(ReleaseKey, u32)>,
    },
    /// Do this with a release.
    Release {
        /// Its name in the catalogue.
        name: String,
        /// Its identity.
        key: ReleaseKey,
        /// What.
        action: plan::Action,
    },
    /// Evict a pod.
    Evict(Eviction),
    /// Run a `CronJob` at once.
    RunCron {
        /// The `CronJob`.
        cron: ReleaseKey,
        /// The name of the Job.
        job: String,
        /// The hosts that it is for.
        mapping: Mapping,
    },
    /// Have Nova and Neutron forget the hosts of these nodes.
    ForgetHosts(Vec<String>),
    /// Change annotations of the resource: the new value of each, if any.
    Annotate(BTreeMap<&'static str, Option<String>>),
    /// Delete an object.
    Delete {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ReleaseKey,
    },
    /// Take our settings out of an object store.
    ReleaseStore {
        /// Its namespace and name.
        store: ReleaseKey,
        /// Its uid.
        uid: Option<String>,
    },
    /// Remove our finalizer from the resource.
    RemoveFinalizer,
}

/// A kind that osdpl deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A `ConfigMap`.
    ConfigMap,
    /// A Job, with its pods.
    Job,
    /// A `PersistentVolumeClaim`.
    Claim,
    /// A Secret.
    Secret,
    /// A Service.
    Service,
}

impl Kind {
    /// The name that Kubernetes has for it.
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

/// A Secret of ours with credentials, as it is to be stored. It never shows what it holds.
#[derive(Clone)]
pub struct SecretWrite {
    /// The service.
    pub service: String,
    /// The whole Secret, but for what is generated.
    pub secret: Secret,
    /// Whether it exists: then it is replaced, guarded by its resourceVersion.
    pub exists: bool,
    /// The keys whose values are drawn when it is stored.
    pub generated: BTreeMap<String, file::Credential>,
}

impl SecretWrite {
    /// Its name.
    pub fn name(&self) -> &str {
        self.secret.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its namespace.
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
    /// An action that nobody has to agree to.
    pub fn new(action: Action, reason: impl Into<String>) -> Self {
        Self { action, reason: reason.into(), approval: Approval::NotNeeded, events: Vec::new() }
    }

    /// The same, with an event that is recorded once it was done.
    #[must_use]
    pub fn with_event(self, event: impl IntoIterator<Item = Event>) -> Self {
        Self { events: event.into_iter().collect(), ..self }
    }
}

impl Action {
    /// What refusals of the API server are remembered by.
    pub fn id(&self) -> String {
        match self {
            Self::Evict(pod) => format!("{self} {}", pod.uid),
            Self::LabelNode { name, change } => format!("label node {name} {}", change.uid),
            Self::SetStrategy(strategy) => format!("{self} {}", strategy.generation),
            Self::PublishService { external, .. } | Self::PublishEndpoints { external, .. } => {
                format!("publish {external:?}")
            }
            other => other.to_string(),
        }
    }

    /// The kind, namespace and name of every object that it changes, but those that helm changes. A release that is installed may also need its
    /// namespace and the CRDs that its chart carries.
    pub fn objects(&self, observed: &Observed) -> Vec<(&'static str, String, String)> {
        let record = |key: &ReleaseKey, revision: i64| {
            ("Secret", key.namespace.clone(), format!("sh.helm.release.v1.{}.v{revision}", key.name))
        };
        let seen = |key: &ReleaseKey| observed.releases.get(key);
        match self {
            Self::Release { key, action, .. } => match action {
                plan::Action::Upgrade { delete_jobs } => {
                    delete_jobs.iter().map(|job| ("Job", key.namespace.clone(), job.clone())).collect()
                }
                plan::Action::Unlock => seen(key).map(|seen| record(key, seen.revision)).into_iter().collect(),
                plan::Action::Unmanage => {
                    let history = seen(key).into_iter().flat_map(|seen| &seen.history);
                    history.map(|past| record(key, past.revision.into())).collect()
                }
                plan::Action::Adopt { .. } => {
                    let newest = seen(key).map(|seen| record(key, seen.revision));
                    let others = seen(key).filter(|seen| !seen.is_ours()).into_iter().flat_map(|seen| &seen.history);
                    let failed = others.filter(|past| past.status == Status::Failed);
                    newest.into_iter().chain(failed.map(|past| record(key, past.revision.into()))).collect()
                }
                plan::Action::Uninstall { .. } | plan::Action::Stop => Vec::new(),
            },
            Self::CleanUp { release, sweep, .. } => {
                sweep.of.iter().map(|revision| record(release, (*revision).into())).collect()
            }
            other => other.object().into_iter().collect(),
        }
    }

    /// The kind, namespace and name of the object that it changes, where it is one.
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
            Self::Evict(pod) => of("Pod", &pod.namespace, &pod.name),
            Self::RunCron { cron, job, .. } => of("Job", &cron.namespace, job),
            Self::Delete { kind, key } => of(kind.name(), &key.namespace, &key.name),
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
            Self::ConfigureStore { store, .. } => write!(formatter, "set Keystone in CephObjectStore {store}"),
            Self::ReleaseStore { store, .. } => write!(formatter, "take Keystone out of CephObjectStore {store}"),
            Self::LabelNode { name, change } => write!(formatter, "label node {name}: {change}"),
            Self::SetStrategy(strategy) => {
                let kind = if strategy.on_delete { "OnDelete" } else { "RollingUpdate" };
                write!(formatter, "set the strategy of DaemonSet {}/{}: {kind}", strategy.namespace, strategy.name)
            }
            Self::CleanUp { release, sweep, .. } => {
                let revisions: Vec<String> = sweep.of.iter().map(ToString::to_string).collect();
                write!(formatter, "clean up after failed revisions {} of {release}", revisions.join(", "))
            }
            Self::Release { name, action, .. } => write!(formatter, "{name}: {action}"),
            Self::Evict(pod) => write!(formatter, "evict pod {}/{} on {}", pod.namespace, pod.name, pod.node),
            Self::RunCron { cron, job, .. } => write!(formatter, "run CronJob {cron} as Job {job}"),
            Self::ForgetHosts(nodes) => write!(formatter, "forget the hosts of nodes {}", nodes.join(", ")),
            Self::Annotate(annotations) => {
                let changes = annotations.iter().map(|(key, value)| match value {
                    Some(value) => format!("{key}={value}"),
                    None => format!("{key}-"),
                });
                write!(formatter, "annotate the resource: {}", changes.collect::<Vec<_>>().join(" "))
            }
            Self::Delete { kind, key } => write!(formatter, "delete {} {key}", kind.name()),
        }
    }
}
