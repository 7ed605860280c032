//! Publishes each external service to pods as a headless Kubernetes Service with Endpoints.
//!
//! An `ExternalName` Service would not be enough: it has no addresses, and OpenStack-Helm's pods wait until a Service
//! has ready addresses. A headless Service also makes every port of the host reachable, such as RabbitMQ's management
//! port, which OpenStack-Helm's rabbit-init uses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use osdpl_values::CollectSorted;

use super::action::{Action, Kind, Planned};
use super::draft::Draft;
use super::kept::Lookup;
use super::lookups::{Damped, Lookups, newest};
use super::namespaces::unusable;
use super::needed::Needed;
use super::requests::{Published, Read, Received, Response};
use super::selection::release_names;
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{ExternalService, Finding, Selection};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::release;

/// The annotation with which osdpl stores the host name or address of an external host in its Endpoints.
///
/// If the name server fails after a restart of the operator, osdpl uses the addresses in the Endpoints. The annotation
/// shows whether these addresses belong to the host that the spec names now.
pub const HOST_ANNOTATION: &str = "osdpl.dev/host";

/// Plans to publish the external services of the spec, and to delete the Kubernetes Services that osdpl published for
/// services that are no longer external. Keeps the Services in `needed`, because releases that osdpl does not manage
/// may use them.
///
/// Returns the names of the external services whose Service and Endpoints are in the cluster, so that pods can reach
/// the host.
pub(crate) fn publish_all(
    draft: &mut Draft<'_>,
    selection: &Selection,
    observed: &Observed,
    needed: &Needed,
) -> BTreeSet<String> {
    let installed = installed_services(draft.catalog(), selection, observed);
    let desired: BTreeMap<&String, &ExternalService> =
        selection.external.iter().filter(|(service, _)| !installed.contains(service.as_str())).collect_map();
    let keep = desired.values().map(|external| ReleaseKey::new(&external.namespace, &external.service));
    withdraw(draft, keep.chain(needed.external.iter().cloned()).collect_set());
    draft.kept.lookups.retain(|name, lookup| desired.get(name) == Some(&&lookup.external));
    let mut ready = BTreeSet::new();
    for (name, external) in desired {
        match publish(draft, name, external) {
            // `osdpl plan` may run outside of the cluster's network, where it can't look up the host. So `osdpl plan`
            // assumes that the service is published.
            _ if draft.snapshot.assumed.is_some() => drop(ready.insert(name.clone())),
            Publication::Ready => drop(ready.insert(name.clone())),
            Publication::Failed(problem) => draft.problems.push(problem),
            Publication::Pending => {}
        }
    }
    ready
}

/// Returns the services of the catalogue that osdpl installed in the cluster and has not uninstalled yet.
///
/// If the spec makes such a service external, osdpl first uninstalls its releases, and the uninstall may wait for
/// approval. Until then, osdpl must not publish the external service, because its Endpoints would replace the Endpoints
/// of the running release.
fn installed_services<'a>(catalog: &'a Catalog, selection: &Selection, observed: &Observed) -> BTreeSet<&'a str> {
    let installed = observed
        .releases
        .values()
        .filter(|existing| existing.is_ours() && existing.status != release::Status::Uninstalled);
    let installed = installed.filter_map(|existing| existing.release.as_deref());
    // helm may not have written the record of a first install yet. So find the running releases by their keys.
    let names = release_names(selection);
    let running = observed.running.keys().map(|key| names.get(key).unwrap_or(&key.name).as_str());
    installed.chain(running).filter_map(|release| Some(catalog.release(release)?.0)).collect_set()
}

/// Plans to delete the Kubernetes Services that osdpl published for external services, except for `keep`.
///
/// To find these Services, osdpl sends a list request, but only after a start of the operator or a change of `keep`.
fn withdraw(draft: &mut Draft<'_>, keep: BTreeSet<ReleaseKey>) {
    if draft.paused || draft.kept.services.as_ref() == Some(&keep) {
        return;
    }
    let Some(published) = draft.list(Read::OwnServices) else { return };
    let obsolete: Vec<_> = published.iter().filter(|(key, _)| !keep.contains(key)).collect();
    for (key, uid) in &obsolete {
        let action = Action::Delete { kind: Kind::Service, key: key.clone(), uid: uid.clone() };
        draft.change_for_spec(Planned::new(action, "no external service in the spec uses this Service any more"));
    }
    if obsolete.is_empty() {
        draft.kept.services = Some(keep);
    }
}

/// The progress of the publication of an external service.
enum Publication {
    /// The Service and its Endpoints are in the cluster, so pods can reach the external host.
    Ready,
    /// osdpl can't publish the service. Contains the reason.
    Failed(String),
    /// A later pass continues the publication, because a read or a write is not finished, or a write waits for
    /// approval.
    Pending,
}

/// Plans to publish one external service; returns the progress of the publication.
fn publish(draft: &mut Draft<'_>, name: &str, external: &ExternalService) -> Publication {
    if let Some(problem) = unusable(draft.snapshot, &external.namespace) {
        return Publication::Failed(format!("spec.services.{name}.external: {problem}"));
    }
    let addresses = draft.read(Read::Addresses(external.host.clone(), external.port));
    let service = draft.read(Read::Service(ReleaseKey::new(&external.namespace, &external.service)));
    let (Some(addresses), Some(service)) = (addresses, service) else { return Publication::Pending };
    let (Response::Addresses(found), Response::Service(published)) = (&addresses.response, &service.response) else {
        return Publication::Pending;
    };
    let until = [addresses, service].into_iter().filter_map(Received::until).min();
    let field = format!("spec.services.{name}.external");
    let published = match published {
        Ok(published) => published,
        Err(error) => {
            draft.requeue(until);
            return Publication::Failed(format!("{field}: {error}"));
        }
    };
    let owner = draft.snapshot.deployment.owner_label();
    let lookup = match draft.kept.lookups.remove(name) {
        Some(known) if !addresses.fresh => known,
        before => next_lookup(before, external, found, published, &owner, draft.snapshot.now),
    };
    let result = match (&lookup.problem, conflict(published, external, &owner)) {
        (Some(problem), _) => Publication::Failed(format!("{field}.host: {}", problem.report())),
        (None, Some(problem)) => Publication::Failed(format!("{field}: {problem}")),
        (None, None) => apply(draft, name, external, &lookup.addresses, published),
    };
    let has_failed = matches!(result, Publication::Failed(_));
    if let (Some(fails), false) = (lookup.fails, has_failed)
        && let Some(message) = fails.warning(&external.host, &lookup.addresses)
    {
        draft.findings.push(Finding::new(Level::Warning, format!("{field}.host"), message));
    }
    // No watch reports that a host name gets a new address, or that someone deletes a foreign Service that blocks the
    // publication. So a later pass must look up the host and read the Service again.
    let may_change = has_failed || !addresses.fresh || external.host.parse::<IpAddr>().is_err();
    draft.requeue(until.filter(|_| may_change));
    draft.kept.lookups.insert(name.to_owned(), lookup);
    result
}

/// Returns the results of the DNS lookups of an external host, after one more lookup that returned `found`. `before`
/// contains the results of the earlier lookups.
fn next_lookup(
    before: Option<Lookup>,
    external: &ExternalService,
    found: &Result<Vec<IpAddr>, String>,
    published: &Published,
    owner: &str,
    now: Timestamp,
) -> Lookup {
    let (fails, problem) = before.as_ref().map_or((None, None), |before| (before.fails, before.problem.clone()));
    let mut known = before.map(|before| before.addresses).unwrap_or_default();
    if found.is_err() && known.is_empty() {
        let endpoints = published.endpoints.as_ref();
        known = endpoints.map(|stored| published_addresses(stored, owner, &external.host)).unwrap_or_default();
    }
    let external = external.clone();
    match newest(found.clone(), known) {
        Err(wrong) => {
            Lookup { external, addresses: Vec::new(), fails, problem: Some(Damped::after(problem, wrong, now)) }
        }
        Ok(addresses) => {
            Lookup { external, addresses, fails: Some(Lookups::after(fails, found.is_err(), now)), problem: None }
        }
    }
}

/// Plans to apply the Service and the Endpoints of an external service, if they do not exist or differ from the desired
/// ones. Returns the progress of the publication.
fn apply(
    draft: &mut Draft<'_>,
    service: &str,
    external: &ExternalService,
    addresses: &[IpAddr],
    published: &Published,
) -> Publication {
    let has_port = published.service.as_ref().is_some_and(|known| has_port(known, external.port, &external.port_name));
    let is_current = published.endpoints.as_ref().is_some_and(|known| leads_to(known, addresses, external));
    if has_port && is_current {
        return Publication::Ready;
    }
    let is_published = has_port && published.endpoints.as_ref().is_some_and(has_addresses);
    let mut refusal = None;
    if !has_port {
        let action = Action::PublishService { service: service.to_owned(), external: external.clone() };
        refusal = draft.attempt_for_spec(Planned::new(action, "pods wait for a Service of this name"));
    }
    if !is_current && refusal.is_none() {
        let (service, addresses) = (service.to_owned(), addresses.to_vec());
        let action = Action::PublishEndpoints { service, external: external.clone(), addresses };
        let planned = Planned::new(action, format!("pods need the addresses of {}", external.host));
        // With `spec.approval: Always`, changes that follow from the spec wait for approval. If osdpl has already
        // published this host and this port, new addresses of the host follow from DNS, not from the spec. So they do
        // not wait.
        let is_same_host = has_port && published.endpoints.as_ref().is_some_and(|known| is_of_host(known, external));
        refusal = if is_same_host { draft.attempt(planned) } else { draft.attempt_for_spec(planned) };
    }
    match refusal {
        Some(refusal) => Publication::Failed(format!("spec.services.{service}.external: {}", refusal.message)),
        None if is_published => Publication::Ready,
        None => Publication::Pending,
    }
}

/// Returns what prevents osdpl from publishing the external service, and the remedy; `None` if osdpl can publish it.
fn conflict(published: &Published, external: &ExternalService, owner: &str) -> Option<String> {
    let service = published.service.as_ref()?;
    let object = format!("Service {}/{}", external.namespace, external.service);
    if service.labels().get("app.kubernetes.io/managed-by").is_some_and(|manager| manager == "Helm") {
        return Some(match release::helm_owner(&service.metadata) {
            Some(owner) => {
                format!("{object} belongs to helm release {owner}; uninstall that release, or remove `external`")
            }
            None => format!(
                "{object} has helm's label, but no annotation that names its release; delete it if no release needs \
                 it, or remove `external`"
            ),
        });
    }
    let is_ours = service.labels().get(DEPLOYMENT_LABEL).is_some_and(|label| label == owner);
    let foreign = || {
        format!(
            "{object} does not belong to this cloud (it lacks the label {DEPLOYMENT_LABEL}={owner}); delete it if \
             nothing needs it, or remove `external`"
        )
    };
    (!is_ours).then(foreign)
}

/// Returns whether a Kubernetes Service has the port of the external service.
///
/// Other ports of the Service do not matter, because another field manager may have added them.
fn has_port(service: &Service, port: u16, name: &str) -> bool {
    let mut ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.any(|one| one.port == i32::from(port) && one.name.as_deref() == Some(name))
}

fn has_addresses(endpoints: &Endpoints) -> bool {
    endpoints.subsets.iter().flatten().any(|subset| subset.addresses.iter().flatten().next().is_some())
}

fn leads_to(endpoints: &Endpoints, addresses: &[IpAddr], external: &ExternalService) -> bool {
    let ExternalService { port, port_name, .. } = external;
    let Some([subset]) = endpoints.subsets.as_deref() else { return false };
    let known: BTreeSet<&str> = subset.addresses.iter().flatten().map(|address| address.ip.as_str()).collect_set();
    let expected: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect_set();
    let ports = subset.ports.as_deref().unwrap_or_default();
    let same = matches!(ports, [only] if only.port == i32::from(*port) && only.name.as_ref() == Some(port_name));
    same && is_of_host(endpoints, external) && known == expected.iter().map(String::as_str).collect_set()
}

/// Returns whether osdpl published `endpoints` for the host that the external service has now.
fn is_of_host(endpoints: &Endpoints, external: &ExternalService) -> bool {
    endpoints.annotations().get(HOST_ANNOTATION) == Some(&external.host)
}

/// Returns the addresses in the Endpoints; no address if osdpl did not publish the Endpoints for `host`.
fn published_addresses(endpoints: &Endpoints, owner: &str, host: &str) -> Vec<IpAddr> {
    let is = |value: Option<&String>, expected: &str| value.is_some_and(|value| value == expected);
    if !is(endpoints.labels().get(DEPLOYMENT_LABEL), owner) || !is(endpoints.annotations().get(HOST_ANNOTATION), host) {
        return Vec::new();
    }
    let subsets = endpoints.subsets.iter().flatten();
    let addresses = subsets.flat_map(|subset| subset.addresses.iter().flatten());
    addresses.filter_map(|address| address.ip.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_core::observed::RunningHelm;

    fn service(labels: &serde_json::Value) -> Service {
        let ports = json!([{"name": "mysql", "port": 3306}]);
        serde_json::from_value(json!({"metadata": {"name": "mariadb", "labels": labels}, "spec": {"ports": ports}}))
            .unwrap()
    }

    fn external(host: &str) -> ExternalService {
        ExternalService {
            service: "mariadb".into(),
            namespace: "openstack".into(),
            host: host.into(),
            port: 3306,
            port_name: "mysql".into(),
        }
    }

    #[test]
    fn finds_a_renamed_release_during_its_first_install() {
        let releases = json!({"store": {"name": "db"}});
        let snapshot = crate::tests::snapshot(json!({"spec": {"services": {"store": {"releases": releases}}}}));
        let selection = crate::selection(&snapshot.deployment, &snapshot.deployment.spec, &snapshot.catalog);
        let (verb, inputs, since) = (release::Verb::Upgrade, String::new(), Timestamp::UNIX_EPOCH);
        let helm = RunningHelm { verb, inputs, since, stopping: false, skips_hooks: false };
        let running = [(ReleaseKey::new("openstack", "db"), helm)].into();
        let observed = Observed { running, ..Observed::default() };
        assert_eq!(installed_services(&snapshot.catalog, &selection, &observed), BTreeSet::from(["store"]));
    }

    #[test]
    fn a_foreign_service_is_a_conflict() {
        let why = |labels| {
            let published = Published { service: Some(service(&labels)), endpoints: None };
            conflict(&published, &external("db"), "cloud")
        };
        assert_eq!(why(json!({DEPLOYMENT_LABEL: "cloud"})), None);
        let foreign = "Service openstack/mariadb does not belong to this cloud (it lacks the label osdpl.dev/deployment=cloud); delete it if nothing needs it, or remove `external`";
        assert_eq!(why(json!({})).as_deref(), Some(foreign));
        assert_eq!(why(json!({DEPLOYMENT_LABEL: "other"})).as_deref(), Some(foreign));
        let helms = why(json!({"app.kubernetes.io/managed-by": "Helm"})).unwrap();
        assert!(helms.contains("has helm's label, but no annotation that names its release; delete it if"), "{helms}");
    }

    #[test]
    fn applies_a_service_that_lacks_our_port() {
        let known = service(&json!({DEPLOYMENT_LABEL: "cloud"}));
        assert!(has_port(&known, 3306, "mysql"));
        assert!(!has_port(&known, 3307, "mysql") && !has_port(&known, 3306, "db"));
        let ports = json!([{"name": "management", "port": 15672}, {"name": "mysql", "port": 3306}]);
        let more: Service = serde_json::from_value(json!({"spec": {"ports": ports}})).unwrap();
        assert!(has_port(&more, 3306, "mysql"), "ports that another field manager added do not matter");
    }

    #[test]
    fn uses_published_addresses_only_for_their_host() {
        let endpoints = |host: &str| -> Endpoints {
            let metadata = json!({"labels": {DEPLOYMENT_LABEL: "cloud"}, "annotations": {HOST_ANNOTATION: host}});
            let addresses = json!([{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}]);
            let subsets = json!([{"addresses": addresses, "ports": [{"name": "mysql", "port": 3306}]}]);
            serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap()
        };
        let (known, desired) = (endpoints("db.example"), external("db.example"));
        let addresses: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        assert!(leads_to(&known, &addresses, &desired) && !leads_to(&known, &addresses[..1], &desired));
        assert!(!leads_to(&known, &addresses, &ExternalService { port_name: "db".into(), ..desired.clone() }));
        assert!(!leads_to(&endpoints("old.example"), &addresses, &desired));
        assert_eq!(published_addresses(&known, "cloud", "db.example"), [addresses[1], addresses[0]]);
        for (deployment, host) in [("cloud", "old.example"), ("other", "db.example")] {
            assert!(published_addresses(&known, deployment, host).is_empty(), "{deployment} {host}");
        }
    }

    #[test]
    fn keeps_the_problem_while_errors_alternate() {
        let now = Timestamp::UNIX_EPOCH;
        let desired = external("127.0.0.1");
        let (published, err) = (Published::default(), |text: &str| Err(text.to_owned()));
        let lookup = |before, found| next_lookup(before, &desired, &found, &published, "cloud", now);
        let first = lookup(None, err("it took too long"));
        let second = lookup(Some(first), err("127.0.0.1 can't be reached from other hosts"));
        assert_eq!(second.problem.unwrap().report(), "it took too long");
    }
}
