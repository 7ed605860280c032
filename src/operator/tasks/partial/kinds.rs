//! The kinds that the tasks watch, each with the fields that osdpl uses.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage_api;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Kind;
use osdpl_core::health::{cron, job, node, pod, storage, workload};

/// The kind `Deployment` (apps/v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct Deployment;

impl Kind for Deployment {
    type Full = apps::Deployment;
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// The kind `StatefulSet` (apps/v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct StatefulSet;

impl Kind for StatefulSet {
    type Full = apps::StatefulSet;
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// The kind `DaemonSet` (apps/v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct DaemonSet;

impl Kind for DaemonSet {
    type Full = apps::DaemonSet;
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// The kind `ControllerRevision` (apps/v1), with the fields that osdpl uses.
///
/// The revision's number is at the top level of the object, not in a `spec`. So [`Partial`](super::Partial) has a field
/// for this number.
#[derive(Clone)]
pub(in crate::tasks) struct ControllerRevision;

impl Kind for ControllerRevision {
    type Full = apps::ControllerRevision;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// The kind `Job` (batch/v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct Job;

impl Kind for Job {
    type Full = batch::Job;
    type Spec = job::Spec;
    type Status = job::Status;
    type Data = IgnoredAny;
}

/// The kind `CronJob` (batch/v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct CronJob;

impl Kind for CronJob {
    type Full = batch::CronJob;
    type Spec = cron::Spec;
    type Status = cron::Status;
    type Data = IgnoredAny;
}

/// The kind `Pod` (v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct Pod;

impl Kind for Pod {
    type Full = core::Pod;
    type Spec = pod::Spec;
    type Status = pod::Status;
    type Data = IgnoredAny;
}

/// The kind `Service` (v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct Service;

impl Kind for Service {
    type Full = core::Service;
    type Spec = Selected;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// The `spec` of a Service, reduced to its selector.
#[derive(Clone, Default, Deserialize)]
pub(in crate::tasks) struct Selected {
    #[serde(default)]
    pub(in crate::tasks) selector: BTreeMap<String, String>,
}

/// The kind `PersistentVolumeClaim` (v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct Claim;

impl Kind for Claim {
    type Full = core::PersistentVolumeClaim;
    type Spec = storage::Spec;
    type Status = storage::Status;
    type Data = IgnoredAny;
}

/// The kind `StorageClass` (storage.k8s.io/v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct Class;

impl Kind for Class {
    type Full = storage_api::StorageClass;
    const CLUSTER_WIDE: bool = true;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// The kind `Node` (v1), with the fields that osdpl uses.
#[derive(Clone)]
pub(in crate::tasks) struct Node;

impl Kind for Node {
    type Full = core::Node;
    const CLUSTER_WIDE: bool = true;
    type Spec = node::Spec;
    type Status = node::Status;
    type Data = IgnoredAny;
}

/// The Secret in which helm stores the record of a revision, reduced to its metadata.
#[derive(Clone)]
pub(in crate::tasks) struct RecordHead;

impl Kind for RecordHead {
    type Full = core::Secret;
    const METADATA_ONLY: bool = true;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// The Secret in which helm stores the record of a revision, with its field `data`.
#[derive(Clone)]
pub(in crate::tasks) struct Record;

impl Kind for Record {
    type Full = core::Secret;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = Payload;
}

/// The field `data` of the Secret in which helm stores a record.
#[derive(Clone, Default, Deserialize)]
pub(in crate::tasks) struct Payload {
    #[serde(default)]
    pub(in crate::tasks) release: ByteString,
}
