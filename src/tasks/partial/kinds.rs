//! The kinds that are watched, and which of their fields count.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Kind;
use crate::health::{cron, job, node, pod, storage, workload};

/// apps/v1 Deployment.
#[derive(Clone)]
pub(in crate::tasks) struct Deployment;

impl Kind for Deployment {
    const GROUP: &str = "apps";
    const KIND: &str = "Deployment";
    const PLURAL: &str = "deployments";
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// apps/v1 `StatefulSet`.
#[derive(Clone)]
pub(in crate::tasks) struct StatefulSet;

impl Kind for StatefulSet {
    const GROUP: &str = "apps";
    const KIND: &str = "StatefulSet";
    const PLURAL: &str = "statefulsets";
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// apps/v1 `DaemonSet`.
#[derive(Clone)]
pub(in crate::tasks) struct DaemonSet;

impl Kind for DaemonSet {
    const GROUP: &str = "apps";
    const KIND: &str = "DaemonSet";
    const PLURAL: &str = "daemonsets";
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// batch/v1 Job.
#[derive(Clone)]
pub(in crate::tasks) struct Job;

impl Kind for Job {
    const GROUP: &str = "batch";
    const KIND: &str = "Job";
    const PLURAL: &str = "jobs";
    type Spec = job::Spec;
    type Status = job::Status;
    type Data = IgnoredAny;
}

/// batch/v1 `CronJob`.
#[derive(Clone)]
pub(in crate::tasks) struct CronJob;

impl Kind for CronJob {
    const GROUP: &str = "batch";
    const KIND: &str = "CronJob";
    const PLURAL: &str = "cronjobs";
    type Spec = cron::Spec;
    type Status = cron::Status;
    type Data = IgnoredAny;
}

/// v1 Pod.
#[derive(Clone)]
pub(in crate::tasks) struct Pod;

impl Kind for Pod {
    const GROUP: &str = "";
    const KIND: &str = "Pod";
    const PLURAL: &str = "pods";
    type Spec = pod::Spec;
    type Status = pod::Status;
    type Data = IgnoredAny;
}

/// v1 Service.
#[derive(Clone)]
pub(in crate::tasks) struct Service;

impl Kind for Service {
    const GROUP: &str = "";
    const KIND: &str = "Service";
    const PLURAL: &str = "services";
    type Spec = Selected;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// `spec` of a Service.
#[derive(Clone, Default, Deserialize)]
pub(in crate::tasks) struct Selected {
    #[serde(default)]
    pub(in crate::tasks) selector: BTreeMap<String, String>,
}

/// v1 PersistentVolumeClaim.
#[derive(Clone)]
pub(in crate::tasks) struct Claim;

impl Kind for Claim {
    const GROUP: &str = "";
    const KIND: &str = "PersistentVolumeClaim";
    const PLURAL: &str = "persistentvolumeclaims";
    type Spec = storage::Spec;
    type Status = storage::Status;
    type Data = IgnoredAny;
}

/// storage.k8s.io/v1 StorageClass.
#[derive(Clone)]
pub(in crate::tasks) struct Class;

impl Kind for Class {
    const GROUP: &str = "storage.k8s.io";
    const KIND: &str = "StorageClass";
    const CLUSTER_WIDE: bool = true;
    const PLURAL: &str = "storageclasses";
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// v1 Node.
#[derive(Clone)]
pub(in crate::tasks) struct Node;

impl Kind for Node {
    const GROUP: &str = "";
    const KIND: &str = "Node";
    const CLUSTER_WIDE: bool = true;
    const PLURAL: &str = "nodes";
    type Spec = IgnoredAny;
    type Status = node::Status;
    type Data = IgnoredAny;
}

/// helm's record of a revision, without its payload.
#[derive(Clone)]
pub(in crate::tasks) struct RecordHead;

impl Kind for RecordHead {
    const GROUP: &str = "";
    const KIND: &str = "Secret";
    const PLURAL: &str = "secrets";
    const METADATA_ONLY: bool = true;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// helm's record of a revision, with its payload.
#[derive(Clone)]
pub(in crate::tasks) struct Record;

impl Kind for Record {
    const GROUP: &str = "";
    const KIND: &str = "Secret";
    const PLURAL: &str = "secrets";
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = Payload;
}

/// `data` of a record's Secret.
#[derive(Clone, Default, Deserialize)]
pub(in crate::tasks) struct Payload {
    #[serde(default)]
    pub(in crate::tasks) release: ByteString,
}
