//! Observes the state of a maintenance.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use super::MaintenanceController;
use crate::cluster::Error;
use osdpl_core::api::{MAINTENANCE_FINALIZER, NODE_MAINTENANCE, NodeMaintenance};
use osdpl_core::catalog::Component;
use osdpl_core::maintenance::guard::{Budget, Members, eviction_obstacles};
use osdpl_core::maintenance::{Case, Compute, Facts, Host, NodeSeen, Rival, Setting, UNREAD, is_open};
use osdpl_core::openstack::{self, Access, neutron, nova};

/// Upstream's label on all pods of a release.
const RELEASE_GROUP: &str = "release_group";

/// Reads the relevant properties of a node.
pub(super) fn node(node: Option<&Node>, setting: Option<&Setting>) -> Option<NodeSeen> {
    let node = node?;
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    Some(NodeSeen {
        cordoned: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default(),
        mark: node.annotations().get(NODE_MAINTENANCE).cloned(),
        ready,
        labels: node.labels().clone(),
        roles: setting.map(|setting| setting.roles_of(node.labels())).unwrap_or_default(),
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn owner<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    (controller.kind == kind).then_some(controller.name.as_str())
}

fn component(pod: &Pod) -> Option<Component> {
    let label = |key: &str| pod.labels().get(key).cloned();
    Some(Component { application: label("application")?, component: label("component")? })
}

/// Whether `kubectl drain` evicts the pod. It ignores pods of DaemonSets, static pods, and pods that finished or are
/// being deleted.
fn is_evicted(pod: &Pod) -> bool {
    let stays = owner(pod, "DaemonSet").is_some() || pod.annotations().contains_key("kubernetes.io/config.mirror");
    !stays && !["Succeeded", "Failed"].contains(&phase(pod)) && pod.metadata.deletion_timestamp.is_none()
}

impl MaintenanceController {
    /// Reads everything except for the node itself.
    pub(super) async fn look(
        &self,
        maintenance: &NodeMaintenance,
        case: &Case<'_>,
        facts: &mut Facts,
    ) -> Result<(), Error> {
        let Some(setting) = case.setting else {
            facts.compute = Compute::Unknown(UNREAD.into());
            return Ok(());
        };
        facts.apart = self.requeue_delay;
        if (Case { facts, ..*case }).next_nova_check().is_some() {
            return Ok(());
        }
        facts.unlisted = self.context.tasks.observe().nodes().is_none();
        let others = self.context.cluster.maintenances().await?;
        facts.rivals = self.rivals(maintenance, &others, setting, case);
        let node = &maintenance.spec.node;
        let pods = if facts.node.is_some() { self.context.cluster.pods_on(node).await? } else { Vec::new() };
        let daemons = pods.iter().filter(|pod| owner(pod, "DaemonSet").is_some());
        let unready = daemons.filter(|pod| pod.labels().contains_key(RELEASE_GROUP) && !is_ready(pod));
        facts.unready =
            unready.map(|pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())).collect();
        if !case.is_returning() {
            let away = facts.rivals.iter().filter(|rival| rival.begun).map(|rival| rival.node.clone()).collect();
            facts.refusals = self.refusals(node, &away, &pods, setting).await?;
        }
        // Nova is only queried if the maintenance may start according to the facts so far.
        let may_start = case.is_returning() || Case { facts, ..*case }.may_start();
        if !may_start {
            return Ok(());
        }
        if case.needs_nova() {
            let node = facts.node.as_ref();
            let is_compute =
                case.is_returning() || case.is_known_compute() || self.may_host_instances(node, &pods, setting);
            facts.compute = match setting.nova() {
                Ok(access) => match self.host(access, case, is_compute).await {
                    Err(error) if is_compute => Compute::Unknown(error.to_string()),
                    Err(_) => Compute::None,
                    Ok(compute) => compute,
                },
                Err(why) if is_compute => Compute::Unknown(why.into()),
                Err(_) => Compute::None,
            };
        }
        Ok(())
    }

    /// Whether instances may run on the node, according to the cluster.
    fn may_host_instances(&self, node: Option<&NodeSeen>, pods: &[Pod], setting: &Setting) -> bool {
        let Some(hosts) = &setting.hosts else { return false };
        let runs = pods.iter().any(|pod| component(pod).as_ref() == Some(hosts));
        let seen = self.context.tasks.observe();
        let has = |key: &str, value: &str| node.and_then(|node| node.labels.get(key)).is_some_and(|own| own == value);
        let chosen = seen.workloads().iter().filter(|workload| workload.component == *hosts).any(|workload| {
            let mut wanted = workload.node_selector.split(',').filter_map(|pair| pair.split_once('='));
            wanted.all(|(key, value)| has(key, value))
        });
        runs || chosen
    }

    /// Queries nova and neutron about a node, as far as the step requires it.
    async fn host(&self, access: &Access, case: &Case<'_>, is_compute: bool) -> Result<Compute, openstack::Error> {
        let services = self.cloud.call(access, &nova::services()).await?.services;
        let own = services.iter().find(|service| case.status.compute.as_ref() == Some(&service.id));
        let Some(service) = own.or_else(|| nova::find_service(&services, &case.spec.node)).cloned() else {
            // On the way back an unlisted service is not disabled either.
            return Ok(Compute::unlisted(&case.spec.node, &services, is_compute && !case.is_returning()));
        };
        let mut host =
            Host { service, servers: Vec::new(), incoming: Vec::new(), migrations: Vec::new(), agents: Vec::new() };
        let name = host.service.host.clone();
        // The way there stores which agents are alive.
        if access.network.is_some() && (case.is_returning() || host.service.is_enabled()) {
            host.agents = self.cloud.call(access, &neutron::agents(&name)).await?.agents;
        }
        if !case.is_returning() {
            host.servers = self.cloud.servers(access, &name).await?;
            if host.servers.is_empty() {
                // An instance that arrives in between is found by the second check, see `Facts::apart`.
                host.incoming = self.incoming(access, &name).await?;
            }
            host.migrations = self.cloud.call(access, &nova::migrations(&name)).await?.migrations;
        }
        Ok(Compute::Known(Box::new(host)))
    }

    /// The instances that are migrating to a host. Records left behind by a crashed nova-compute are skipped: their
    /// instances have no task.
    async fn incoming(&self, access: &Access, host: &str) -> Result<Vec<String>, openstack::Error> {
        let moves = self.cloud.call(access, &nova::moves(host)).await?.migrations;
        let to_here = |one: &&nova::Migration| one.is_running() && one.destination.as_deref() == Some(host);
        let ids: BTreeSet<_> = moves.iter().filter(to_here).map(|one| one.server.as_str()).collect();
        let mut incoming = Vec::new();
        for id in ids {
            match self.cloud.call(access, &nova::server(id)).await {
                Ok(one) if one.server.task.is_some() => incoming.push(format!("{} ({id})", one.server.name)),
                Err(error) if !error.is_not_found() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(incoming)
    }

    fn rivals(&self, own: &NodeMaintenance, all: &[NodeMaintenance], setting: &Setting, case: &Case<'_>) -> Vec<Rival> {
        let seen = self.context.tasks.observe();
        let age = |one: &NodeMaintenance| (one.metadata.creation_timestamp.clone().map(|time| time.0), one.name_any());
        let rival = |other: &NodeMaintenance| {
            let begun = other.finalizers().iter().any(|finalizer| finalizer == MAINTENANCE_FINALIZER);
            let node = seen.nodes().and_then(|nodes| nodes.get(&other.spec.node));
            let waits = other.metadata.deletion_timestamp.is_none() && node.is_some() && is_open(&other.spec, case.now);
            let roles_in_status = other.status.iter().flat_map(|status| status.roles.iter().cloned()).filter(|_| begun);
            Rival {
                name: other.name_any(),
                node: other.spec.node.clone(),
                // A deleted node, or one that lost its labels, still counts with the roles from the status.
                roles: node
                    .map(|node| setting.roles_of(&node.labels))
                    .into_iter()
                    .flatten()
                    .chain(roles_in_status)
                    .collect(),
                begun,
                first: !begun && waits && age(other) < age(own),
            }
        };
        all.iter().filter(|other| other.name_any() != own.name_any()).map(rival).collect()
    }

    async fn refusals(
        &self,
        node: &str,
        away: &BTreeSet<String>,
        pods: &[Pod],
        setting: &Setting,
    ) -> Result<Vec<String>, Error> {
        let evicted: Vec<_> = pods.iter().filter(|pod| is_evicted(pod)).collect();
        let mut sets = BTreeSet::new();
        let mut members = Vec::new();
        for pod in &evicted {
            let Some(component) = component(pod).filter(|component| setting.quorum.contains(component)) else {
                continue;
            };
            let (namespace, set) = (pod.namespace().unwrap_or_default(), owner(pod, "StatefulSet").unwrap_or_default());
            if set.is_empty() || !sets.insert((namespace.clone(), set.to_owned())) {
                continue;
            }
            let Some(replicas) = self.context.cluster.replicas_of(&namespace, set).await? else { continue };
            let all = self.context.cluster.pods_of(&namespace, &component).await?;
            let all = all.iter().filter(|pod| owner(pod, "StatefulSet") == Some(set));
            let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            let pods = all.map(|pod| (node_of(pod), is_ready(pod))).collect();
            members.push(Members { set: format!("{namespace}/{set}"), replicas, pods });
        }
        let budgets = if evicted.is_empty() { Vec::new() } else { self.budgets(&evicted).await? };
        Ok(eviction_obstacles(node, away, &members, &budgets))
    }

    async fn budgets(&self, pods: &[&Pod]) -> Result<Vec<Budget>, Error> {
        let all = self.context.cluster.budgets().await?.into_iter().filter_map(|budget| {
            let spec = budget.spec.as_ref()?;
            let selector: Selector = spec.selector.clone()?.try_into().ok()?;
            let own = |pod: &&&Pod| pod.namespace() == budget.namespace() && selector.matches(pod.labels());
            let own: Vec<_> = pods.iter().filter(own).filter(|pod| phase(pod) != "Pending").collect();
            own.first()?;
            // Like the eviction API: a budget that was just created or changed allows nothing until it is observed.
            let status = budget.status.clone().unwrap_or_default();
            let counted = status.observed_generation >= budget.metadata.generation;
            Some(Budget {
                name: format!("{}/{}", budget.namespace().unwrap_or_default(), budget.name_any()),
                allowed: if counted { status.disruptions_allowed.unwrap_or_default() } else { 0 },
                healthy: status.current_healthy.unwrap_or_default(),
                wanted: status.desired_healthy.unwrap_or_default(),
                ready: own.iter().any(|pod| is_ready(pod)),
                always: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
            })
        });
        Ok(all.collect())
    }
}
