//! Renders charts, because some plans need to know which CRDs helm would change.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::memory::Memory;
use super::{Context, now};
use crate::helm::template::{Capabilities, Template};
use osdpl_core::desired::DesiredRelease;
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release;
use osdpl_decide::{Crds, Read, Received, Response, Responses};

impl Context {
    /// Executes those reads of the last plan that request the CRDs of a chart: renders one chart after the other, and
    /// stores the CRDs in `memory` as responses. Skips a chart whose response from an earlier pass is still valid.
    ///
    /// Templates in the values can make helm run for ever. So the function waits at most for the time `limit` for each
    /// chart, and begins no render later than `limit` after `begun`. Each read gets a response in any case, because the
    /// plan needs all responses before it changes any release.
    pub(super) async fn render_crds(&self, memory: &mut Memory, begun: Timestamp, limit: Duration) {
        let Memory { reads, responses, desired, .. } = memory;
        let due = postpone(reads, responses);
        if due.is_empty() {
            return;
        }
        let capabilities = match tokio::time::timeout(limit, self.cluster.reader().capabilities()).await {
            Ok(capabilities) => capabilities.map_err(|error| error.to_string()),
            Err(_) => return,
        };
        for read in due {
            let Read::RenderedCrds { release, inputs, is_upgrade } = &read else { continue };
            let started = now();
            if started.duration_since(begun).unsigned_abs() > limit {
                return;
            }
            // The pass may be cancelled during the render. The next pass must not begin with the same render again.
            respond(responses, read.clone(), Response::PostponedRender);
            let desired = desired.as_ref().and_then(|desired| desired.releases.get(release));
            let response = match (desired.filter(|desired| desired.inputs == *inputs), &capabilities) {
                (Some(desired), Ok(capabilities)) => {
                    let rendered = self.rendered_crds(release, desired, *is_upgrade, capabilities);
                    let rendered = tokio::time::timeout(limit, Box::pin(rendered)).await;
                    rendered
                        .map_or_else(|_| Response::SlowRender(too_slow(&desired.key, limit)), Response::RenderedCrds)
                }
                (Some(_), Err(why)) => Response::RenderedCrds(Err(why.clone())),
                (None, _) => {
                    let why = "the desired state has changed since the last plan; osdpl tries again";
                    Response::RenderedCrds(Err(why.to_owned()))
                }
            };
            respond(responses, read, response);
        }
    }

    async fn rendered_crds(
        &self,
        name: &str,
        release: &DesiredRelease,
        is_upgrade: bool,
        capabilities: &Capabilities,
    ) -> Crds {
        let digest = release.chart_digest.as_deref().unwrap_or_default();
        let changed = "the chart has changed since the last plan; osdpl tries again";
        let chart = self.charts.chart(name, digest).ok_or(changed)?;
        let values = Value::Object(release.values.clone());
        let (key, chart) = (&release.key, chart.path.as_path());
        let template = Template { release: key, chart, values: &values, is_upgrade, capabilities };
        let scrubber = self.scrubber.borrow().clone();
        let manifest = template.render(self.runner.program(), &scrubber).await.map_err(|error| error.to_string())?;
        // Parse the manifest on a separate thread, because the manifests of some charts have megabytes.
        let parsed = tokio::task::spawn_blocking(move || parse_crds(&manifest)).await;
        parsed.map_err(|_| "reading helm's output panicked, see the operator's log".to_owned())?
    }
}

/// Stores the response to a read.
fn respond(responses: &mut Responses, read: Read, response: Response) {
    responses.insert(read, Received { response, at: now(), fresh: true });
}

/// Returns the requests for CRDs that have no valid response, and responds to each that the render is postponed.
fn postpone(reads: &BTreeSet<Read>, responses: &mut Responses) -> Vec<Read> {
    let time = now();
    let is_valid = |received: &Received| received.until().is_none_or(|until| time < until);
    let is_due =
        |read: &&Read| matches!(read, Read::RenderedCrds { .. }) && !responses.get(*read).is_some_and(is_valid);
    let due: Vec<Read> = reads.iter().filter(is_due).cloned().collect();
    for read in &due {
        respond(responses, read.clone(), Response::PostponedRender);
    }
    due
}

fn too_slow(release: &ReleaseKey, limit: Duration) -> String {
    format!(
        "helm did not render {release} within {} s, so osdpl stopped it; simplify the templates in the values, for \
         example in extraObjects (osdpl renders the chart again when the values or the chart change, and otherwise \
         some minutes later)",
        limit.as_secs()
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_pass_does_not_repeat_a_render_at_once() {
        let read = Read::RenderedCrds { release: "store".into(), inputs: "1".into(), is_upgrade: true };
        let reads: BTreeSet<Read> = [read.clone(), Read::OwnServices].into();
        let mut responses = Responses::new();
        assert_eq!(postpone(&reads, &mut responses), std::slice::from_ref(&read));
        // The operator cancels the pass during the render.
        assert!(postpone(&reads, &mut responses).is_empty());
        assert!(matches!(&responses[&read].response, Response::PostponedRender));
        respond(&mut responses, read, Response::RenderedCrds(Ok([].into())));
        assert!(postpone(&reads, &mut responses).is_empty());
    }
}
