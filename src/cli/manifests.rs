//! What helm would render of a release, and what of it must not show.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use kube::Client;
use serde_json::Value;

use super::common::readable;
use super::place::Place;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Catalog;
use crate::charts::Store;
use crate::controller::wanted;
use crate::desired::DesiredRelease;
use crate::difference::{Object, objects};
use crate::helm::Program;
use crate::helm::template::{Capabilities, Template};
use crate::release::contents;
use crate::scrub::Scrubber;
use crate::scrub::secretive;
use crate::values::{Values, get, leaves};

/// Parts of values that hold no secrets, whatever their keys are called (`images.tags.keystone_credential_setup`).
const PLAIN: [&str; 5] = ["images", "dependencies", "manifests", "pod", "labels"];

/// Renders releases.
pub struct Renderer {
    store: Store,
    program: Program,
    capabilities: Capabilities,
}

impl Renderer {
    /// With the charts that were named, for no cluster in particular.
    pub async fn open(place: &Place) -> anyhow::Result<Self> {
        if place.source().is_none() {
            bail!("manifests are rendered from charts: name those of the operator with --charts");
        }
        let (store, program) = (place.open().await?, place.program().await?);
        Ok(Self { store, program, capabilities: Capabilities::default() })
    }

    /// For this cluster: charts ask for its version, and for what it serves.
    pub async fn for_cluster(self, client: &Client) -> anyhow::Result<Self> {
        let version = client.apiserver_version().await.map_err(readable).context("reading the cluster's version")?;
        let groups = client.list_api_groups().await.map_err(readable).context("listing the cluster's APIs")?;
        let versions = groups.groups.into_iter().flat_map(|group| group.versions).map(|version| version.group_version);
        let capabilities = Capabilities { kubernetes: Some(version.git_version), versions: versions.collect() };
        Ok(Self { capabilities, ..self })
    }

    /// The objects of a release, in helm's order.
    pub async fn objects(
        &self,
        (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
        (name, release): (&str, &DesiredRelease),
        is_upgrade: bool,
        scrubber: &Scrubber,
    ) -> anyhow::Result<Vec<Object>> {
        let (wanted, _) = wanted(&self.store, spec, catalog, name).context("the catalogue does not have it")?;
        let chart = self.store.obtain(&wanted).await?;
        let values = Value::Object(release.values.clone());
        let (release, capabilities) = (&release.key, &self.capabilities);
        let template = Template { release, chart: &chart.path, values: &values, is_upgrade, capabilities };
        let manifest = template.render(&self.program, scrubber).await?;
        let contents = contents(&manifest).map_err(|problem| anyhow::anyhow!("what helm renders: {problem}"))?;
        Ok(objects(contents, release))
    }
}

/// Knows the secrets that a release's manifest may show: `secrets` are all that the cloud has, `recorded` what the release was given before.
///
/// A cloud has hundreds and looking for each costs, so it is those that the release is given.
pub fn scrubber(release: &DesiredRelease, secrets: &[String], recorded: Option<&Values>) -> Scrubber {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for values in [Some(&release.values), recorded].into_iter().flatten() {
        let marked = release.secret.iter().filter_map(|path| get(values, path));
        found.extend(marked.flat_map(texts));
        let all = serde_json::to_string(values).unwrap_or_default();
        // As it stands in JSON.
        let holds = |secret: &&String| all.contains(Value::from(secret.as_str()).to_string().trim_matches('"'));
        found.extend(secrets.iter().filter(holds).cloned());
    }
    // A record knows no marks.
    for (path, value) in recorded.into_iter().flat_map(leaves) {
        let is_plain = path.keys().first().is_some_and(|top| PLAIN.contains(&top.as_str()));
        if !is_plain && secretive(&path, value) {
            found.extend(texts(value));
        }
    }
    Scrubber::new(found)
}

/// Every text in a value.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(map) => map.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}
