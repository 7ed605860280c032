//! From a selection and facts to each release's values, needs and digests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::layers::Source;
use super::{Blocked, Desired, DesiredRelease, Facts, Finding, Provider, Selection, claims, overrides};
use crate::api::{OpenStackDeploymentSpec, reason};
use crate::catalog::{Catalog, Component, Release};
use crate::ceph::Declared;
use crate::expr::Scope;
use crate::values::{Layer, Path, Values, canonical, digest, fold};

/// Bumped when the operator itself gives helm something else for the same values: such a change waits for approval as well.
const EPOCH: &str = "1";

/// Merges the layers of every selected release.
pub fn resolve(spec: &OpenStackDeploymentSpec, catalog: &Catalog, selection: &Selection, facts: &Facts) -> Desired {
    let mut desired = Desired { releases: BTreeMap::new(), findings: selection.findings.clone() };
    desired.findings.extend(claims::finding(spec, catalog, selection, &facts.claim_classes));
    let common = common(catalog, selection, facts);
    for name in selection.releases.keys() {
        let scope = scope(&common, selection, facts, name);
        let release = resolve_release(name, spec, catalog, selection, facts, &scope, &mut desired.findings);
        desired.releases.extend(release.map(|release| (name.clone(), release)));
    }
    let idle = super::images::idle(&spec.images, &desired, facts);
    desired.findings.extend(idle);
    desired
}

/// Merges the layers of one release; `None` when the catalogue does not know it.
fn resolve_release(
    name: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    facts: &Facts,
    scope: &Scope<'_>,
    findings: &mut Vec<Finding>,
) -> Option<DesiredRelease> {
    let (service, release) = catalog.release(name)?;
    let own = overrides(spec, service, name);
    let secrets = &selection.secrets;
    let source = Source { spec, catalog, facts, service, name, release, scope, secrets };
    let (layers, blocked) = layered(&source, findings);
    let values = fold(&layers);
    let secret: Vec<Path> = layers.into_iter().flat_map(|layer| layer.secret).collect();
    let chart = facts.charts.get(name);
    let fact = chart.and_then(|chart| chart.as_ref().ok());
    let key = selection.releases.get(name)?.clone();
    let wanted = own.and_then(|own| own.version.clone());
    let catalog_digest = catalog_digest(name, release, catalog, facts, wanted.is_none().then_some(fact).flatten());
    let identity = format!("{key} {} {} {}", release.timeout, release.server_side, facts.helm_major);
    let inputs = digest([
        fact.map_or("", |chart| chart.digest.as_str()),
        &canonical(&Value::Object(values.clone())),
        &identity,
        EPOCH,
    ]);
    Some(DesiredRelease {
        key,
        chart: release.chart.clone(),
        service: service.to_owned(),
        group: catalog.services.get(service)?.group,
        needs: needs(name, release, catalog, selection, scope, findings),
        awaits: awaits(name, release, catalog, selection, scope, findings),
        components: release.components.clone(),
        tests: release.tests.clone(),
        jobs: super::order::jobs(&values, fact),
        plain_jobs: release.plain_jobs.clone(),
        timeout: release.timeout,
        server_side: release.server_side,
        version: fact.map(|chart| chart.version.clone()),
        chart_digest: fact.map(|chart| chart.digest.clone()),
        imprint: fact.map(|chart| chart.imprint.clone()).filter(|imprint| !imprint.is_empty()),
        paused: own.is_some_and(|own| own.paused),
        managed: own.and_then(|own| own.managed).unwrap_or(true),
        drift: own.and_then(|own| own.drift).or(spec.drift).unwrap_or_default(),
        blocked: facts
            .refused
            .get(name)
            .cloned()
            .or(blocked)
            .or_else(|| chart.and_then(|chart| chart.as_ref().err().cloned())),
        inputs,
        images: super::images::digest(&values, fact),
        guests: guests(release, scope),
        split: super::per_node::split(release, &values),
        catalog: catalog_digest,
        values,
        secret,
    })
}

/// All layers, the per-node one last, or what they lack.
fn layered(source: &Source<'_>, findings: &mut Vec<Finding>) -> (Vec<Layer>, Option<Blocked>) {
    let Source { spec, catalog, service, name, release, scope, .. } = *source;
    let (mut layers, blocked) = match source.layers() {
        Ok(layers) => (layers, None),
        Err(problems) => (Vec::new(), Some(inputs(&problems))),
    };
    // Another version of the chart may know other keys.
    if overrides(spec, service, name).is_none_or(|own| own.version.is_none()) {
        super::unknown::tell(&layers, &release.chart, catalog, findings);
    }
    let per_node = super::per_node::layer(spec, catalog, name, scope, &fold(&layers), findings);
    layers.extend(per_node);
    (layers, blocked)
}

/// What keeps the expression from its answer keeps the values from theirs, and those say so.
fn guests(release: &Release, scope: &Scope<'_>) -> Option<String> {
    let answer = release.guests.as_ref()?.evaluate(scope).ok()?;
    answer.as_str().map(str::to_owned)
}

fn inputs(problems: &[Finding]) -> Blocked {
    let mut said: Vec<String> = Vec::new();
    for problem in problems.iter().map(ToString::to_string) {
        // What several values ask for is missing once.
        if !said.contains(&problem) {
            said.push(problem);
        }
    }
    let message = said.join("; ");
    Blocked { reason: reason::INPUTS.into(), message }
}

/// What the expressions of every release see.
pub(super) fn common(catalog: &Catalog, selection: &Selection, facts: &Facts) -> Scope<'static> {
    let mut variables = selection.variables.clone();
    variables.insert("credentials".into(), json!(facts.credentials));
    let ceph = facts.ceph.as_ref().map(Declared::variables).unwrap_or_default();
    variables.insert("ceph".into(), ceph.into());
    variables.insert("facts".into(), super::written::variable(catalog, facts).into());
    let read =
        |(reference, text): (&(String, String), &Result<String, _>)| Some((reference.clone(), text.clone().ok()?));
    Scope::with_secrets(&variables, facts.secrets.iter().filter_map(read).collect())
}

/// What those of one release see.
pub(super) fn scope<'a>(common: &'a Scope<'_>, selection: &Selection, facts: &Facts, name: &str) -> Scope<'a> {
    let release = selection.variables.get("releases").and_then(|releases| releases.get(name)).cloned();
    let mut variables = Values::from_iter([("release".to_owned(), release.unwrap_or_else(|| json!({})))]);
    if let Some((class, spec)) = claims::kept(&facts.claim_classes, name).zip(selection.variables.get("spec")) {
        let mut spec = spec.clone();
        spec["storageClass"] = json!(class);
        variables.insert("spec".into(), spec);
    }
    common.inner(&variables)
}

fn awaits(
    name: &str,
    release: &Release,
    catalog: &Catalog,
    selection: &Selection,
    scope: &Scope<'_>,
    findings: &mut Vec<Finding>,
) -> BTreeSet<String> {
    let field = format!("spec.services (release {name})");
    let awaits = release.awaits.iter().filter(|need| super::select::holds(need.when.as_ref(), scope, &field, findings));
    let providers = awaits.filter_map(|need| Some(catalog.provider(&need.component)?.1));
    providers.filter(|provider| selection.releases.contains_key(*provider)).map(str::to_owned).collect()
}

fn needs(
    name: &str,
    release: &Release,
    catalog: &Catalog,
    selection: &Selection,
    scope: &Scope<'_>,
    findings: &mut Vec<Finding>,
) -> BTreeMap<Component, Provider> {
    let mut needs = BTreeMap::new();
    for need in &release.needs {
        let field = format!("spec.services (release {name})");
        if !super::select::holds(need.when.as_ref(), scope, &field, findings) {
            continue;
        }
        let Some((service, provider)) = catalog.provider(&need.component) else { continue };
        // What is needed and not there was refused when the services were chosen.
        if selection.external.contains_key(service) {
            needs.insert(need.component.clone(), Provider::External(service.to_owned()));
        } else if selection.releases.contains_key(provider) {
            needs.insert(need.component.clone(), Provider::Release(provider.to_owned()));
        }
    }
    needs
}

/// The digest of everything the catalogue could say about a release, whatever the spec: it changes when we change, never when the spec does.
/// What someone has added to the catalogue is their word like the spec.
fn catalog_digest(
    name: &str,
    release: &Release,
    catalog: &Catalog,
    facts: &Facts,
    chart: Option<&super::ChartFact>,
) -> String {
    let mut said = catalog.said(name);
    said.add(&format!("{} {} {} {EPOCH}", facts.helm_major, release.timeout, release.server_side));
    if let Some(chart) = chart {
        said.add(&chart.digest);
    }
    let mut text = said.finish();
    text.truncate(16);
    text
}

/// The values with everything secret replaced, for people.
pub fn redacted(values: &Values, secret: &[Path]) -> Values {
    let mut shown = values.clone();
    for path in secret {
        if crate::values::get(&shown, path).is_some_and(|value| !value.is_null()) {
            crate::values::set(&mut shown, path, "<redacted>".into());
        }
    }
    shown
}
