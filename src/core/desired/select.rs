//! Determines the services, features and releases that a spec selects, and runs the checks that need no facts about the
//! cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::certificates::certificates;
use super::services::{self, Chosen};
use super::{
    BASELINE, ExternalService, Finding, Selection, candidates, features, images, names, per_node, release_overrides,
    roles,
};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Check, Level};
use crate::observed::ReleaseKey;
use osdpl_values::Values;
use osdpl_values::expr::{Expression, Scope, Template};

/// Returns the services, features and releases that a spec selects, with findings about all problems of the spec.
///
/// If the spec contains an unknown name, the user meant a known name, but osdpl can't know which one. So osdpl reports
/// the unknown name. It reports any other problem only if the spec would have this problem with each known name that
/// the user may have meant.
pub fn select(name: &str, namespace: &str, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Selection {
    let mut selection = read(name, namespace, spec, catalog);
    let mut findings = names::check_names(spec, catalog);
    if let Some(candidates) = candidates::candidates(spec, catalog) {
        let mut selections = candidates.into_iter().map(|candidate| read(name, namespace, &candidate, catalog));
        // If the OpenStack release in the spec is unknown, the catalogue's expressions lack the variables of this
        // release, and fail with errors that do not help the user. So use the findings about the first candidate: the
        // same spec with a known OpenStack release.
        if !catalog.openstack.contains_key(&spec.openstack_release)
            && let Some(first) = selections.next()
        {
            selection.findings = first.findings;
        }
        for other in selections {
            selection.findings.retain(|finding| other.findings.contains(finding));
        }
    } else {
        selection.findings.clear();
        fields(spec, catalog, &mut selection.findings);
    }
    if findings.iter().any(|finding| finding.level == Level::Error) {
        selection.certificates.clear();
    }
    findings.append(&mut selection.findings);
    Selection { findings, ..selection }
}

/// Returns the services, features and releases that a spec selects, with findings about all problems of the spec except
/// for unknown names, which [`select`] reports.
fn read(name: &str, namespace: &str, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Selection {
    let mut findings = Vec::new();
    let features = fields(spec, catalog, &mut findings);
    let Chosen { services, external, releases, scope, findings: found, notes, refusals } =
        services::chosen(namespace, spec, catalog, &features, &mut findings);
    findings.extend(found);
    let mut selection = Selection {
        name: name.into(),
        namespace: namespace.into(),
        secrets: catalog.secret_references(&features),
        certificates: Vec::new(),
        features,
        services,
        external,
        releases,
        findings,
        scope,
    };
    duplicates(&mut selection);
    per_node::check(spec, catalog, &selection.releases, &mut selection.findings);
    checks(spec, catalog, &mut selection);
    // If a need is unmet (`refusals`), a check of the catalogue may report the same problem with a better remedy. So
    // list the findings of the checks first.
    selection.findings.extend(refusals);
    selection.findings.extend(notes);
    selection
}

/// Checks the node roles, the names of container images and the features of a spec, and returns the merged features.
fn fields(spec: &OpenStackDeploymentSpec, catalog: &Catalog, findings: &mut Vec<Finding>) -> Values {
    roles::check(spec, catalog, findings);
    findings.extend(images::check_names(&spec.images));
    features::merge_features(spec, catalog, findings)
}

pub(super) fn refused(field: impl Into<String>, message: impl Into<String>) -> Finding {
    Finding::new(Level::Error, field, message)
}

/// Returns the namespace and name of a helm release as the spec sets them. The defaults are [`home_namespace`] and the
/// release's name in the catalogue.
pub(super) fn key(
    namespace: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    service: &str,
    release: &str,
) -> ReleaseKey {
    let overrides = release_overrides(spec, service, release);
    let named = |field: Option<&String>, usual: &str| field.cloned().unwrap_or_else(|| usual.to_owned());
    ReleaseKey {
        namespace: named(
            overrides.and_then(|o| o.namespace.as_ref()),
            home_namespace(namespace, catalog, service, release),
        ),
        name: named(overrides.and_then(|o| o.name.as_ref()), release),
    }
}

/// Returns the namespace of a release if the spec sets none: the catalogue's namespace for the release, or else
/// `namespace`, the namespace of the OpenStackDeployment.
pub(super) fn home_namespace<'a>(namespace: &'a str, catalog: &'a Catalog, service: &str, release: &str) -> &'a str {
    let entry = catalog.services.get(service).and_then(|service| service.releases.get(release));
    entry.and_then(|entry| entry.namespace.as_deref()).unwrap_or(namespace)
}

/// Returns the variables that the catalogue's CEL expressions can read, without credentials and other facts.
///
/// The variables `services` and `releases` also contain disabled services and their releases, so that expressions can
/// ask whether a service or release is enabled.
pub(super) fn variables(
    namespace: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    features: &Values,
    enabled: &BTreeSet<String>,
    external: &BTreeMap<String, ExternalService>,
) -> Values {
    let mut services = Map::new();
    let mut releases = Map::new();
    for (service, entry) in &catalog.services {
        let outside = external.get(service).map(|e| json!({"host": e.host, "port": e.port, "service": e.service}));
        services.insert(service.clone(), json!({"enabled": enabled.contains(service), "external": outside}));
        for release in entry.releases.keys() {
            let key = key(namespace, spec, catalog, service, release);
            // If the release is installed, the module `resolve` later replaces this baseline by the one in the
            // release's record.
            let entry = json!({"name": key.name, "namespace": key.namespace, "enabled": false, "baseline": BASELINE});
            releases.insert(release.clone(), entry);
        }
    }
    let openstack = catalog.openstack.get(&spec.openstack_release).map(|release| release.variables.clone());
    let spec = json!({
        "namespace": namespace,
        "openstackRelease": spec.openstack_release,
        "presets": spec.presets,
        "region": spec.region.as_deref().unwrap_or("RegionOne"),
        "publicDomain": spec.public_domain.as_deref().unwrap_or_default(),
        "storageClass": spec.storage_class.as_deref().unwrap_or("general"),
        "pullPolicy": spec.images.pull_policy,
        "roles": spec.nodes.roles.keys().collect::<Vec<_>>(),
        "mirrors": spec.images.mirrors.keys().collect::<Vec<_>>(),
    });
    let Value::Object(variables) = json!({
        "spec": spec, "features": features, "openstack": openstack, "services": services, "releases": releases,
        // The module `resolve` later replaces this empty map, because the operator must first read Ceph's settings from
        // the cluster.
        "ceph": {},
    }) else {
        return Map::new();
    };
    variables
}

/// Whether a location is in a catalogue file that a user added. If so, the user can correct errors at this location.
pub(super) fn is_added(location: &str) -> bool {
    location.starts_with("ConfigMap ")
}

/// Whether a condition of the catalogue holds. A missing condition always holds.
///
/// If osdpl can't evaluate the condition, the function returns false, and adds to `findings` an error about `field`.
pub(super) fn holds(
    when: Option<&Expression>,
    scope: &Scope,
    field: &(impl ToString + ?Sized),
    findings: &mut Vec<Finding>,
) -> bool {
    when.is_none_or(|when| {
        when.evaluate_condition(scope).unwrap_or_else(|error| {
            let field = field.to_string();
            let mistake = if is_added(&field) { "correct the expression" } else { "report this bug of the catalogue" };
            findings.push(refused(
                field,
                format!("{error}; set the field of the spec that the expression reads; if it is set, {mistake}"),
            ));
            false
        })
    })
}

/// Adds an error if the spec gives two releases of the catalogue the same namespace and the same helm release name.
fn duplicates(selection: &mut Selection) {
    let mut releases_by_key: BTreeMap<&ReleaseKey, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for (release, key) in &selection.releases {
        if let Some(other) = releases_by_key.insert(key, release) {
            found.push(refused(
                format!("spec.services (release {release})"),
                format!("releases {other} and {release} would both be helm release {key}; rename one of the two"),
            ));
        }
    }
    selection.findings.extend(found);
}

/// Runs the checks that the catalogue has for presets and features, and reports presets that exclude each other. If
/// there is no error, also determines the Secrets from which the services read their TLS certificates.
fn checks(spec: &OpenStackDeploymentSpec, catalog: &Catalog, selection: &mut Selection) {
    let scope = &selection.scope;
    let all = catalog_checks(spec, catalog);
    let misshapen = misshapen(spec, &selection.findings);
    selection.findings.extend(find_excluded_presets(&spec.presets, catalog).into_iter().map(
        |(later, earlier, why)| {
            let [one, other] = [later, earlier].map(|index| &spec.presets[index]);
            let message = format!("`{one}` can't be combined with `{other}` (spec.presets[{earlier}]): {why}");
            refused(format!("spec.presets[{later}]"), message)
        },
    ));
    // If the settings of a feature in the spec are invalid, skip the checks that read this feature. Such a check would
    // report a second, misleading error.
    let uses = |check: &Check, feature: &String| {
        let mut behind = check.when.source().split(feature.as_str()).skip(1);
        behind.any(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric()))
    };
    let applies = |check: &&Check| !reads_baseline(check) && !misshapen.iter().any(|feature| uses(check, feature));
    run_checks(all.filter(applies), scope, &mut selection.findings);
    if !selection.is_refused() {
        selection.certificates = certificates(catalog, scope, &mut selection.findings);
    }
}

/// Runs the checks that read the baseline of a release, and returns their findings. The baselines of installed releases
/// are facts about the cluster, so osdpl runs these checks later than all others.
pub(super) fn baseline_findings(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    scope: &Scope,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !selection.is_refused() {
        run_checks(catalog_checks(spec, catalog).filter(|check| reads_baseline(check)), scope, &mut findings);
    }
    findings
}

/// Returns the checks of the spec's presets and of all features.
fn catalog_checks<'a>(
    spec: &'a OpenStackDeploymentSpec,
    catalog: &'a Catalog,
) -> impl Iterator<Item = &'a Check> + use<'a> {
    let presets = spec.presets.iter().filter_map(move |name| catalog.presets.get(name));
    presets.flat_map(|preset| &preset.checks).chain(catalog.features.values().flat_map(|feature| &feature.checks))
}

fn reads_baseline(check: &Check) -> bool {
    check.when.source().contains(".baseline")
}

fn run_checks<'a>(checks: impl Iterator<Item = &'a Check>, scope: &Scope, findings: &mut Vec<Finding>) {
    for check in checks {
        if holds(Some(&check.when), scope, &check.field, findings) {
            findings.push(Finding::new(check.level, check.field.clone(), interpolate(&check.message, scope)));
        }
    }
}

/// Returns the names of the features whose settings in the spec are invalid, as CEL expressions write them:
/// `features.storage`.
fn misshapen(spec: &OpenStackDeploymentSpec, findings: &[Finding]) -> Vec<String> {
    let is_of = |finding: &Finding, field: &str| {
        let below = finding.location.field.strip_prefix(field);
        finding.level == Level::Error && below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
    };
    let named = spec.features.keys().map(|name| format!("features.{name}"));
    named.filter(|name| findings.iter().any(|finding| is_of(finding, &format!("spec.{name}")))).collect()
}

/// Returns each pair of presets that exclude each other: the index of the later preset, the index of the earlier one,
/// and the reason with the remedy.
pub fn find_excluded_presets<'a>(presets: &[String], catalog: &'a Catalog) -> Vec<(usize, usize, &'a str)> {
    let excludes = |one: &String, other: &String| catalog.presets.get(one)?.excludes.get(other).map(String::as_str);
    let earlier = |later: usize| (0..later).map(move |earlier| (later, earlier));
    let found = (0..presets.len()).flat_map(earlier).filter_map(|(later, earlier)| {
        let (one, other) = (&presets[later], &presets[earlier]);
        Some((later, earlier, excludes(one, other).or_else(|| excludes(other, one))?))
    });
    found.collect()
}

/// Evaluates the expressions in the message of a check; returns the message unchanged if an expression fails.
fn interpolate(message: &str, scope: &Scope) -> String {
    let whole = Values::from_iter([("message".to_owned(), message.into())]);
    let evaluated = Template::compile(whole).and_then(|template| template.evaluate(scope));
    let text = evaluated.ok().and_then(|(values, _)| Some(values.get("message")?.as_str()?.to_owned()));
    text.unwrap_or_else(|| message.to_owned())
}
