//! Asks Nova for its compute hosts, to find new hosts and hosts without a node. Deletes the hosts of removed nodes.
//!
//! Each pass sets the query ([`crate::tasks::Tasks::set_host_query`]) and never waits for the response. The task runs a
//! changed query immediately. It repeats an unchanged query only if Nova did not respond, if Nova's hosts do not match
//! the nodes yet, or if the task could not delete a host. After some time, it stops repeating the query, unless it must
//! still delete a host.
//!
//! The code that applies a plan does not delete Nova hosts itself. It only names the removed nodes
//! ([`crate::tasks::Tasks::forget_hosts`]), and the task then deletes their hosts. A deletion takes several requests to
//! Nova and Neutron, and many attempts, because Nova reports a host as up for a minute after its node was removed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::problems::Problems;
use super::{Spawner, publish};
use osdpl_client::HttpConfig;
use osdpl_core::nodes::format_names;
use osdpl_core::openstack::{Access, DeletedHost, Error, HostObservation, HostQuery, HostResponse, Hosts, nova};
use osdpl_maintenance::OpenStackClient;

/// The first pause before the task repeats an unchanged query. Each following pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause between two queries while Nova's compute hosts do not match the nodes: Nova reports fewer hosts as
/// up than nova-compute has ready pods, or has a host without a node.
///
/// After this pause, the task stops repeating the query, because a difference between Nova's hosts and the nodes that
/// lasts longer is deliberate: some compute hosts may run outside of the cluster. A difference that is not deliberate
/// ends earlier, because nova-compute reports every 10 s (`report_interval`), and Nova regards nova-compute as down
/// after 60 s without a report (`service_down_time`).
const SETTLING_PAUSE: Duration = Duration::from_secs(80);

/// The longest pause between two queries while Nova does not respond, or while the task can't delete a host that a user
/// has asked osdpl to delete.
///
/// After this pause, the task stops repeating the query until the query changes, unless it must still delete a host.
/// The query changes, for example, whenever Nova's host discovery succeeds.
const RETRY_PAUSE: Duration = Duration::from_mins(11);

/// Starts the task that asks Nova for its compute hosts, unless access to the OpenStack APIs is disabled.
///
/// Returns the sender of the queries, and the receiver of Nova's responses.
pub(super) fn spawn(
    spawner: &mut Spawner,
    api_access: Option<&HttpConfig>,
    problems: &Problems,
    trigger: &Arc<Notify>,
) -> (watch::Sender<Option<HostQuery>>, watch::Receiver<Option<Arc<HostObservation>>>) {
    let (query, queries) = watch::channel(None);
    let (sender, observations) = watch::channel(None);
    if let Some(config) = api_access.cloned() {
        let trigger = Arc::clone(trigger);
        spawner.spawn("hosts", problems, move || {
            run(OpenStackClient::new(config.clone()), queries.clone(), sender.clone(), Arc::clone(&trigger))
        });
    }
    (query, observations)
}

async fn run(
    client: OpenStackClient,
    mut queries: watch::Receiver<Option<HostQuery>>,
    sender: watch::Sender<Option<Arc<HostObservation>>>,
    trigger: Arc<Notify>,
) {
    // The next pause between two queries. Each repetition of a query doubles the pause, so that the task queries Nova
    // less and less often. A new query, or a restart of the operator, starts with the shortest pause again.
    let mut pause = FIRST_PAUSE;
    loop {
        let query = queries.borrow_and_update().clone();
        let mut longest = Duration::ZERO;
        let observation = match query {
            None => None,
            Some(query) => {
                let response = query_and_forget(&client, &query).await.map_err(|error| error.to_string());
                longest = longest_pause(&query, &response);
                if must_delete_hosts(&query, &response) {
                    pause = pause.min(longest);
                }
                Some(HostObservation { query, response })
            }
        };
        publish(observation.map(Arc::new), &sender, &trigger);
        tokio::select! {
            changed = queries.changed() => {
                if changed.is_err() {
                    return;
                }
                pause = FIRST_PAUSE;
            }
            () = tokio::time::sleep(pause), if pause <= longest => pause *= 2,
        }
    }
}

/// Returns the longest pause before the task repeats an unchanged query after `response`. Zero means that the task need
/// not repeat the query.
fn longest_pause(query: &HostQuery, response: &Result<HostResponse, String>) -> Duration {
    match response {
        Ok(response) if !response.not_deleted.is_empty() => RETRY_PAUSE,
        Ok(response) if response.hosts.has_stale_hosts() || response.hosts.up < query.ready() => SETTLING_PAUSE,
        Ok(_) => Duration::ZERO,
        Err(_) => RETRY_PAUSE,
    }
}

/// Whether the task must still delete hosts after `response`. If so, it never stops repeating the query, because no
/// watch reports that a user has evacuated the instances of such a host.
fn must_delete_hosts(query: &HostQuery, response: &Result<HostResponse, String>) -> bool {
    match response {
        Ok(response) => !response.not_deleted.is_empty(),
        Err(_) => !query.removed_nodes.is_empty(),
    }
}

/// Asks Nova for its compute hosts, and deletes the hosts of the nodes in `query.removed_nodes`.
async fn query_and_forget(client: &OpenStackClient, query: &HostQuery) -> Result<HostResponse, Error> {
    let mut response = HostResponse { hosts: query_hosts(client, query).await?, ..HostResponse::default() };
    for node in &query.removed_nodes {
        let Some(service) = response.hosts.host_of_deleted_node(node).cloned() else { continue };
        match delete_host(client, &query.access, &service).await {
            Ok(agents) => {
                response.hosts.drop_host(&service.host);
                response.deleted.insert(node.clone(), DeletedHost { host: service.host, agents });
            }
            Err(why) => drop(response.not_deleted.insert(node.clone(), why)),
        }
    }
    Ok(response)
}

/// Asks Nova for its compute hosts, without changing anything.
async fn query_hosts(client: &OpenStackClient, query: &HostQuery) -> Result<Hosts, Error> {
    let services = client.call(&query.access, &nova::services()).await?.services;
    let hypervisors = client.hypervisors(&query.access).await?;
    Ok(Hosts::from_services(services, &hypervisors, query.nodes.as_ref()))
}

/// Deletes a host from Nova, and its agents from Neutron. Returns the number of deleted Neutron agents.
///
/// If Nova still marks the host as up, or has instances on it, the function deletes nothing, and returns the reason.
async fn delete_host(client: &OpenStackClient, access: &Access, service: &nova::Service) -> Result<usize, String> {
    let host = &service.host;
    if service.is_up() {
        return Err(format!(
            "{host} is still up in Nova, which marks a host as down a minute after its last report; osdpl tries again"
        ));
    }
    let instances = client.servers(access, host).await.map_err(|error| error.to_string())?;
    if !instances.is_empty() {
        let names = format_names(instances.iter().map(|server| server.name.as_str()), instances.len());
        return Err(format!("Nova has instances on {host}: {names}; evacuate or delete them"));
    }
    client.delete_host(access, host, &service.id).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::endpoint::{Login, Url};

    #[test]
    fn never_gives_up_the_deletion_of_a_host() {
        let values = serde_json::json!({"endpoints": {"identity": {"auth": {"admin": {"password": "secret"}}}}});
        let login = Login::from_values(values.as_object().unwrap()).unwrap();
        let identity = Url { tls: false, host: "keystone".into(), port: 80, path: "/v3".into() };
        let query = |removed_nodes: &[&str]| HostQuery {
            access: Access { login: login.clone(), identity: identity.clone(), compute: None, network: None },
            state: Vec::new(),
            last_success: None,
            nodes: None,
            removed_nodes: removed_nodes.iter().map(|&node| node.to_owned()).collect(),
        };
        let not_deleted = [("node-7".to_owned(), "Nova has instances on node-7".to_owned())].into();
        let undeleted = Ok(HostResponse { not_deleted, ..HostResponse::default() });
        assert!(must_delete_hosts(&query(&["node-7"]), &undeleted));
        assert!(must_delete_hosts(&query(&["node-7"]), &Err("503".into())));
        assert!(!must_delete_hosts(&query(&["node-7"]), &Ok(HostResponse::default())));
        assert!(!must_delete_hosts(&query(&[]), &Err("503".into())));
    }
}
