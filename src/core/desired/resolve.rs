//! Computes the values, the needs and the digests of each release that a spec selects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::layers::Stack;
use super::source::Source;
use super::variables::{common, scope};
use super::{
    Blocked, ChartInfo, Desired, DesiredRelease, ExternalService, Facts, Finding, Selection, VersionSource, claims,
    overridden_chart_version, sizes,
};
use crate::api::{OpenStackDeploymentSpec, reason};
use crate::catalog::{Catalog, Level, Release};
use crate::observed::ReleaseKey;
use crate::release::ChartIdentity;
use osdpl_values::expr::Error;
use osdpl_values::{
    Layer, Path, Values, canonical_map, digest, marked_paths, merge_layers, merge_owned_layers, secret_paths,
};

/// The version of the set of flags that osdpl passes to helm. The digests of each release include this version.
///
/// Increase the version when osdpl starts to pass other flags to helm. This changes the digest of what helm gets from
/// the catalogue (`catalog_digest`), so the upgrade of each release waits until a person approves it.
const EPOCH: &str = "1";

/// The desired state of a cloud, with the layers from which osdpl merged the values of each release.
#[derive(Debug, Default)]
pub struct ResolvedLayers {
    /// The desired state of the cloud.
    pub desired: Desired,
    /// The layers of each release for which osdpl has the data of all layers, by the release's catalogue name. Later
    /// layers override earlier ones.
    pub layers: BTreeMap<String, Vec<Layer>>,
    /// The layers of each other release, by the release's catalogue name. For these releases, a layer is missing, for
    /// example because osdpl cannot read a Secret; the list contains the rest. Later layers override earlier ones.
    pub partial: BTreeMap<String, Vec<Layer>>,
    /// The reasons why osdpl can't run helm for some releases, such as a missing Secret. If several releases have the
    /// same problem, the set contains one finding for all of them.
    pub problems: BTreeSet<Finding>,
}

/// Merges the layers of every selected release, and returns the desired state.
pub fn resolve(spec: &OpenStackDeploymentSpec, catalog: &Catalog, selection: &Selection, facts: &Facts) -> Desired {
    resolve_all(spec, catalog, selection, facts, false).desired
}

/// Returns the desired state as [`resolve`] does, and also the layers, with which the caller can show which layer sets
/// a value.
pub fn resolve_with_layers(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    facts: &Facts,
) -> ResolvedLayers {
    resolve_all(spec, catalog, selection, facts, true)
}

fn resolve_all(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    facts: &Facts,
    keeps_layers: bool,
) -> ResolvedLayers {
    let mut result = ResolvedLayers::default();
    result.desired.object_settings = object_settings(spec, selection);
    let findings = &mut result.desired.findings;
    findings.clone_from(&selection.findings);
    findings.extend(claims::finding(spec, catalog, selection, &facts.claim_classes));
    let common = common(catalog, selection, facts);
    findings.extend(super::select::baseline_findings(spec, catalog, selection, &common));
    let factless = facts.without_job_facts();
    let factless = factless.as_ref().map(|facts| (facts, self::common(catalog, selection, facts)));
    let passwords = &super::passwords::find_passwords(&selection.features);
    for (name, key) in &selection.releases {
        let Some((service, release)) = catalog.release(name) else { continue };
        let scope = scope(&common, facts, name);
        let source = Source { spec, catalog, selection, facts, service, name, release, passwords, scope: &scope };
        let mut merged = source.merged(key, keeps_layers);
        merged.release.inputs_without_facts = factless.as_ref().map(|(facts, common)| {
            let scope = self::scope(common, facts, name);
            Source { facts, scope: &scope, ..source }.merged(key, false).release.inputs
        });
        findings.extend(merged.findings);
        result.desired.releases.insert(name.clone(), merged.release);
        let kept = if merged.is_complete { &mut result.layers } else { &mut result.partial };
        kept.insert(name.clone(), merged.layers);
        result.problems.extend(merged.problems);
    }
    let unused = super::images::unused_digests(&spec.images, &result.desired, facts);
    result.desired.findings.extend(unused);
    result
}

/// Returns the settings in the spec on which objects outside of helm releases depend; see [`Desired::object_settings`].
fn object_settings(spec: &OpenStackDeploymentSpec, selection: &Selection) -> Vec<String> {
    let roles = spec.nodes.roles.iter().map(|(name, role)| format!("role {name}: {}", json!(role)));
    let external = selection.external.iter().map(|(name, external)| {
        let ExternalService { service, namespace, host, port, port_name } = external;
        format!("external {name}: {namespace}/{service} {host}:{port} {port_name}")
    });
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph");
    let ceph = storage.map(|storage| format!("ceph: {}", storage["ceph"]));
    roles.chain(external).chain(ceph).collect()
}

/// The result of merging the layers of a release.
struct Merged {
    /// The available layers of the release; empty if all layers are available and the caller did not ask for the
    /// layers.
    layers: Vec<Layer>,
    release: DesiredRelease,
    findings: Vec<Finding>,
    /// The reasons why osdpl can't run helm for the release; empty if it can run helm.
    problems: Vec<Finding>,
    /// Whether all layers are available. If a layer is not available, the release has no values.
    is_complete: bool,
}

/// The paths of secrets in the values of a release.
struct SecretPaths {
    /// The paths at which the merged values contain secrets.
    secret: Vec<Path>,
    /// All paths that any layer marks as secret, even if a later layer sets the path to a value that is no secret.
    marked: Vec<Path>,
}

impl Source<'_> {
    /// Merges all layers of the release. The last layer contains the values from `spec.nodes.overrides`.
    fn merged(&self, key: &ReleaseKey, keeps_layers: bool) -> Merged {
        let mut findings: Vec<Finding> = overridden_chart_version(self.spec, self.catalog, self.name)
            .and_then(|version| self.unchecked_keys(version))
            .into_iter()
            .collect();
        let Stack { mut layers, mut problems, is_complete } = self.layers();
        findings.extend(sizes::findings(self, &layers));
        let below = || if is_complete { merge_layers(&layers) } else { Values::new() };
        layers.extend(super::per_node::layer(self.spec, self.catalog, self.name, self.scope, below, &mut findings));
        let paths = SecretPaths { secret: secret_paths(&layers), marked: marked_paths(&layers) };
        let values = match (is_complete, keeps_layers) {
            (true, true) => merge_layers(&layers),
            (true, false) => merge_owned_layers(std::mem::take(&mut layers)),
            (false, _) => Values::new(),
        };
        let release = self.desired(key.clone(), values, paths, &mut problems, &mut findings);
        Merged { layers, release, findings, problems, is_complete }
    }

    /// Returns a note that osdpl does not check the keys of the release's values; `None` if osdpl does not know the
    /// keys of the chart in any version.
    ///
    /// `version` is the chart version that the user chose instead of the version in the chart lock. The catalogue
    /// contains the keys of the locked version only.
    fn unchecked_keys(&self, version: &str) -> Option<Finding> {
        let Release { chart, .. } = self.release;
        let locked = &self.catalog.lock.get(chart).filter(|_| self.catalog.keys().contains(chart))?.version;
        let message = format!(
            "osdpl does not check the keys of the release's values, because it knows the keys of version {locked} of chart {chart}, but not of version {version}; check the output of `osdpl render --manifests`"
        );
        let field = format!("spec.services.{}.releases.{}.version", self.service, self.name);
        Some(Finding::new(Level::Note, field, message))
    }

    /// Builds the desired release from its merged values.
    fn desired(
        &self,
        key: ReleaseKey,
        values: Values,
        paths: SecretPaths,
        problems: &mut Vec<Finding>,
        findings: &mut Vec<Finding>,
    ) -> DesiredRelease {
        let Self { spec, catalog, facts, service, name, release, .. } = *self;
        let own = self.own();
        let instances = self.instance_digest(problems);
        let chart = facts.charts.get(name);
        let fact = chart.and_then(|chart| chart.as_ref().ok());
        DesiredRelease {
            inputs: self.inputs(&key, &values, fact),
            inputs_without_facts: None,
            chart: release.chart.clone(),
            service: service.to_owned(),
            group: catalog.services[service].group,
            needs: self.needs(findings),
            waits_for: self.waits_for(findings),
            components: release.components.clone(),
            tests: release.tests.clone(),
            jobs: super::order::jobs(&values, fact),
            plain_jobs: release.plain_jobs.clone(),
            timeout: release.timeout,
            server_side: release.server_side,
            version: fact.map(|chart| chart.version.clone()),
            chart_digest: fact.map(|chart| chart.digest.clone()).filter(|digest| !digest.is_empty()),
            chart_identity: fact.map(|chart| self.chart_identity(chart)),
            fingerprint: fact.map(|chart| chart.fingerprint.clone()).filter(|fingerprint| !fingerprint.is_empty()),
            version_source: own
                .and_then(|own| own.version.as_ref())
                .map_or(VersionSource::Catalog, |_| VersionSource::Spec),
            paused: own.is_some_and(|own| own.paused),
            managed: own.and_then(|own| own.managed).unwrap_or(true),
            drift: own.and_then(|own| own.drift).or(spec.drift).unwrap_or_default(),
            blocked: self.blocked(problems),
            images: super::images::digest(&values, fact),
            floating_images: super::images::floating(&spec.images, release, name, &values, fact),
            instances,
            hooks: self.hook_digest(&key, &values, fact),
            split: super::per_node::split(release, &values),
            baseline: facts.baselines.get(name).copied().unwrap_or(super::BASELINE),
            catalog: self.catalog_digest(),
            key,
            secret: paths.secret,
            marked: paths.marked,
            values,
        }
    }

    /// Returns the reason why osdpl can't run helm for the release: a refused name or namespace, missing or invalid
    /// data for the values, or a missing chart; `None` if osdpl can run helm.
    fn blocked(&self, problems: &[Finding]) -> Option<Blocked> {
        let refused = self.facts.refused.get(self.name).cloned();
        let missing = || (!problems.is_empty()).then(|| missing_inputs(problems));
        refused.or_else(missing).or_else(|| self.facts.charts.get(self.name)?.as_ref().err().cloned())
    }

    /// Computes the digest of everything that osdpl passes to helm: chart, values, name and flags.
    fn inputs(&self, key: &ReleaseKey, values: &Values, chart: Option<&ChartInfo>) -> String {
        let Release { timeout, server_side, .. } = self.release;
        let identity = format!("{key} {timeout} {server_side} {}", self.facts.helm_major);
        digest([chart.map_or("", |chart| chart.digest.as_str()), &canonical_map(values), &identity, EPOCH])
    }

    /// Computes the digest of the inputs that the release's hooks can read: the chart, the name, the flags, and the
    /// values except for those that no hook reads. osdpl can skip the hooks of an upgrade that does not change this
    /// digest.
    ///
    /// Returns `None` if the catalogue has no list of the values that no hook of this release reads.
    fn hook_digest(&self, key: &ReleaseKey, values: &Values, chart: Option<&ChartInfo>) -> Option<String> {
        let unread = self.catalog.unread_by_hooks.get(self.name)?;
        let mut read = values.clone();
        for path in unread {
            osdpl_values::remove(&mut read, path);
        }
        let mut digest = self.inputs(key, &read, chart);
        digest.truncate(16);
        Some(digest)
    }

    /// Returns the identity of the release's chart: the chart's version, the digest that the spec requests, and the
    /// digest of the chart's content.
    fn chart_identity(&self, chart: &ChartInfo) -> ChartIdentity {
        let requested = self.own().and_then(|own| own.digest.as_deref());
        ChartIdentity::new(&chart.version, requested, &chart.digest)
    }

    /// Returns the digest of the settings on which running OpenStack instances depend; `None` if the catalogue names no
    /// such settings.
    ///
    /// If the catalogue's expression for the digest fails, adds an error to `problems`, so that osdpl does not run
    /// helm: without the digest, the upgrade would not wait for a person's approval.
    fn instance_digest(&self, problems: &mut Vec<Finding>) -> Option<String> {
        let expression = self.release.instance_digest.as_ref()?;
        let digest = expression.evaluate(self.scope).and_then(|digest| match digest {
            Value::String(digest) => Ok(digest),
            _ => Err(Error::Type { expression: expression.source().to_owned(), expected: "a string" }),
        });
        let report = |error| {
            let location = self.catalog.service_location(self.service);
            problems.push(self.problem(format!("{location} releases.{}.instanceDigest", self.name), &error));
        };
        digest.map_err(report).ok()
    }

    /// Computes the digest of everything in the built-in catalogue on which the release's values and helm's flags
    /// depend.
    ///
    /// The digest also depends on the major version of helm. It depends neither on the spec nor on files that a user
    /// added to the catalogue. The digest leaves out the chart, because a [`ChartIdentity`] identifies the chart.
    fn catalog_digest(&self) -> String {
        let Release { timeout, server_side, .. } = self.release;
        let mut parts = self.catalog.release_digest(self.name);
        parts.add(&format!("{} {timeout} {server_side} {EPOCH}", self.facts.helm_major));
        let mut text = parts.finish();
        text.truncate(16);
        text
    }
}

/// Returns the reason why osdpl can't run helm for a release whose layers have `problems`, such as a missing Secret or
/// an invalid path in `unset`. The reason lists all problems.
fn missing_inputs(problems: &[Finding]) -> Blocked {
    let mut messages: Vec<String> = Vec::new();
    for problem in problems.iter().map(ToString::to_string) {
        // Several values may need the same missing data, such as one Secret. So list each problem only once.
        if !messages.contains(&problem) {
            messages.push(problem);
        }
    }
    let message = messages.join("; ");
    Blocked { reason: reason::INPUTS.into(), message }
}

/// Returns a copy of the values for display: `<redacted>` replaces the value at each path in `secret`. Nulls stay.
pub fn redact(values: &Values, secret: &[Path]) -> Values {
    let mut shown = values.clone();
    for path in secret {
        if osdpl_values::get(&shown, path).is_some_and(|value| !value.is_null()) {
            osdpl_values::set(&mut shown, path, "<redacted>".into());
        }
    }
    shown
}
