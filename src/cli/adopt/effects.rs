//! For each existing release, finds the values and rendered objects that would change if the operator upgraded the
//! release to the spec written by `osdpl adopt`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::discover::ChartState;
use crate::manifests::{ReleaseToRender, Renderer, scrubber};
use crate::value_change::{Change, Redactor, ValuesSource};
use osdpl_core::adopt::{Comparison, Description, IdentifiedReleases, InstalledRelease, SecretContent};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::difference::{Difference, diff_manifests, parse_objects};
use osdpl_core::observed::ComparisonResult;
use osdpl_core::scrub::Scrubber;
use osdpl_operator::cluster::Reader;
use osdpl_values::{Path, Values, changed_paths, get, leaves, set};

/// The changes in one release if the operator upgraded it to the spec written by `osdpl adopt`.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Effects {
    /// The values that the upgrade to the spec written by `osdpl adopt` would change. osdpl merges the old and the new
    /// values into the defaults of the installed chart, and compares the two results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Change>,
    /// The objects that the upgrade to the spec written by `osdpl adopt` would add, remove or change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Difference>,
    /// The reason why osdpl could not compare the release's existing objects with the objects that this upgrade would
    /// render; `None` if osdpl compared them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrendered: Option<String>,
}

/// The data from which osdpl computes what an upgrade would change in each release: the existing releases, and the spec
/// that `osdpl adopt` writes for them.
pub(crate) struct EffectsQuery<'a> {
    pub cluster: &'a Reader,
    pub catalog: &'a Catalog,
    pub known: &'a IdentifiedReleases<'a>,
    pub described: &'a Description,
    pub charts: &'a BTreeMap<String, ChartState>,
    /// The renderer of manifests, or the reason why osdpl can't render manifests.
    pub renderer: Result<Renderer, String>,
}

impl EffectsQuery<'_> {
    /// Returns what would change in each release if the operator upgraded it to the spec written by `osdpl adopt`. The
    /// keys are the releases' names in the catalogue. Leaves out the releases that an upgrade would not change.
    pub(crate) async fn all(&self) -> anyhow::Result<BTreeMap<String, Effects>> {
        let secrets = secret_texts(self.described);
        let mut effects_by_name = BTreeMap::new();
        for (name, found) in &self.known.releases {
            let (desired, compared) = (self.described.wanted.get(name), self.described.compared.get(name));
            let Some((desired, compared)) = desired.zip(compared) else { continue };
            // If the release already has the chart and the values that the spec selects, the operator would not upgrade
            // the release after the adoption. So there are no effects.
            if compared.result == ComparisonResult::Same && !self.charts.contains_key(name) {
                continue;
            }
            let scrubber = scrubber(desired, &secrets, Some(&recorded_values(found, desired)));
            let mut effects = Effects { values: changed_values(desired, compared, &scrubber), ..Effects::default() };
            match self.objects(name, desired, found, &scrubber).await? {
                Ok(objects) => effects.objects = objects,
                Err(why) => effects.unrendered = Some(scrubber.scrub(&why)),
            }
            effects_by_name.insert(name.clone(), effects);
        }
        Ok(effects_by_name)
    }

    /// Returns the objects of a release that an upgrade would change. If osdpl can't compare the objects, the inner
    /// `Result` is an error with the reason.
    async fn objects(
        &self,
        name: &str,
        desired: &DesiredRelease,
        found: &InstalledRelease,
        scrubber: &Scrubber,
    ) -> anyhow::Result<Result<Vec<Difference>, String>> {
        if let Some(blocked) = &desired.blocked {
            return Ok(Err(blocked.message.clone()));
        }
        if let Some(ChartState::Unknown(why)) = self.charts.get(name) {
            return Ok(Err(why.clone()));
        }
        let renderer = match &self.renderer {
            Ok(renderer) => renderer,
            Err(why) => return Ok(Err(why.clone())),
        };
        let before = match self.cluster.recorded_contents(&found.key, found.revision.into()).await? {
            Ok((_, contents)) => parse_objects(contents, &found.key),
            Err(problem) => return Ok(Err(problem)),
        };
        let (spec, catalog) = (&self.described.spec, self.catalog);
        let release = ReleaseToRender { spec, catalog, name, desired, is_upgrade: true };
        let after = renderer.objects(release, scrubber).await;
        Ok(after.map(|after| diff_manifests(&before, &after, scrubber)).map_err(|error| format!("{error:#}")))
    }
}

/// Returns the values in which the scrubber looks for secrets: the values that were passed to helm and, at the paths of
/// secrets, the recorded chart's defaults. The defaults matter because a cloud can use the default passwords of
/// upstream's charts.
fn recorded_values(found: &InstalledRelease, desired: &DesiredRelease) -> Values {
    let mut values = found.source.config.clone();
    for path in &desired.secret {
        if let Some(value) = get(&found.effective_values, path) {
            set(&mut values, path, value.clone());
        }
    }
    values
}

/// Returns the text of every secret in the Secrets that `osdpl adopt` writes with the spec. The command hides these
/// texts in its output.
fn secret_texts(described: &Description) -> Vec<String> {
    let texts = |content: &SecretContent| match content {
        SecretContent::Text(text) => vec![text.clone()],
        SecretContent::Open(_) => Vec::new(),
        SecretContent::Values(values) => {
            leaves(values).into_iter().filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect()
        }
    };
    described.secrets.values().flat_map(BTreeMap::values).flat_map(texts).collect()
}

/// Returns the values that an upgrade to the spec written by `osdpl adopt` would change, without secrets. `compared`
/// contains the values before and after the upgrade, both with the defaults of the installed chart.
fn changed_values(desired: &DesiredRelease, compared: &Comparison, scrubber: &Scrubber) -> Vec<Change> {
    let redactor = Redactor::new(desired, scrubber, [&compared.before, &compared.after]);
    let change = |path: &Path| Change {
        path: path.to_string(),
        before: redactor.value(&compared.before, path, ValuesSource::Record),
        after: redactor.value(&compared.after, path, ValuesSource::Desired),
        source: None,
    };
    changed_paths(&compared.before, &compared.after).iter().map(change).collect()
}
