//! Determines the services of a cloud: the services that the presets and the spec enable by name, and the further
//! services that these services need.
//!
//! Whether a service needs another one may depend on which services are enabled. So osdpl adds needed services in
//! rounds until a round adds none. No round removes a service, so the rounds end.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{holds, refused};
use super::variables::{key, variables};
use super::{ExternalService, Finding};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Level};
use crate::observed::ReleaseKey;
use osdpl_values::expr::Scope;
use osdpl_values::{CollectSorted, Values};

/// The services and releases of a cloud, and the findings about its services.
pub(super) struct Chosen {
    /// The services that run inside the cluster.
    pub services: BTreeSet<String>,
    /// The services that run outside of the cluster, each with its host, its port and the Kubernetes Service for it.
    pub external: BTreeMap<String, ExternalService>,
    /// The releases by catalogue name, each with the namespace and name of its helm release.
    pub releases: BTreeMap<String, ReleaseKey>,
    /// The variables of the catalogue's CEL expressions, without credentials and other facts.
    pub scope: Scope<'static>,
    /// Findings about the services in the spec, such as a warning about settings without effect.
    pub findings: Vec<Finding>,
    /// Notes about the services that osdpl added because other services need them.
    pub notes: Vec<Finding>,
    /// Errors about needs that the cloud does not meet, such as the need for a service that the spec disables.
    pub refusals: Vec<Finding>,
}

/// The releases that need the same service, each with the components of this service that the release needs.
type Dependents = BTreeMap<String, BTreeSet<String>>;

/// The services and releases that the releases of a cloud need. `services` and `optional` leave out the services that a
/// preset or the spec enables by name, because these services are part of the cloud anyway.
#[derive(Default)]
struct Needed {
    /// The services without which releases can't start, each with the releases that need it.
    services: BTreeMap<String, Dependents>,
    /// The services that releases use but can start without, each with the releases that use it. The user may provide a
    /// replacement for such a service.
    optional: BTreeMap<String, Dependents>,
    /// The releases that are missing from the cloud, although other releases need them and the cloud includes their
    /// service. The key is the service and the missing release; the value contains the releases that need the missing
    /// release.
    releases: BTreeMap<(String, String), Dependents>,
}

/// Determines the services of a cloud in rounds. Each round adds the services that the services of the previous round
/// need.
pub(super) fn chosen(
    namespace: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    features: &Values,
    findings: &mut Vec<Finding>,
) -> Chosen {
    let named = named(spec, catalog, findings);
    let is_disabled =
        |service: &String| spec.services.get(service).and_then(|overrides| overrides.enabled) == Some(false);
    let mut enabled = named.clone();
    loop {
        let mut chosen = round(namespace, spec, catalog, features, &enabled);
        let needed = needed(catalog, &mut chosen, &named);
        let (disabled, mut others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            needed.services.into_iter().partition(|(service, _)| is_disabled(service));
        let (declined, optional): (BTreeMap<_, _>, BTreeMap<_, _>) =
            needed.optional.into_iter().partition(|(service, _)| is_disabled(service));
        for (service, dependents) in optional {
            join(others.entry(service).or_default(), dependents);
        }
        let before = enabled.len();
        enabled.extend(others.keys().cloned());
        if enabled.len() == before {
            chosen.findings.extend(without_effect(spec, catalog, &enabled));
            let empty = empty(spec, catalog, &chosen);
            chosen.findings.extend(empty);
            let declined = declined.iter().filter(|(service, _)| !disabled.contains_key(*service));
            chosen.findings.extend(declined.map(|(service, dependents)| disabled_warning(service, dependents)));
            chosen.refusals =
                disabled.iter().map(|(service, dependents)| in_use_error(service, dependents, catalog)).collect();
            chosen.refusals.extend(
                needed.releases.iter().map(|((service, name), dependents)| unmet_error(service, name, dependents)),
            );
            chosen.notes = others.iter().map(|(service, dependents)| added_note(service, dependents)).collect();
            return chosen;
        }
    }
}

/// Determines the releases and the CEL variables of a cloud with exactly the services in `enabled`.
fn round(
    namespace: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    features: &Values,
    enabled: &BTreeSet<String>,
) -> Chosen {
    let mut findings = Vec::new();
    let external = external(namespace, spec, catalog, enabled, &mut findings);
    let mut scope = Scope::new(variables(namespace, spec, catalog, features, enabled, &external));
    let services: BTreeSet<_> = enabled.iter().filter(|name| !external.contains_key(*name)).cloned().collect_set();
    let mut releases = BTreeMap::new();
    for service in &services {
        let (location, field) = (catalog.service_location(service), format!("spec.services.{service}"));
        for (release, entry) in catalog.services.get(service).into_iter().flat_map(|service| &service.releases) {
            if holds(entry.when.as_ref(), &scope, location, &field, &mut findings) {
                releases.insert(release.clone(), key(namespace, spec, catalog, service, release));
            }
        }
    }
    if let Some(mut known) = scope.variable("releases").cloned() {
        for (name, release) in known.as_object_mut().into_iter().flatten() {
            release["enabled"] = releases.contains_key(name).into();
        }
        scope.set("releases", known);
    }
    Chosen { services, external, releases, scope, findings, notes: Vec::new(), refusals: Vec::new() }
}

/// Returns the services and releases that the releases of a cloud need. `named` are the services that a preset or the
/// spec enables by name. They are part of the cloud anyway, so `services` and `optional` in the result leave them out.
///
/// A release can't start without the components in its `needs` and `waits_for`. It can start without the components in
/// its `alongside`, because the user may run a replacement for them.
fn needed(catalog: &Catalog, chosen: &mut Chosen, named: &BTreeSet<String>) -> Needed {
    let mut needed = Needed::default();
    let scope = &chosen.scope;
    for service in &chosen.services {
        let entries = catalog.services.get(service).into_iter().flat_map(|service| &service.releases);
        for (name, release) in entries.filter(|(name, _)| chosen.releases.contains_key(*name)) {
            let strict = release.needs.iter().chain(&release.waits_for).map(|need| (need, true));
            for (need, is_strict) in strict.chain(release.alongside.iter().map(|need| (need, false))) {
                let Some((provider, of)) = catalog.provider(&need.component) else { continue };
                let is_there = chosen.external.contains_key(provider) || chosen.releases.contains_key(of);
                let is_named = named.contains(provider);
                let (location, field) = (catalog.service_location(service), format!("spec.services.{service}"));
                if is_there && is_named || !holds(need.when.as_ref(), scope, location, &field, &mut chosen.findings) {
                    continue;
                }
                let add = |dependents: &mut Dependents| {
                    dependents.entry(name.clone()).or_default().insert(need.component.to_string());
                };
                if !is_named {
                    let services = if is_strict { &mut needed.services } else { &mut needed.optional };
                    add(services.entry(provider.to_owned()).or_default());
                }
                if is_strict && !is_there && chosen.services.contains(provider) {
                    add(needed.releases.entry((provider.to_owned(), of.to_owned())).or_default());
                }
            }
        }
    }
    needed
}

/// Adds the dependents in `more` to `known`. If a release is in both maps, its set of components becomes the union.
fn join(known: &mut Dependents, more: Dependents) {
    for (name, components) in more {
        known.entry(name).or_default().extend(components);
    }
}

/// Lists releases, each with the components that it needs, as text: `heat (barbican/api), octavia (barbican/api)`.
fn list(dependents: &Dependents) -> String {
    let one = |(name, what): (&String, &BTreeSet<String>)| {
        format!("{name} ({})", what.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    dependents.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the note that osdpl added a service because releases need it.
fn added_note(service: &str, dependents: &Dependents) -> Finding {
    Finding::new(
        Level::Note,
        format!("spec.services.{service}"),
        format!("the service is part of the cloud because it is needed by {}", list(dependents)),
    )
}

/// Returns the error about a service that the spec disables although releases can't start without the service.
fn in_use_error(service: &str, dependents: &Dependents, catalog: &Catalog) -> Finding {
    let services: BTreeSet<&str> = dependents.keys().filter_map(|name| Some(catalog.release(name)?.0)).collect_set();
    let services = services.into_iter().collect::<Vec<_>>().join(", ");
    let message = format!(
        "is false, but {service} is needed by {}; remove `enabled: false`, or disable {services} as well",
        list(dependents)
    );
    refused(format!("spec.services.{service}.enabled"), message)
}

/// Returns the warning that the spec disables a service which releases use. These releases work only if the user runs a
/// replacement for the service.
fn disabled_warning(service: &str, dependents: &Dependents) -> Finding {
    let message = format!(
        "is false, but these releases need {service} or a replacement of your own: {}; remove `enabled: false` if you \
         have no replacement",
        list(dependents)
    );
    Finding::new(Level::Warning, format!("spec.services.{service}.enabled"), message)
}

/// Returns the error about a release that is not part of the cloud, although other releases need it: the catalogue
/// includes the release only with other settings of features.
fn unmet_error(service: &str, release: &str, dependents: &Dependents) -> Finding {
    let message = format!(
        "release {release}, which is needed by {}, is not part of the cloud with the present features; change the \
         feature on which {release} depends (see `osdpl catalog services {service}`), or disable the services that \
         need {release}",
        list(dependents)
    );
    refused(format!("spec.services.{service}"), message)
}

/// Returns the services that the presets and the spec enable by name. Adds an error if there are none, unless
/// `findings` already contains an error.
fn named(spec: &OpenStackDeploymentSpec, catalog: &Catalog, findings: &mut Vec<Finding>) -> BTreeSet<String> {
    let presets = spec.presets.iter().filter_map(|name| catalog.presets.get(name));
    let mut enabled: BTreeSet<String> = presets.flat_map(|preset| preset.services.iter().cloned()).collect_set();
    for (service, overrides) in spec.services.iter().filter(|(name, _)| catalog.services.contains_key(*name)) {
        match overrides.enabled {
            Some(true) => drop(enabled.insert(service.clone())),
            Some(false) => drop(enabled.remove(service)),
            None => {}
        }
    }
    if enabled.is_empty() && findings.iter().all(|finding| finding.level != Level::Error) {
        let presets = catalog.presets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        findings.push(refused(
            "spec.presets",
            format!("no service is enabled; name a preset ({presets}) or enable services"),
        ));
    }
    enabled
}

/// Returns a warning for each service whose settings in the spec have no effect: the spec does not set `enabled`, no
/// preset names the service, and no other service needs it.
fn without_effect<'a>(
    spec: &'a OpenStackDeploymentSpec,
    catalog: &'a Catalog,
    enabled: &'a BTreeSet<String>,
) -> impl Iterator<Item = Finding> + 'a {
    let unset = spec.services.iter().filter(|(name, own)| own.enabled.is_none() && !enabled.contains(*name));
    unset.filter(|(name, _)| catalog.services.contains_key(*name)).map(|(service, _)| {
        Finding::new(
            Level::Warning,
            format!("spec.services.{service}"),
            "the service is in none of the presets and no other service needs it, so these settings have no \
                  effect; set `enabled: true` to add the service",
        )
    })
}

/// Returns a warning for each service that the spec enables but that has no releases, because all its releases depend
/// on features that are off.
fn empty(spec: &OpenStackDeploymentSpec, catalog: &Catalog, chosen: &Chosen) -> Vec<Finding> {
    let named = spec.services.iter().filter(|(name, own)| own.enabled == Some(true) && chosen.services.contains(*name));
    let is_empty = |service: &str| {
        let releases = catalog.services.get(service).map(|entry| &entry.releases);
        releases.is_some_and(|all| !all.is_empty() && all.keys().all(|release| !chosen.releases.contains_key(release)))
    };
    let warning = |service: &String| {
        Finding::new(
            Level::Warning,
            format!("spec.services.{service}.enabled"),
            format!(
                "is true, but the present features exclude all releases of {service}; change the feature on which the \
                 releases depend (see `osdpl catalog services {service}`), or remove `enabled: true`"
            ),
        )
    };
    named.map(|(service, _)| service).filter(|service| is_empty(service)).map(warning).collect()
}

/// Returns the services that run outside of the cluster, each with its host, its port and the Kubernetes Service for
/// it.
///
/// Adds an error for each service that can't run outside of the cluster. The user must provide some credentials of an
/// external service in a Secret. For each of these credentials, the function adds an error if the spec names no Secret.
fn external(
    namespace: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    enabled: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, ExternalService> {
    let mut external = BTreeMap::new();
    for (service, wanted) in spec.services.iter().filter(|(name, _)| enabled.contains(*name)) {
        let (Some(wanted), Some(entry)) = (&wanted.external, catalog.services.get(service)) else { continue };
        let field = format!("spec.services.{service}.external");
        let Some(how) = &entry.external else {
            let able = catalog.services.iter().filter(|(_, entry)| entry.external.is_some());
            let able = able.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
            findings.push(refused(
                field,
                format!("service {service} can't be external; remove `external`; these can: {able}"),
            ));
            continue;
        };
        let given = &spec.services[service].credentials;
        let missing =
            entry.credentials.iter().filter(|(name, credential)| credential.external && !given.contains_key(*name));
        for (name, _) in missing {
            let message =
                format!("an external {service} needs this credential from a Secret of yours; set name and key");
            findings.push(refused(format!("spec.services.{service}.credentials.{name}"), message));
        }
        let release = entry.releases.keys().next().map_or(service.as_str(), String::as_str);
        external.insert(
            service.clone(),
            ExternalService {
                service: how.service.clone(),
                namespace: key(namespace, spec, catalog, service, release).namespace,
                host: wanted.host.clone(),
                port: wanted.port.and_then(|port| u16::try_from(port).ok()).unwrap_or(how.port),
                port_name: how.port_name.clone(),
            },
        );
    }
    external
}

#[cfg(test)]
mod tests;
