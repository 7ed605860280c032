//! Compares helm's record of each release with the chart and values that the spec desires for the release.

use kube::ResourceExt;

use super::report::{DiffReport, Outcome, ReleaseDiff};
use crate::document::locate;
use crate::live::Live;
use crate::manifests::{ReleaseToRender, Renderer, scrubber};
use crate::value_change::{Change, Redactor, ValuesSource};
use osdpl_core::adopt::compare_release;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::difference::{Difference, Effect, diff_manifests, parse_objects};
use osdpl_core::observed::{ComparisonResult, ObservedRelease, ReleaseKey};
use osdpl_core::plan::{Action, Step, Wait};
use osdpl_core::release::{RevisionSource, Status};
use osdpl_core::scrub::Scrubber;
use osdpl_operator::cluster::Reader;
use osdpl_operator::controller::collect_secrets;
use osdpl_values::{Path, Values, changed_paths};

/// Compares helm's records with the desired states of the releases in `only`, or of all releases if `only` is empty.
pub(crate) async fn compare_all(
    live: &Live,
    only: &[String],
    renderer: Option<&Renderer>,
) -> anyhow::Result<DiffReport> {
    let Live { client, deployment, preview, .. } = live;
    let scrub = |text: &str| preview.scrubber.scrub(text);
    let findings = preview.findings.iter().map(|finding| locate(finding, live.document.as_ref()).scrubbed(&scrub));
    let mut report = DiffReport {
        namespace: deployment.namespace().unwrap_or_default(),
        name: deployment.name_any(),
        findings: findings.collect(),
        unknown: preview.unknown.iter().map(|unknown| scrub(unknown)).collect(),
        ..DiffReport::default()
    };
    if preview.refused {
        let messages = report
            .findings
            .iter()
            .map(|finding| format!("{}: {finding}", finding.level.as_str()))
            .collect::<Vec<_>>()
            .join("\n");
        anyhow::bail!("the resource is refused, so the operator would change nothing:\n{messages}");
    }
    let secrets: Vec<String> = collect_secrets(&preview.facts).into_iter().map(Into::into).collect();
    report.uncertain = !preview.exact && preview.unknown.iter().any(|unknown| !preview.unwatched.contains(unknown));
    let comparison = Comparison { live, cluster: Reader::new(client.clone()), renderer, secrets };
    let is_desired = |key: &ReleaseKey| preview.desired.releases.values().any(|release| release.key == *key);
    for (name, decision) in &preview.plan.decisions {
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        let key = &decision.key;
        let diff = match preview.desired.releases.get(name).filter(|release| release.key == *key) {
            Some(release) if release.managed => comparison.compare_release(name, release).await?,
            // Do not compare an unmanaged release, because osdpl does not change it.
            Some(_) if !is_being_unmanaged(&decision.step) => {
                report.unmanaged += 1;
                continue;
            }
            None if is_desired(key) => None,
            Some(_) | None => undesired_outcome(&decision.step, &scrub).map(|outcome| ReleaseDiff::new(key, outcome)),
        };
        match diff {
            Some(diff) => drop(report.releases.insert(name.clone(), diff)),
            None => report.same += 1,
        }
    }
    Ok(report)
}

fn is_being_unmanaged(step: &Step) -> bool {
    matches!(step, Step::Do(Action::Unmanage, _))
}

/// Returns what the plan does to a release that the spec does not desire, or that becomes unmanaged (`managed: false`).
/// Returns `None` if the plan does not change the release.
fn undesired_outcome(step: &Step, scrub: &impl Fn(&str) -> String) -> Option<Outcome> {
    match step {
        Step::Ready => None,
        Step::Do(Action::Unmanage, _) => Some(Outcome::Unmanaged),
        Step::Wait(Wait::Undecodable(problem)) => Some(Outcome::Unreadable { why: scrub(problem) }),
        Step::Do(..) | Step::Wait(_) | Step::Settling(_) => Some(Outcome::Uninstalled),
    }
}

/// The newest revision of a release in helm's records.
struct RecordedRevision<'a> {
    source: &'a RevisionSource,
    /// The manifests of the revision's objects.
    contents: Vec<Values>,
}

struct Comparison<'a> {
    live: &'a Live,
    cluster: Reader,
    renderer: Option<&'a Renderer>,
    secrets: Vec<String>,
}

impl Comparison<'_> {
    /// Compares a release with its desired state. Returns `None` if nothing differs.
    async fn compare_release(&self, name: &str, release: &DesiredRelease) -> anyhow::Result<Option<ReleaseDiff>> {
        let key = &release.key;
        let scrub = |text: &str| self.live.preview.scrubber.scrub(text);
        if let Some(blocked) = &release.blocked {
            // The spec requests an impossible change, such as another namespace. Like `osdpl plan`, report that the
            // operator does not change the release.
            if release.is_refused() && self.live.preview.observed.releases.contains_key(key) {
                return Ok(Some(ReleaseDiff::new(key, Outcome::Stays { why: scrub(&blocked.message) })));
            }
            return Ok(Some(ReleaseDiff::new(key, Outcome::Refused { why: scrub(&blocked.message) })));
        }
        let observed = self.live.preview.observed.releases.get(key);
        let Some(observed) = observed.filter(|observed| observed.status != Status::Uninstalled) else {
            let mut diff = ReleaseDiff::new(key, Outcome::Installed);
            self.add_objects(name, release, None, &mut diff).await;
            return Ok(Some(diff));
        };
        if has_same_inputs(release, observed) {
            return Ok(None);
        }
        let (source, contents) = match self.cluster.recorded_contents(key, observed.revision).await? {
            Ok(record) => record,
            Err(problem) => return Ok(Some(ReleaseDiff::new(key, Outcome::Unreadable { why: scrub(&problem) }))),
        };
        let mut diff = self.compare_values(release, &source);
        let recorded = RecordedRevision { source: &source, contents };
        self.add_objects(name, release, Some(recorded), &mut diff).await;
        let is_same =
            diff.outcome == Outcome::Changed { chart: None } && diff.values.is_empty() && diff.objects.is_empty();
        if is_same && let Some(why) = diff.unrendered.take() {
            return Ok(Some(ReleaseDiff::new(key, Outcome::Refused { why })));
        }
        // osdpl sets a label with a digest of the inputs (chart, values and flags) on each revision that it creates. A
        // revision of another tool lacks this label. Do not report a release whose only difference is the missing
        // label.
        if is_same && !is_ours(observed) {
            return Ok(None);
        }
        if is_same {
            let change = match observed.status {
                Status::Deployed => {
                    "only helm's version or flags differ, or a part of the chart that this cloud does not use"
                        .to_owned()
                }
                status => format!("its newest revision is {status}; nothing else differs"),
            };
            diff.outcome = Outcome::Changed { chart: Some(change) };
        }
        Ok(Some(diff))
    }

    /// Compares the chart and the values of the desired release with those in helm's record. Before the comparison,
    /// merges the values of both sides into the recorded chart's defaults.
    fn compare_values(&self, release: &DesiredRelease, source: &RevisionSource) -> ReleaseDiff {
        let compared = compare_release(release, source);
        let (before, after) = (&compared.before, &compared.after);
        let redactor = Redactor::new(release, &self.live.preview.scrubber, [before, after]);
        let change = |path: &Path| Change {
            path: path.to_string(),
            before: redactor.value(before, path, ValuesSource::Record),
            after: redactor.value(after, path, ValuesSource::Desired),
            source: None,
        };
        let chart = match &compared.result {
            ComparisonResult::Differs { chart, .. } => chart.clone(),
            ComparisonResult::Same | ComparisonResult::Owned(_) | ComparisonResult::Unknown(_) => None,
        };
        let mut diff = ReleaseDiff::new(&release.key, Outcome::Changed { chart });
        diff.values = changed_paths(before, after).iter().map(change).collect();
        diff
    }

    /// If the user gave `--manifests`, adds to `diff` the objects that differ between helm's record and the desired
    /// release.
    ///
    /// If osdpl can't render the objects, this method adds the reason to `diff` and does not fail. An unavailable chart
    /// must not hide the results of other releases.
    async fn add_objects(
        &self,
        name: &str,
        release: &DesiredRelease,
        recorded: Option<RecordedRevision<'_>>,
        diff: &mut ReleaseDiff,
    ) {
        let Some(renderer) = self.renderer else { return };
        match self.compare_objects(renderer, name, release, recorded).await {
            Ok(objects) => diff.objects = objects,
            Err(error) => diff.unrendered = Some(self.live.preview.scrubber.scrub(&format!("{error:#}"))),
        }
    }

    /// Whether the planned upgrade of the release skips the chart's hooks.
    fn skips_hooks(&self, name: &str) -> bool {
        let step = self.live.preview.plan.decisions.get(name).map(|decision| &decision.step);
        matches!(step, Some(Step::Do(Action::Upgrade { skip_hooks: true, .. }, _)))
    }

    async fn compare_objects(
        &self,
        renderer: &Renderer,
        name: &str,
        release: &DesiredRelease,
        recorded: Option<RecordedRevision<'_>>,
    ) -> anyhow::Result<Vec<Difference>> {
        let config = recorded.as_ref().map(|recorded| &recorded.source.config);
        let scrubber: Scrubber = scrubber(release, &self.secrets, config);
        let spec = &self.live.preview.spec;
        let (catalog, is_upgrade) = (&*self.live.catalog, recorded.is_some());
        let target = ReleaseToRender { spec, catalog, name, desired: release, is_upgrade };
        let after = renderer.objects(target, &scrubber).await?;
        let before = parse_objects(recorded.map(|recorded| recorded.contents).unwrap_or_default(), &release.key);
        let mut differences = diff_manifests(&before, &after, &scrubber);
        if self.skips_hooks(name) {
            let hooks = differences.iter_mut().filter(|difference| difference.effect == Effect::RunsAgain);
            hooks.for_each(|hook| hook.effect = Effect::Skipped);
        }
        Ok(differences)
    }
}

impl ReleaseDiff {
    fn new(key: &ReleaseKey, outcome: Outcome) -> Self {
        Self { release: key.to_string(), outcome, values: Vec::new(), objects: Vec::new(), unrendered: None }
    }
}

/// Whether osdpl created the newest revision of the release.
fn is_ours(observed: &ObservedRelease) -> bool {
    observed.attempt.as_ref().is_some_and(|attempt| attempt.revision == observed.revision)
}

/// Whether osdpl deployed the newest revision with the inputs (chart, values, flags) that the spec desires. If so, the
/// caller need not render the manifest, because it would be equal to the recorded manifest.
fn has_same_inputs(release: &DesiredRelease, observed: &ObservedRelease) -> bool {
    is_ours(observed) && observed.status == Status::Deployed && observed.inputs.as_ref() == Some(&release.inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::plan::Reason;

    fn outcome(step: &Step) -> Option<String> {
        undesired_outcome(step, &|text: &str| text.replace("hunter2", "…")).map(|outcome| outcome.to_string())
    }

    #[test]
    fn describes_releases_that_are_not_desired() {
        assert_eq!(outcome(&Step::Ready), None, "an uninstalled release must not be reported");
        let unmanage = Step::Do(Action::Unmanage, Reason::Unmanaged);
        assert_eq!(outcome(&unmanage).unwrap(), "would be unmanaged, and keeps running as it is");
        let broken = Step::Wait(Wait::Undecodable("no gzip: hunter2".into()));
        assert_eq!(outcome(&broken).unwrap(), "can't be read: no gzip: …");
        let gone = Step::Do(Action::Uninstall { skip_hooks: false }, Reason::NotDesired);
        assert_eq!(outcome(&gone).unwrap(), "would be uninstalled");
        assert_eq!(outcome(&Step::Wait(Wait::Approval(Reason::NotDesired))).unwrap(), "would be uninstalled");
    }
}
