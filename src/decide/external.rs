//! External services: a headless Service and Endpoints, because upstream's pods wait for ready addresses of a Service by its name.
//!
//! An `ExternalName` Service has no addresses. A headless one makes every port of the host reachable, not only the named one: upstream's
//! rabbit-init also speaks to the broker's management port.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::ResourceExt;

use super::action::{Action, Kind, Planned};
use super::draft::Draft;
use super::kept::Lookup;
use super::requests::{Answer, Answered, Published, Read};
use super::steady::{Lookups, Steady, newest};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{ExternalService, Finding};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::release;

/// The annotation that names the host whose addresses Endpoints have: after a restart a name server may fail, and the spec may name another host.
pub const HOST: &str = "osdpl.dev/host";

/// Publishes external services and withdraws those that are no longer wanted; returns the services that pods can find.
pub fn external(
    draft: &mut Draft<'_>,
    catalog: &Catalog,
    wanted: &BTreeMap<String, ExternalService>,
    observed: &Observed,
) -> BTreeSet<String> {
    let held = held(catalog, observed);
    let wanted: BTreeMap<&String, &ExternalService> =
        wanted.iter().filter(|(service, _)| !held.contains(service.as_str())).collect();
    let keep = wanted.values().map(|external| ReleaseKey::new(&external.namespace, &external.service)).collect();
    withdraw(draft, keep);
    draft.kept.lookups.retain(|name, lookup| wanted.get(name) == Some(&&lookup.external));
    let mut ready = BTreeSet::new();
    for (name, external) in wanted {
        match publish(draft, name, external) {
            // Only the operator is in the cluster's network.
            _ if draft.snapshot.assumed.is_some() => drop(ready.insert(name.clone())),
            Outcome::Ready => drop(ready.insert(name.clone())),
            Outcome::Problem(problem) => draft.problems.push(problem),
            Outcome::Waiting => {}
        }
    }
    ready
}

/// The services of which a release of ours still exists: its uninstall comes first, and may wait for approval. To publish before would take
/// the Endpoints of a running service away.
fn held<'a>(catalog: &'a Catalog, observed: &Observed) -> BTreeSet<&'a str> {
    let installed = observed.releases.values().filter(|seen| seen.is_ours() && seen.status != "uninstalled");
    let installed = installed.filter_map(|seen| seen.release.as_deref());
    let running = observed.running.keys().map(|key| key.name.as_str());
    installed.chain(running).filter_map(|release| Some(catalog.release(release)?.0)).collect()
}

/// Deletes the Services of ours that are not kept; lists them when what is kept has changed, and after a start.
fn withdraw(draft: &mut Draft<'_>, keep: BTreeSet<ReleaseKey>) {
    if draft.paused || draft.kept.services.as_ref() == Some(&keep) {
        return;
    }
    let Some(published) = draft.list(Read::OwnServices) else { return };
    let obsolete: Vec<&ReleaseKey> = published.iter().map(|(key, _)| key).filter(|key| !keep.contains(key)).collect();
    for key in &obsolete {
        let action = Action::Delete { kind: Kind::Service, key: (*key).clone() };
        draft.add(Planned::new(action, "the spec names no external service there"));
    }
    if obsolete.is_empty() {
        draft.kept.services = Some(keep);
    }
}

enum Outcome {
    Ready,
    Problem(String),
    Waiting,
}

fn publish(draft: &mut Draft<'_>, name: &str, external: &ExternalService) -> Outcome {
    let found = draft.read(Read::Addresses(external.host.clone(), external.port));
    let service = draft.read(Read::Service(ReleaseKey::new(&external.namespace, &external.service)));
    let (Some(found), Some(service)) = (found, service) else { return Outcome::Waiting };
    let (Answer::Addresses(addresses), Answer::Service(published)) = (&found.answer, &service.answer) else {
        return Outcome::Waiting;
    };
    let until = [found, service].into_iter().filter_map(Answered::until).min();
    let problem = |problem: String| format!("spec.services.{name}.external: {problem}");
    let published = match published {
        Ok(published) => published,
        Err(error) => {
            draft.wake(until);
            return Outcome::Problem(problem(error.clone()));
        }
    };
    let before = draft.kept.lookups.remove(name);
    let deployment = draft.snapshot.deployment.name_any();
    let lookup = looked_up(before, external, (addresses, found.fresh), (published, &deployment), draft.snapshot.now);
    let result = match (&lookup.problem, in_the_way(published, external, &deployment)) {
        (Some(wrong), _) => Outcome::Problem(format!("spec.services.{name}.external.host: {}", wrong.report())),
        (None, Some(wrong)) => Outcome::Problem(problem(wrong)),
        (None, None) => apply(draft, name, external, &lookup.addresses, published),
    };
    let is_problem = matches!(result, Outcome::Problem(_));
    if let (Some(fails), false) = (lookup.fails, is_problem)
        && let Some(message) = fails.warning(&external.host, &lookup.addresses)
    {
        let field = format!("spec.services.{name}.external.host");
        draft.findings.push(Finding { level: Level::Warning, field, message });
    }
    // No watch reports another address of a name, or the end of someone else's Service. Something may have triggered this pass for that.
    let changes = is_problem || !found.fresh || external.host.parse::<IpAddr>().is_err();
    draft.wake(until.filter(|_| changes));
    draft.kept.lookups.insert(name.to_owned(), lookup);
    result
}

/// How lookups went, with one more.
fn looked_up(
    before: Option<Lookup>,
    external: &ExternalService,
    (found, fresh): (&Result<Vec<IpAddr>, String>, bool),
    (published, deployment): (&Published, &str),
    now: k8s_openapi::jiff::Timestamp,
) -> Lookup {
    if let Some(before) = before.clone().filter(|_| !fresh) {
        return before;
    }
    let (fails, problem) = before.as_ref().map_or((None, None), |before| (before.fails, before.problem.clone()));
    let mut known = before.map(|before| before.addresses).unwrap_or_default();
    if found.is_err() && known.is_empty() {
        let endpoints = published.endpoints.as_ref();
        known = endpoints.map(|stored| addresses_of(stored, deployment, &external.host)).unwrap_or_default();
    }
    let external = external.clone();
    match newest(found.clone(), known) {
        Err(wrong) => {
            Lookup { external, addresses: Vec::new(), fails, problem: Some(Steady::after(problem, wrong, now)) }
        }
        Ok(addresses) => {
            Lookup { external, addresses, fails: Some(Lookups::after(fails, found.is_err(), now)), problem: None }
        }
    }
}

/// Plans what differs.
fn apply(
    draft: &mut Draft<'_>,
    service: &str,
    external: &ExternalService,
    addresses: &[IpAddr],
    published: &Published,
) -> Outcome {
    let has_port = published.service.as_ref().is_some_and(|known| has_port(known, external.port, &external.port_name));
    let leads_there = published.endpoints.as_ref().is_some_and(|known| leads_to(known, addresses, external));
    if has_port && leads_there {
        return Outcome::Ready;
    }
    let is_published = has_port && published.endpoints.as_ref().is_some_and(has_addresses);
    let field = format!("spec.services.{service}.external");
    let (service, copy) = (service.to_owned(), external.clone());
    let endpoints =
        Action::PublishEndpoints { service: service.clone(), external: copy.clone(), addresses: addresses.to_vec() };
    let mut refusal = None;
    if !has_port {
        let action = Action::PublishService { service, external: copy };
        refusal = draft.attempt(Planned::new(action, "pods wait for a Service by this name"));
    }
    if !leads_there && refusal.is_none() {
        refusal = draft.attempt(Planned::new(endpoints, format!("the addresses of {}", external.host)));
    }
    match refusal {
        Some(refusal) => Outcome::Problem(format!("{field}: {}", refusal.message)),
        None if is_published => Outcome::Ready,
        None => Outcome::Waiting,
    }
}

/// Why a Service of that name can't be ours, and what to do.
fn in_the_way(published: &Published, external: &ExternalService, deployment: &str) -> Option<String> {
    let service = published.service.as_ref()?;
    let place = format!("Service {}/{}", external.namespace, external.service);
    if service.labels().get("app.kubernetes.io/managed-by").is_some_and(|manager| manager == "Helm") {
        let owner = release::helm_owner(&service.metadata).map_or_else(|| "unknown".into(), |owner| owner.to_string());
        return Some(format!(
            "{place} belongs to helm release {owner}; uninstall that release, or take `external` out"
        ));
    }
    let is_ours = service.labels().get(DEPLOYMENT_LABEL).is_some_and(|owner| owner == deployment);
    let foreign = || {
        format!(
            "{place} is not ours (it lacks the label {DEPLOYMENT_LABEL}={deployment}); delete it, or take `external` out"
        )
    };
    (!is_ours).then(foreign)
}

/// Whether our port is among its ports: ports that someone else added stay.
fn has_port(service: &Service, port: u16, name: &str) -> bool {
    let mut ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.any(|one| one.port == i32::from(port) && one.name.as_deref() == Some(name))
}

fn has_addresses(endpoints: &Endpoints) -> bool {
    endpoints.subsets.iter().flatten().any(|subset| subset.addresses.iter().flatten().next().is_some())
}

fn leads_to(endpoints: &Endpoints, addresses: &[IpAddr], external: &ExternalService) -> bool {
    let ExternalService { host, port, port_name, .. } = external;
    let Some([subset]) = endpoints.subsets.as_deref() else { return false };
    let known: BTreeSet<&str> = subset.addresses.iter().flatten().map(|address| address.ip.as_str()).collect();
    let wanted: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
    let ports = subset.ports.as_deref().unwrap_or_default();
    let same = matches!(ports, [only] if only.port == i32::from(*port) && only.name.as_ref() == Some(port_name));
    same && endpoints.annotations().get(HOST) == Some(host) && known == wanted.iter().map(String::as_str).collect()
}

/// The addresses that we gave these Endpoints for this host; none where they are of another.
fn addresses_of(endpoints: &Endpoints, deployment: &str, host: &str) -> Vec<IpAddr> {
    let is = |value: Option<&String>, wanted: &str| value.is_some_and(|value| value == wanted);
    if !is(endpoints.labels().get(DEPLOYMENT_LABEL), deployment) || !is(endpoints.annotations().get(HOST), host) {
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
    fn a_foreign_service_is_in_the_way() {
        let why = |labels| {
            let published = Published { service: Some(service(&labels)), endpoints: None };
            in_the_way(&published, &external("db"), "cloud")
        };
        assert_eq!(why(json!({DEPLOYMENT_LABEL: "cloud"})), None);
        let foreign = "Service openstack/mariadb is not ours (it lacks the label osdpl.dev/deployment=cloud); delete it, or take `external` out";
        assert_eq!(why(json!({})).as_deref(), Some(foreign));
        assert_eq!(why(json!({DEPLOYMENT_LABEL: "other"})).as_deref(), Some(foreign));
        let helms = why(json!({"app.kubernetes.io/managed-by": "Helm"})).unwrap();
        assert!(helms.starts_with("Service openstack/mariadb belongs to helm release unknown; uninstall"), "{helms}");
    }

    #[test]
    fn applies_a_service_that_lacks_our_port() {
        let known = service(&json!({DEPLOYMENT_LABEL: "cloud"}));
        assert!(has_port(&known, 3306, "mysql"));
        assert!(!has_port(&known, 3307, "mysql") && !has_port(&known, 3306, "db"));
        let ports = json!([{"name": "management", "port": 15672}, {"name": "mysql", "port": 3306}]);
        let more: Service = serde_json::from_value(json!({"spec": {"ports": ports}})).unwrap();
        assert!(has_port(&more, 3306, "mysql"), "ports that another manager added do not matter");
    }

    #[test]
    fn endpoints_name_the_host_of_their_addresses() {
        let endpoints = |host: &str| -> Endpoints {
            let metadata = json!({"labels": {DEPLOYMENT_LABEL: "cloud"}, "annotations": {HOST: host}});
            let addresses = json!([{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}]);
            let subsets = json!([{"addresses": addresses, "ports": [{"name": "mysql", "port": 3306}]}]);
            serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap()
        };
        let (known, wanted) = (endpoints("db.example"), external("db.example"));
        let addresses: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        assert!(leads_to(&known, &addresses, &wanted) && !leads_to(&known, &addresses[..1], &wanted));
        assert!(!leads_to(&known, &addresses, &ExternalService { port_name: "db".into(), ..wanted.clone() }));
        assert!(!leads_to(&endpoints("old.example"), &addresses, &wanted));
        assert_eq!(addresses_of(&known, "cloud", "db.example"), [addresses[1], addresses[0]]);
        for (deployment, host) in [("cloud", "old.example"), ("other", "db.example")] {
            assert!(addresses_of(&known, deployment, host).is_empty(), "{deployment} {host}");
        }
    }

    #[test]
    fn the_problem_of_a_host_keeps_its_text_while_others_alternate() {
        let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
        let wanted = external("127.0.0.1");
        let (published, err) = (Published::default(), |text: &str| Err(text.to_owned()));
        let look = |before, found| looked_up(before, &wanted, (&found, true), (&published, "cloud"), now);
        let first = look(None, err("it took too long"));
        let second = look(Some(first), err("127.0.0.1 can't be reached from other hosts"));
        assert_eq!(second.problem.unwrap().report(), "it took too long");
    }
}
