//! Determines the services, features and releases that a spec selects, and runs the checks that need no facts about the
//! cluster.

use std::collections::BTreeMap;

use super::certificates::certificates;
use super::conditions::{holds, refused};
use super::services::{self, Chosen};
use super::{Finding, Selection, candidates, features, images, names, per_node, roles};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Check, Level};
use crate::observed::ReleaseKey;
use osdpl_values::Values;
use osdpl_values::expr::{Scope, Template};

/// Returns the services, features and releases that a spec selects, with findings about all problems of the spec.
///
/// If the spec contains an unknown name, the user meant a known name, but osdpl can't know which one. So osdpl reports
/// the unknown name. It reports any other problem only if the spec would have this problem with each known name that
/// the user may have meant. If there are too many such names, see the module `candidates`.
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
    findings.append(&mut selection.findings);
    selection.findings = findings;
    if selection.is_refused() {
        selection.certificates.clear();
    }
    selection
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
    let is_misshapen = |check: &Check| misshapen.iter().any(|feature| uses(check, feature));
    let all = all.filter(|(_, check)| !reads_baseline(check) && !is_misshapen(check));
    run_checks(all, catalog, scope, &mut selection.findings);
    if !selection.is_refused() {
        selection.certificates = certificates(catalog, scope, &mut selection.findings);
    }
}

/// Runs the checks that read the baseline of a release (see [`super::BASELINE`]), and returns their findings. Runs no
/// check if osdpl refuses the spec.
///
/// These checks run after all others: the baselines of installed releases are facts about the cluster, and the other
/// checks need no facts.
pub(super) fn baseline_findings(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    scope: &Scope,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !selection.is_refused() {
        let checks = catalog_checks(spec, catalog).filter(|(_, check)| reads_baseline(check));
        run_checks(checks, catalog, scope, &mut findings);
    }
    findings
}

/// Returns the checks of the spec's presets and of all features, each with the path of its file.
fn catalog_checks<'a>(
    spec: &'a OpenStackDeploymentSpec,
    catalog: &'a Catalog,
) -> impl Iterator<Item = (&'a str, &'a Check)> + use<'a> {
    let presets = spec.presets.iter().filter_map(move |name| catalog.presets.get(name));
    let presets = presets.map(|preset| (preset.file.as_str(), &preset.checks));
    let features = catalog.features.values().map(|feature| (feature.file.as_str(), &feature.checks));
    presets.chain(features).flat_map(|(file, checks)| checks.iter().map(move |check| (file, check)))
}

fn reads_baseline(check: &Check) -> bool {
    check.when.source().contains(".baseline")
}

fn run_checks<'a>(
    checks: impl Iterator<Item = (&'a str, &'a Check)>,
    catalog: &Catalog,
    scope: &Scope,
    findings: &mut Vec<Finding>,
) {
    for (file, check) in checks {
        if holds(Some(&check.when), scope, catalog.file_location(file), &check.field, findings) {
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
