//! Reads the data for the decision about a maintenance: the node, its pods, their disruption budgets, Nova and Neutron.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use osdpl_client::Error;
use osdpl_core::api::{NODE_MAINTENANCE, NodeMaintenance};
use osdpl_core::catalog::Component;
use osdpl_core::maintenance::CloudSettings;
use osdpl_core::openstack::{self, Access, neutron, nova};

use super::{MaintenanceController, has_started};
use crate::decide::eviction_checks::{Budget, Members, eviction_obstacles};
use crate::decide::{Compute, Host, ObservedNode, ObservedState, OtherMaintenance, Snapshot, UNREAD, is_open};
use crate::objects::{Node, Pod};

/// The label that the OpenStack-Helm charts set on the pods of a release. Its value is the name of the release.
const RELEASE_GROUP: &str = "release_group";

/// Returns the properties of a node that the decision about a maintenance uses.
pub(super) fn read_node(node: &Node, setting: Option<&CloudSettings>) -> ObservedNode {
    ObservedNode {
        cordoned: node.spec.unschedulable,
        cordoned_by: node.annotations().get(NODE_MAINTENANCE).cloned(),
        ready: node.status.is_ready(),
        labels: node.labels().clone(),
        roles: setting.map(|setting| setting.roles_of(node.labels())).unwrap_or_default(),
    }
}

/// Returns the name of the pod's controlling owner, such as a DaemonSet, if the owner's kind is `kind`.
fn owner<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    (controller.kind == kind).then_some(controller.name.as_str())
}

fn component(pod: &Pod) -> Option<Component> {
    let label = |key: &str| pod.labels().get(key).cloned();
    Some(Component { application: label("application")?, component: label("component")? })
}

/// Whether `kubectl drain` evicts the pod, and disruption budgets and quorums can protect the pod.
///
/// `kubectl drain` evicts neither pods of DaemonSets nor static pods. Disruption budgets do not protect pods that have
/// finished or are being deleted.
fn is_evicted(pod: &Pod) -> bool {
    let stays = owner(pod, "DaemonSet").is_some() || pod.annotations().contains_key("kubernetes.io/config.mirror");
    !stays && !["Succeeded", "Failed"].contains(&pod.status.phase.as_str()) && pod.metadata.deletion_timestamp.is_none()
}

impl MaintenanceController {
    /// Adds to `observed` the data that the decision about a maintenance needs.
    ///
    /// The caller has already stored the node and the refused migrations in `observed`. `snapshot.observed` is still
    /// empty, so the function reads `observed` in its place.
    pub(super) async fn observe(
        &self,
        maintenance: &NodeMaintenance,
        snapshot: &Snapshot<'_>,
        observed: &mut ObservedState,
    ) -> Result<(), Error> {
        let Some(setting) = snapshot.setting else {
            observed.compute = Compute::Unknown(UNREAD.into());
            return Ok(());
        };
        observed.confirmation_delay = self.requeue_delay;
        if (Snapshot { observed, ..*snapshot }).next_nova_check().is_some() {
            return Ok(());
        }
        observed.nodes_unknown = self.operator.nodes().is_none();
        let all = self.cluster.list_maintenances().await?;
        observed.others = self.others(maintenance, &all, setting, snapshot);
        let node = &maintenance.spec.node;
        let pods = if observed.node.is_some() {
            self.cluster.list_pods_on(node, &self.operator.scope()).await?
        } else {
            Vec::new()
        };
        let daemons = pods.iter().filter(|pod| owner(pod, "DaemonSet").is_some());
        let unready = daemons.filter(|pod| pod.labels().contains_key(RELEASE_GROUP) && !pod.status.is_ready());
        observed.unready_pods =
            unready.map(|pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())).collect();
        if !snapshot.is_returning() {
            let away = observed.others.iter().filter(|other| other.started).map(|other| other.node.clone()).collect();
            observed.eviction_obstacles = self.eviction_obstacles(node, &away, &pods, setting).await?;
        }
        // Do not query Nova while the maintenance must wait for its window, another maintenance or a disruption budget,
        // because the decision does not depend on Nova then.
        let may_start = snapshot.is_returning() || Snapshot { observed, ..*snapshot }.may_start();
        if may_start && snapshot.needs_nova() {
            observed.compute = self.compute(snapshot, observed.node.as_ref(), &pods, setting).await;
        }
        Ok(())
    }

    /// Returns the node's compute host, as Nova and Neutron report it.
    ///
    /// If a query fails, the result is [`Compute::Unknown`] for a node that is or may be a compute node, and
    /// [`Compute::None`] for any other node. While a maintenance returns its node to service, every node counts as a
    /// possible compute node.
    async fn compute(
        &self,
        snapshot: &Snapshot<'_>,
        node: Option<&ObservedNode>,
        pods: &[Pod],
        setting: &CloudSettings,
    ) -> Compute {
        let is_compute =
            snapshot.is_returning() || snapshot.is_known_compute() || self.may_host_instances(node, pods, setting);
        let found = match setting.nova() {
            Ok(access) => self.query_host(access, snapshot, is_compute).await.map_err(|error| error.to_string()),
            Err(why) => Err(why.to_owned()),
        };
        match found {
            Ok(compute) => compute,
            Err(why) if is_compute => Compute::Unknown(why),
            Err(_) => Compute::None,
        }
    }

    /// Whether the node can have instances: it has a pod of nova-compute, or labels that match the node selector of
    /// nova-compute.
    fn may_host_instances(&self, node: Option<&ObservedNode>, pods: &[Pod], setting: &CloudSettings) -> bool {
        let Some(hosts) = &setting.hosts else { return false };
        if pods.iter().any(|pod| component(pod).as_ref() == Some(hosts)) {
            return true;
        }
        let has = |key: &str, value: &str| node.and_then(|node| node.labels.get(key)).is_some_and(|own| own == value);
        let selects = |selector: &String| {
            selector.split(',').filter_map(|pair| pair.split_once('=')).all(|(key, value)| has(key, value))
        };
        self.operator.node_selectors(hosts).iter().any(selects)
    }

    /// Queries Nova and Neutron for the data that osdpl needs to drain the node or to return it to service.
    async fn query_host(
        &self,
        access: &Access,
        snapshot: &Snapshot<'_>,
        is_compute: bool,
    ) -> Result<Compute, openstack::Error> {
        let services = self.openstack.call(access, &nova::services()).await?.services;
        let own = services.iter().find(|service| snapshot.status.compute.as_ref() == Some(&service.id));
        let Some(service) = own.or_else(|| nova::find_service(&services, &snapshot.spec.node)).cloned() else {
            // Nova lists no compute service for the node. If the maintenance is returning the node to service, it then
            // has no compute service to enable. So do not report the compute host as unknown.
            return Ok(Compute::unlisted(&snapshot.spec.node, &services, is_compute && !snapshot.is_returning()));
        };
        let mut host =
            Host { service, servers: Vec::new(), incoming: Vec::new(), migrations: Vec::new(), agents: Vec::new() };
        let name = host.service.host.clone();
        // Query the Neutron agents in two cases. Before the maintenance disables the compute service, it stores in its
        // status which agents are alive. Before it returns the node to service, it waits until these agents are alive
        // again.
        if access.network.is_some() && (snapshot.is_returning() || host.service.is_enabled()) {
            host.agents = self.openstack.call(access, &neutron::agents(&name)).await?.agents;
        }
        if !snapshot.is_returning() {
            host.servers = self.openstack.servers(access, &name).await?;
            if host.servers.is_empty() {
                // No instance is on this host, but instances could be migrating to it, so list the migrating instances.
                // A later pass queries Nova again after `ObservedState::confirmation_delay`, and finds instances that
                // have arrived since.
                host.incoming = self.incoming(access, &name).await?;
            }
            host.migrations = self.openstack.call(access, &nova::migrations(&name)).await?.migrations;
        }
        Ok(Compute::Known(Box::new(host)))
    }

    /// Returns the instances that are migrating to a host.
    ///
    /// After a crash of nova-compute, Nova continues to list the migrations of this nova-compute as running. So the
    /// function skips a migration if Nova reports no task for its instance.
    async fn incoming(&self, access: &Access, host: &str) -> Result<Vec<String>, openstack::Error> {
        let moves = self.openstack.call(access, &nova::moves(host)).await?.migrations;
        let to_here = |one: &&nova::Migration| one.is_running() && one.destination.as_deref() == Some(host);
        let ids: BTreeSet<_> = moves.iter().filter(to_here).map(|one| one.server.as_str()).collect();
        let mut incoming = Vec::new();
        for id in ids {
            match self.openstack.call(access, &nova::server(id)).await {
                Ok(one) if one.server.task.is_some() => incoming.push(format!("{} ({id})", one.server.name)),
                Err(error) if !error.is_not_found() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(incoming)
    }

    /// Returns all maintenances except `own`, with the properties that the decision about `own` uses.
    fn others(
        &self,
        own: &NodeMaintenance,
        all: &[NodeMaintenance],
        setting: &CloudSettings,
        snapshot: &Snapshot<'_>,
    ) -> Vec<OtherMaintenance> {
        let nodes = self.operator.nodes();
        let age = |one: &NodeMaintenance| (one.metadata.creation_timestamp.clone().map(|time| time.0), one.name_any());
        let describe = |other: &NodeMaintenance| {
            let started = has_started(other);
            let node = nodes.as_ref().and_then(|nodes| nodes.get(&other.spec.node));
            let is_waiting =
                other.metadata.deletion_timestamp.is_none() && node.is_some() && is_open(&other.spec, snapshot.now);
            // A started maintenance counts towards the limits of its node's roles, even after the node was deleted or
            // has lost its role labels. So add the roles in the status of the maintenance to the node's current roles.
            let known_roles = other.status.iter().flat_map(|status| status.roles.iter().cloned()).filter(|_| started);
            let current_roles = node.map(|node| setting.roles_of(&node.labels)).into_iter().flatten();
            OtherMaintenance {
                name: other.name_any(),
                node: other.spec.node.clone(),
                roles: current_roles.chain(known_roles).collect(),
                started,
                takes_precedence: !started && is_waiting && age(other) < age(own),
            }
        };
        all.iter().filter(|other| other.name_any() != own.name_any()).map(describe).collect()
    }

    /// Returns the quorums and disruption budgets that forbid the eviction of the node's pods, one line each.
    ///
    /// `pods` contains the pods on the node. `away` contains the nodes of other maintenances that have started.
    async fn eviction_obstacles(
        &self,
        node: &str,
        away: &BTreeSet<String>,
        pods: &[Pod],
        setting: &CloudSettings,
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
            let Some(replicas) = self.cluster.get_replicas(&namespace, set).await? else { continue };
            let all = self.cluster.list_pods_of(&namespace, &component).await?;
            let all = all.iter().filter(|pod| owner(pod, "StatefulSet") == Some(set));
            let node_of = |pod: &Pod| pod.spec.node_name.clone().unwrap_or_default();
            let pods = all.map(|pod| (node_of(pod), pod.status.is_ready())).collect();
            members.push(Members { set: format!("{namespace}/{set}"), replicas, pods });
        }
        let budgets = if evicted.is_empty() { Vec::new() } else { self.budgets(&evicted).await? };
        Ok(eviction_obstacles(node, away, &members, &budgets))
    }

    /// Returns the disruption budgets that select at least one of the pods.
    async fn budgets(&self, pods: &[&Pod]) -> Result<Vec<Budget>, Error> {
        let all = self.cluster.list_budgets(&self.operator.scope()).await?.into_iter().filter_map(|budget| {
            let spec = budget.spec.as_ref()?;
            let selector: Selector = spec.selector.clone()?.try_into().ok()?;
            let own = |pod: &&&Pod| pod.namespace() == budget.namespace() && selector.matches(pod.labels());
            let own: Vec<_> = pods.iter().filter(own).filter(|pod| pod.status.phase != "Pending").collect();
            own.first()?;
            // While the status of a budget is older than its spec, the eviction API refuses every eviction. So the
            // number of allowed evictions is then 0, whatever the status says.
            let status = budget.status.clone().unwrap_or_default();
            let counted = status.observed_generation >= budget.metadata.generation;
            Some(Budget {
                name: format!("{}/{}", budget.namespace().unwrap_or_default(), budget.name_any()),
                allowed: if counted { status.disruptions_allowed.unwrap_or_default() } else { 0 },
                healthy: status.current_healthy.unwrap_or_default(),
                wanted: status.desired_healthy.unwrap_or_default(),
                ready: own.iter().any(|pod| pod.status.is_ready()),
                always: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
            })
        });
        Ok(all.collect())
    }
}
