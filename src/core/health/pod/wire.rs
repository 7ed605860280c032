//! Defines the fields that osdpl reads from a pod, with the names that the API server uses.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use super::{Mount, MountKind};

/// The fields of a pod's `spec` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    pub(super) init_containers: Vec<Container>,
    pub(super) containers: Vec<Container>,
    pub(super) node_name: Option<String>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Volume {
    pub(super) persistent_volume_claim: Option<Claim>,
    secret: Option<Named>,
    config_map: Option<Named>,
    projected: Option<Projected>,
}

/// A source of a projected volume: a Secret or a ConfigMap whose keys Kubernetes mounts as files.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Source {
    secret: Option<Named>,
    config_map: Option<Named>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Projected {
    sources: Vec<Source>,
}

/// A reference of a pod to a Secret or ConfigMap.
///
/// A Secret volume names its Secret in `secretName`. A ConfigMap volume and the sources of a projected volume name
/// their Secret or ConfigMap in `name`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    name: String,
    secret_name: String,
    optional: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Claim {
    pub(super) claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) env: Vec<Variable>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
}

/// Formats only the name of the environment variable for debug output, because the value may be a password.
impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// The fields of a pod's `status` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    pub(super) phase: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) conditions: Vec<Condition>,
    pub(super) init_container_statuses: Vec<ContainerStatus>,
    pub(super) container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) last_transition_time: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    #[serde(rename = "imageID")]
    pub(super) image_id: String,
    pub(super) ready: bool,
    pub(super) restart_count: i32,
    pub(super) state: State,
    pub(super) last_state: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) waiting: Option<Waiting>,
    pub(super) running: Option<Running>,
    pub(super) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Waiting {
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Running {
    pub(super) started_at: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Terminated {
    pub(super) exit_code: i32,
    pub(super) reason: String,
}

impl Volume {
    fn mounts(&self) -> impl Iterator<Item = Mount> + '_ {
        let own = mounts(self.secret.as_ref(), self.config_map.as_ref());
        let parts = self.projected.iter().flat_map(|projected| &projected.sources);
        own.chain(parts.flat_map(|part| mounts(part.secret.as_ref(), part.config_map.as_ref())))
    }
}

fn mounts(secret: Option<&Named>, config_map: Option<&Named>) -> impl Iterator<Item = Mount> + use<> {
    let of = |kind: MountKind, named: Option<&Named>| {
        let named = named.filter(|named| !named.optional)?;
        let name = if named.secret_name.is_empty() { &named.name } else { &named.secret_name };
        Some(Mount { kind, name: name.clone() })
    };
    [of(MountKind::Secret, secret), of(MountKind::ConfigMap, config_map)].into_iter().flatten()
}

impl Spec {
    /// Returns the Secrets and ConfigMaps that the pod mounts and without which it can't start. Leaves out those that
    /// the pod's spec marks as optional.
    pub(super) fn mounts(&self) -> Vec<Mount> {
        let mut mounts: Vec<Mount> = self.volumes.iter().flat_map(Volume::mounts).collect();
        mounts.sort();
        mounts.dedup();
        mounts
    }

    pub(super) fn claims(&self) -> Vec<String> {
        let claims = self.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
        claims.map(|claim| claim.claim_name.clone()).collect()
    }
}

impl Status {
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Whether the pod was ready at some time after its containers had last started.
    ///
    /// The result is true if the condition `Ready` last changed after the newest start of a container: at that time,
    /// the pod became ready or stopped being ready. The result is false if a container does not run, or if the status
    /// lacks the time of the change or of a start.
    pub(super) fn was_ready(&self) -> bool {
        let since = self.condition("Ready").and_then(|condition| condition.last_transition_time.as_ref());
        let started =
            self.container_statuses.iter().map(|container| container.state.running.as_ref()?.started_at.as_ref());
        let Some(started) = started.collect::<Option<Vec<_>>>() else { return false };
        match (since, started.into_iter().max()) {
            (Some(since), Some(started)) => since > started,
            _ => false,
        }
    }
}
