//! What only the operator knows, as its status reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::{ChartSource, now};
use super::target;
use osdpl_core::api::{ComponentHealth, OpenStackDeployment, OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo, Selection};
use osdpl_core::endpoint;
use osdpl_core::observed::{EndpointProbe, Liveness, Observed, ReleaseKey, RunningHelm};
use osdpl_decide::{Assumed, Snapshot};

/// Where assumptions come from.
pub struct Assumptions<'a> {
    /// The resource as it is in the cluster.
    pub live: Option<&'a OpenStackDeployment>,
    /// The catalogue.
    pub catalog: &'a Catalog,
    /// Charts, where they are read.
    pub charts: Option<&'a ChartSource>,
}

impl Assumptions<'_> {
    /// Helm's major version, and what is assumed about charts.
    pub async fn of(&self, snapshot: &Snapshot, unknown: &mut Vec<String>) -> (u64, Assumed) {
        let (spec, selection, observed) = target(snapshot);
        if selection.is_refused() || snapshot.deployment.metadata.deletion_timestamp.is_some() {
            return (4, Assumed::default());
        }
        let (major, mut guessed) = self.helm(&selection, &observed, unknown);
        let charts = match self.charts {
            Some(source) => source.settled(&spec, self.catalog, &selection).await,
            None => self.reported((&spec, &selection), &observed, &mut guessed, unknown),
        };
        (major, Assumed { charts, has_charts: self.charts.is_some(), guessed })
    }

    /// Takes over what the status reports of helm processes and of services' APIs.
    pub fn adopt(&self, snapshot: &mut Snapshot) {
        let (_, selection, _) = target(snapshot);
        running(&mut snapshot.observed, self.live, &selection);
        snapshot.observed.endpoints = Arc::new(self.endpoints(&selection.releases));
    }

    /// Helm's major version, as the operator reports it; where it reports none, a release that exists may be of another.
    fn helm(&self, selection: &Selection, observed: &Observed, unknown: &mut Vec<String>) -> (u64, BTreeSet<String>) {
        let version = self.live.and_then(|live| live.status.as_ref()?.helm.as_ref());
        let major = version.and_then(|version| version.split('.').next()?.parse().ok());
        let existing = |key| observed.releases.contains_key(key);
        let guessed: BTreeSet<String> = match major {
            Some(_) => BTreeSet::new(),
            None => selection.releases.iter().filter(|(_, key)| existing(key)).map(|(n, _)| n.clone()).collect(),
        };
        if !guessed.is_empty() {
            unknown.push("the operator's helm: its status does not say the version yet".into());
        }
        (major.unwrap_or(4), guessed)
    }

    /// Charts as the operator's status reports them.
    fn reported(
        &self,
        (spec, selection): (&OpenStackDeploymentSpec, &Selection),
        observed: &Observed,
        guessed: &mut BTreeSet<String>,
        unknown: &mut Vec<String>,
    ) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
        let mut facts = BTreeMap::new();
        let mut missing = Vec::new();
        let rewrites = spec.images.rewrites();
        for (name, key) in &selection.releases {
            if let Some(digest) = self.digest(spec, name) {
                facts.insert(name.clone(), Ok(ChartInfo { digest: digest.clone(), ..ChartInfo::default() }));
            } else if let Some(message) = self.blocked(spec, name) {
                let blocked = Blocked { reason: reason::CHART.into(), message };
                facts.insert(name.clone(), Err(blocked));
            } else {
                guessed.insert(name.clone());
                missing.extend(observed.releases.contains_key(key).then_some(name.as_str()));
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

    /// What keeps the operator from the chart of a release, by its status: it reports the digest of every chart that it has.
    fn blocked(&self, spec: &OpenStackDeploymentSpec, name: &str) -> Option<String> {
        let live = self.live.filter(|live| live.spec == *spec)?;
        let status = live.status.as_ref().filter(|status| status.observed_generation == live.metadata.generation)?;
        let child = status.children.get(name)?;
        let blocked = child.chart_digest.is_none() && !child.ready && !child.message.is_empty();
        blocked.then(|| child.message.clone())
    }

    /// The digest that the status reports of a release's chart, where it is still about the chart that is desired.
    fn digest(&self, spec: &OpenStackDeploymentSpec, name: &str) -> Option<&String> {
        let live = self.live?;
        let (service, release) = self.catalog.release(name)?;
        let version = |spec: &OpenStackDeploymentSpec| spec.services.get(service)?.releases.get(name)?.version.clone();
        let same = version(&live.spec) == version(spec) && live.spec.charts.repository == spec.charts.repository;
        let child = live.status.as_ref()?.children.get(name)?;
        child.chart_digest.as_ref().filter(|_| same && child.chart == release.chart)
    }

    /// What the APIs of services answered, as the status reports it: nobody else is in the cluster's network.
    fn endpoints(&self, releases: &BTreeMap<String, ReleaseKey>) -> BTreeMap<ReleaseKey, EndpointProbe> {
        let health = self.live.and_then(|live| live.status.as_ref()).map(|status| &status.health);
        let seen = releases.iter().filter_map(|(name, key)| {
            let asked = self.catalog.release(name)?.1.endpoint.as_ref()?;
            let application = asked.component.application.clone();
            let said = health?.get(&application)?.get(endpoint::COMPONENT)?;
            let trouble = (said.status != ComponentHealth::Ready).then(|| said.reason.clone());
            Some((key.clone(), EndpointProbe { application, service: asked.service.clone(), trouble }))
        });
        seen.collect()
    }
}

/// The operator's helm processes, as far as they show: records that a living operator holds, and releases that its status says it starts.
fn running(observed: &mut Observed, live: Option<&OpenStackDeployment>, selection: &Selection) {
    let child = |verb: &str, inputs: Option<&String>, since| RunningHelm {
        verb: verb.into(),
        inputs: inputs.cloned().unwrap_or_default(),
        since,
        stopping: false,
        queued: false,
        skips_hooks: false,
    };
    for (key, seen) in &observed.releases {
        let held = seen.attempt.as_ref().filter(|attempt| attempt.revision == seen.revision);
        if held.is_some_and(|attempt| attempt.owner == Liveness::Alive) {
            let verb = match seen.status.as_str() {
                "uninstalling" => "uninstall",
                status if status.starts_with("pending-") => "upgrade",
                _ => continue,
            };
            let since = seen.created_at.unwrap_or_default();
            observed.running.insert(key.clone(), child(verb, seen.inputs.as_ref(), since));
        }
    }
    let children = live.and_then(|live| live.status.as_ref()).map(|status| &status.children);
    for (name, said) in children.into_iter().flatten() {
        let key: Option<&ReleaseKey> = selection.releases.get(name);
        if let Some(key) = key.filter(|key| said.status == "starting" && !observed.releases.contains_key(*key)) {
            observed.running.insert(key.clone(), child("upgrade", None, now()));
        }
    }
}
