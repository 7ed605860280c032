//! Renders charts, because some plans need to know which CRDs helm would change.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::memory::Memory;
use super::{Context, now};
use crate::helm::template::Template;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::release;
use osdpl_decide::{Crds, Read, Received, Response};

impl Context {
    /// Executes those reads of the last plan that request the CRDs of a chart: renders one chart after the other, and
    /// stores the CRDs in `memory` as responses. Skips a chart whose response from an earlier pass is still valid.
    pub(super) async fn render_crds(&self, memory: &mut Memory) {
        let Memory { reads, responses, desired, .. } = memory;
        let is_valid = |received: &Received| received.until().is_none_or(|until| now() < until);
        for read in &*reads {
            let Read::RenderedCrds { release, inputs, is_upgrade } = read else { continue };
            if responses.get(read).is_some_and(is_valid) {
                continue;
            }
            let desired = desired.as_ref().and_then(|desired| desired.releases.get(release));
            let crds = match desired.filter(|desired| desired.inputs == *inputs) {
                Some(desired) => self.rendered_crds(release, desired, *is_upgrade).await,
                None => Err("the desired state has changed".to_owned()),
            };
            let received = Received { response: Response::RenderedCrds(crds), at: now(), fresh: true };
            responses.insert(read.clone(), received);
        }
    }

    async fn rendered_crds(&self, name: &str, release: &DesiredRelease, is_upgrade: bool) -> Crds {
        let digest = release.chart_digest.as_deref().unwrap_or_default();
        let chart = self.charts.chart(name, digest).ok_or("the chart has changed")?;
        let capabilities = self.cluster.capabilities().await.map_err(|error| error.to_string())?;
        let values = Value::Object(release.values.clone());
        let (key, chart, capabilities) = (&release.key, chart.path.as_path(), &capabilities);
        let template = Template { release: key, chart, values: &values, is_upgrade, capabilities };
        let scrubber = self.scrubber.borrow().clone();
        let manifest = template.render(self.runner.program(), &scrubber).await.map_err(|error| error.to_string())?;
        // Parse the manifest on a separate thread, because the manifests of some charts have megabytes.
        let parsed = tokio::task::spawn_blocking(move || parse_crds(&manifest)).await;
        parsed.map_err(|_| "reading helm's output panicked, see the operator's log".to_owned())?
    }
}

/// Returns the CRDs in a rendered manifest.
fn parse_crds(manifest: &str) -> Crds {
    let found = release::parse_objects_of_kind(manifest, "CustomResourceDefinition")?;
    let decode = |object| serde_json::from_value::<CustomResourceDefinition>(Value::Object(object));
    found
        .into_iter()
        .map(decode)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("it renders an invalid CRD: {error}"))
}
