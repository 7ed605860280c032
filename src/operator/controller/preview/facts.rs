//! The facts that a plan needs from outside, without making or fetching anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Notify;

use super::leaving::is_leaving;
use super::rights;
use crate::cluster::{Cluster, CredentialQuestion, Credentials, Error, Inputs, SecretEdits};
use crate::controller::certificates::Certificates;
use crate::controller::named::{feature_secrets, references, values_from, written};
use crate::controller::site::looked;
use crate::controller::{ChartSource, ceph};
use crate::tasks::Observation;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::ceph::DeclaredCeph;
use osdpl_core::desired::{Blocked, ChartInfo, Facts, Finding, RejectedMoves, Selection, collect_claim_classes};
use osdpl_core::observed::{Claim, Observed};
use osdpl_lint::rule;

/// What the facts are for.
pub struct Question<'a> {
    pub spec: &'a OpenStackDeploymentSpec,
    /// As it stands in the cluster.
    pub live: Option<&'a OpenStackDeployment>,
    pub catalog: &'a Catalog,
    pub selection: &'a Selection,
    pub observed: &'a Observed,
    /// The claims of releases.
    pub claims: &'a [Claim],
}

/// The facts.
#[derive(Default)]
pub struct Found {
    pub facts: Facts,
    /// The releases of which something stays a guess, so that their digests are not the operator's.
    pub guessed: BTreeSet<String>,
    /// What is wrong with certificates, and with images that are named outright.
    pub findings: Vec<Finding>,
}

/// What is said of images in the objects that a spec names, where it moves from one OpenStack release, which is deployed, to another.
async fn pinned(
    cluster: &Cluster,
    deployment: &OpenStackDeployment,
    (spec, catalog, selection): (&OpenStackDeploymentSpec, &Catalog, &Selection),
) -> Vec<Finding> {
    let Some(deployed) = rule::previous_release(deployment).filter(|_| !is_leaving(deployment)) else {
        return Vec::new();
    };
    let inputs = Inputs::new(cluster.client().clone(), Arc::new(Notify::new()));
    inputs.watch(&references(spec, catalog, selection));
    inputs.settled().await;
    let held = values_from(&inputs, spec, &selection.namespace);
    rule::pinned_in_values_from(deployed, spec, &held)
}

impl Question<'_> {
    /// The facts; none of a resource that is let go, or refused.
    pub async fn found(
        &self,
        deployment: &OpenStackDeployment,
        (cluster, seen, anchored): (&Cluster, &Observation, Option<&RejectedMoves>),
        charts: Option<&ChartSource>,
        unknown: &mut Vec<String>,
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        if !is_leaving(deployment) && !self.selection.is_refused() {
            found = self.facts(cluster, charts, unknown).await?;
            found.facts.site = looked(cluster, (self.spec, self.catalog), seen, unknown).await;
            found.facts.refused = anchored.map(|anchored| anchored.refused.clone()).unwrap_or_default();
        }
        found.findings.extend(pinned(cluster, deployment, (self.spec, self.catalog, self.selection)).await);
        Ok(found)
    }

    async fn facts(
        &self,
        cluster: &Cluster,
        charts: Option<&ChartSource>,
        unknown: &mut Vec<String>,
    ) -> Result<Found, Error> {
        let (spec, selection) = (self.spec, self.selection);
        let inputs = Inputs::new(cluster.client().clone(), Arc::new(Notify::new()));
        inputs.watch(&references(spec, self.catalog, selection));
        ceph::watch(&inputs, spec);
        inputs.settled().await;
        let credentials = self.credentials(cluster, &inputs).await?;
        let (certificates, _) = Certificates::default().judge(&inputs, selection, crate::controller::now());
        let ceph = self.ceph(cluster, &inputs, unknown).await;
        let (helm_major, mut guessed) = self.helm(unknown);
        let charts = match charts {
            Some(source) => source.settled(spec, self.catalog, selection).await,
            None => self.told(&mut guessed, unknown),
        };
        let facts = Facts {
            credentials: credentials.known,
            missing: credentials.missing,
            ceph,
            values_from: values_from(&inputs, spec, &selection.namespace),
            secrets: feature_secrets(&inputs, selection),
            written: written(&inputs, self.catalog, selection),
            charts,
            claim_classes: collect_claim_classes(self.claims, &selection.releases),
            helm_major,
            ..Facts::default()
        };
        Ok(Found { facts, guessed, findings: certificates })
    }

    async fn credentials(&self, cluster: &Cluster, inputs: &Inputs) -> Result<Credentials, Error> {
        let question = CredentialQuestion {
            spec: self.spec,
            catalog: self.catalog,
            selection: self.selection,
            observed: self.observed,
            last: None,
        };
        cluster.credentials(&question, inputs, &mut SecretEdits::default()).await.map_err(plain)
    }

    /// What the Ceph is, where one is used, and whether it can be handed on.
    async fn ceph(&self, cluster: &Cluster, inputs: &Inputs, unknown: &mut Vec<String>) -> Option<DeclaredCeph> {
        let mut declared = ceph::declared(inputs, self.spec, self.selection)?;
        if let Err(error) = ceph::write(cluster, &mut declared, self.selection, inputs).await {
            unknown.push(format!("whether what the charts mount of Ceph can be written: {}", plain(error)));
        }
        Some(declared)
    }

    /// Helm's major version, as the operator says; where it says nothing, a release that exists may be of another.
    fn helm(&self, unknown: &mut Vec<String>) -> (u64, BTreeSet<String>) {
        let version = self.live.and_then(|live| live.status.as_ref()?.helm.as_ref());
        let major = version.and_then(|version| version.split('.').next()?.parse().ok());
        let existing = |key| self.observed.releases.contains_key(key);
        let guessed: BTreeSet<String> = match major {
            Some(_) => BTreeSet::new(),
            None => self.selection.releases.iter().filter(|(_, key)| existing(key)).map(|(n, _)| n.clone()).collect(),
        };
        if !guessed.is_empty() {
            unknown.push("the operator's helm: its status does not say the version yet".into());
        }
        (major.unwrap_or(4), guessed)
    }

    /// Charts as the operator's status tells them.
    fn told(
        &self,
        guessed: &mut BTreeSet<String>,
        unknown: &mut Vec<String>,
    ) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
        let mut facts = BTreeMap::new();
        let mut missing = Vec::new();
        let rewrites = self.spec.images.rewrites();
        for (name, key) in &self.selection.releases {
            if let Some(digest) = self.digest(name) {
                facts.insert(name.clone(), Ok(ChartInfo { digest: digest.clone(), ..ChartInfo::default() }));
            } else if let Some(message) = self.blocked(name) {
                let blocked = Blocked { reason: reason::CHART.into(), message };
                facts.insert(name.clone(), Err(blocked));
            } else {
                guessed.insert(name.clone());
                missing.extend(self.observed.releases.contains_key(key).then_some(name.as_str()));
            }
            if rewrites {
                guessed.insert(name.clone());
            }
        }
        if !missing.is_empty() {
            let names = missing.join(", ");
            unknown.push(format!("whether the charts of {names} changed: name the operator's charts with --charts"));
        }
        if rewrites {
            unknown.push(
                "the images that the charts name themselves, which spec.images rewrites: name the operator's charts with --charts"
                    .into(),
            );
        }
        facts
    }

    /// What keeps the operator from the chart of a release, by its status: it tells the digest of every chart that it has.
    fn blocked(&self, name: &str) -> Option<String> {
        let live = self.live.filter(|live| live.spec == *self.spec)?;
        let status = live.status.as_ref().filter(|status| status.observed_generation == live.metadata.generation)?;
        let child = status.children.get(name)?;
        let blocked = child.chart_digest.is_none() && !child.ready && !child.message.is_empty();
        blocked.then(|| child.message.clone())
    }

    /// The digest that the status tells of a release's chart, where it is still about the chart that is wanted.
    fn digest(&self, name: &str) -> Option<&String> {
        let live = self.live?;
        let (service, release) = self.catalog.release(name)?;
        let version = |spec: &OpenStackDeploymentSpec| spec.services.get(service)?.releases.get(name)?.version.clone();
        let same =
            version(&live.spec) == version(self.spec) && live.spec.charts.repository == self.spec.charts.repository;
        let child = live.status.as_ref()?.children.get(name)?;
        child.chart_digest.as_ref().filter(|_| same && child.chart == release.chart)
    }
}

/// Without the remedy that is meant for the operator.
fn plain(error: Error) -> Error {
    match error {
        Error::Api { what, error } => Error::Object(format!("{what}: {}", rights::said(&error))),
        Error::Object(text) => Error::Object(text),
    }
}
