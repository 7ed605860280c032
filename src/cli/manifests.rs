//! Renders the manifests of releases with helm, and removes secrets from them.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use kube::Client;
use serde_json::Value;

use super::chart_options::ChartOptions;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::difference::{Object, parse_objects};
use osdpl_core::release;
use osdpl_core::scrub::{Scrubber, collect_secret_scalars, collect_secret_texts, find_secret_paths, is_secret_value};
use osdpl_operator::charts::Store;
use osdpl_operator::cluster::Reader;
use osdpl_operator::controller::chart_of_release;
use osdpl_operator::helm::Program;
use osdpl_operator::helm::template::{Capabilities, Template};
use osdpl_values::{Values, get, leaves};

/// The top-level keys below which recorded values contain no secrets, even if a key has a name like that of a secret,
/// such as `images.tags.keystone_credential_setup`.
const PLAIN: [&str; 5] = ["images", "dependencies", "manifests", "pod", "labels"];

/// Renders the manifests of releases with helm, from the charts that the user selected.
pub(crate) struct Renderer {
    store: Store,
    program: Program,
    capabilities: Capabilities,
}

/// The release whose manifest a [`Renderer`] renders.
pub(crate) struct ReleaseToRender<'a> {
    pub spec: &'a OpenStackDeploymentSpec,
    pub catalog: &'a Catalog,
    /// The release's name in the catalogue.
    pub name: &'a str,
    pub desired: &'a DesiredRelease,
    /// Whether helm renders the release as for an upgrade, not as for an install.
    pub is_upgrade: bool,
}

impl Renderer {
    /// Opens the chart store with the selected charts, and finds helm. Does not connect to a cluster.
    pub(crate) async fn open(options: &ChartOptions) -> anyhow::Result<Self> {
        if options.source().is_none() {
            bail!("osdpl can't render manifests without charts; name the operator's charts with --charts");
        }
        let (store, program) = (options.open().await?, options.program().await?);
        Ok(Self { store, program, capabilities: Capabilities::default() })
    }

    /// Makes helm render for the Kubernetes version and the APIs of this cluster, because the output of templates may
    /// depend on both.
    pub(crate) async fn for_cluster(self, client: &Client) -> anyhow::Result<Self> {
        let capabilities = Reader::new(client.clone()).capabilities().await?;
        Ok(Self { capabilities, ..self })
    }

    /// Renders a release, and returns its objects in helm's order.
    pub(crate) async fn objects(
        &self,
        release: ReleaseToRender<'_>,
        scrubber: &Scrubber,
    ) -> anyhow::Result<Vec<Object>> {
        let ReleaseToRender { spec, catalog, name, desired, is_upgrade } = release;
        let request =
            chart_of_release(&self.store, spec, catalog, name).context("the catalogue does not have this release")?;
        let chart = self.store.obtain(&request).await?;
        let values = Value::Object(desired.values.clone());
        let (release, capabilities) = (&desired.key, &self.capabilities);
        let template = Template { release, chart: &chart.path, values: &values, is_upgrade, capabilities };
        let manifest = template.render(&self.program, scrubber).await?;
        let contents =
            release::parse_objects(&manifest).map_err(|problem| anyhow::anyhow!("helm's output: {problem}"))?;
        Ok(parse_objects(contents, release))
    }
}

/// Returns a scrubber that removes secrets from the manifest of a release. `secrets` contains all secrets of the cloud,
/// and `recorded` the values in helm's record of the release.
///
/// Scrubbing is expensive, and a cloud has hundreds of secrets. So the scrubber looks only for secrets that occur in
/// the release's values.
pub(crate) fn scrubber(release: &DesiredRelease, secrets: &[String], recorded: Option<&Values>) -> Scrubber {
    let mut found: BTreeSet<String> = BTreeSet::new();
    // `secret` lacks the paths at which a later layer overrides a secret of `valuesFrom` with a public value. At these
    // paths, the recorded values may still contain the secret. So scrub the recorded values at all paths in `marked`,
    // which any layer marks as secret.
    let recorded_marks = recorded.map(|values| (values, &release.marked));
    for (values, marks) in std::iter::once((&release.values, &release.secret)).chain(recorded_marks) {
        // A layer can mark the whole manifest of a Secret in `extraObjects` as secret. Skip such a mark, because it
        // would also scrub the Secret's name. `collect_secret_texts` finds the secret data in the manifest.
        let manifests = find_secret_paths(values);
        let marked = marks.iter().filter(|path| !manifests.contains(path));
        found.extend(marked.filter_map(|path| get(values, path)).flat_map(collect_secret_scalars).map(Into::into));
        found.extend(collect_secret_texts(values));
        let all = serde_json::to_string(values).unwrap_or_default();
        // `all` is JSON text, in which some characters are escaped. So escape each secret before searching `all` for
        // the secret.
        let is_contained = |secret: &&String| all.contains(Value::from(secret.as_str()).to_string().trim_matches('"'));
        found.extend(secrets.iter().filter(is_contained).cloned());
    }
    // Helm's record does not say which of its values are secret. So recognize a secret value by the name of its key.
    for (path, value) in recorded.into_iter().flat_map(leaves) {
        let is_plain = path.keys().first().is_some_and(|top| PLAIN.contains(&top.as_str()));
        if !is_plain && is_secret_value(&path, value) {
            found.extend(collect_secret_scalars(value).into_iter().map(Into::into));
        }
    }
    Scrubber::new(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scrubs_secret_numbers() {
        let mut release = osdpl_core::testing::release("keystone");
        let values = json!({"conf": {"admin": 12_345_678}, "pod": {"replicas": 3}});
        release.values = serde_json::from_value(values).unwrap();
        release.secret = vec![osdpl_values::Path::parse("conf.admin").unwrap()];
        release.marked.clone_from(&release.secret);
        let recorded = serde_json::from_value(json!({"conf": {"db_password": 87_654_321}})).unwrap();
        let scrubbed =
            scrubber(&release, &[], Some(&recorded)).scrub("a: 12345678, b: 1.2345678e+07, c: 87654321, d: 3");
        assert_eq!(scrubbed, "a: [redacted], b: [redacted], c: [redacted], d: 3");
    }
}
