//! Compares each release's record with its desired state.

use kube::ResourceExt;

use super::shown::{DiffReport, Line, Outcome};
use crate::finding_output::FindingOutput;
use crate::live::Live;
use crate::manifests::{Renderer, scrubber};
use crate::plan::change::{Change, Hidden, Side};
use osdpl_core::adopt::compare_release;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::difference::{Difference, diff_manifests, parse_objects};
use osdpl_core::observed::{ComparisonResult, ObservedRelease, ReleaseKey};
use osdpl_core::plan::{Action, Step, Wait};
use osdpl_core::release::{RevisionSource, Status};
use osdpl_core::scrub::Scrubber;
use osdpl_operator::cluster::Reader;
use osdpl_operator::controller::collect_secrets;
use osdpl_values::{Path, Values, changed_paths};

/// Compares the releases, or only the named ones.
pub async fn compare_all(live: &Live, only: &[String], renderer: Option<&Renderer>) -> anyhow::Result<DiffReport> {
    let Live { client, deployment, preview, .. } = live;
    let scrub = |text: &str| preview.scrubber.scrub(text);
    let findings =
        preview.findings.iter().map(|found| FindingOutput::of(found, live.document.as_ref()).scrubbed(scrub));
    let mut shown = DiffReport {
        namespace: deployment.namespace().unwrap_or_default(),
        name: deployment.name_any(),
        findings: findings.collect(),
        unknown: preview.unknown.iter().map(|unknown| scrub(unknown)).collect(),
        ..DiffReport::default()
    };
    if preview.refused {
        let messages = shown.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        anyhow::bail!("the resource is refused, so nothing would be done:\n{messages}");
    }
    let secrets: Vec<String> = collect_secrets(&preview.facts).into_iter().map(Into::into).collect();
    shown.uncertain = !preview.exact && preview.unknown.iter().any(|unknown| !preview.unwatched.contains(unknown));
    let comparison = Comparison { live, cluster: Reader::new(client.clone()), renderer, secrets };
    let is_desired = |key: &ReleaseKey| preview.desired.releases.values().any(|release| release.key == *key);
    for (name, decision) in &preview.plan.decisions {
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        let key = &decision.key;
        let found = match preview.desired.releases.get(name).filter(|release| release.key == *key) {
            Some(release) if release.managed => comparison.compare_release(name, release).await?,
            // Unmanaged releases are not compared.
            Some(_) if !is_being_unmanaged(&decision.step) => {
                shown.unmanaged += 1;
                continue;
            }
            None if is_desired(key) => None,
            Some(_) | None => undesired_outcome(&decision.step, &scrub).map(|what| Line::of(key, what)),
        };
        match found {
            Some(release) => drop(shown.releases.insert(name.clone(), release)),
            None => shown.same += 1,
        }
    }
    Ok(shown)
}

fn is_being_unmanaged(step: &Step) -> bool {
    matches!(step, Step::Do(Action::Unmanage, _))
}

/// Returns what the plan does with a release that is not desired; `None` if nothing is left to do.
fn undesired_outcome(step: &Step, scrub: &impl Fn(&str) -> String) -> Option<Outcome> {
    match step {
        Step::Ready => None,
        Step::Do(Action::Unmanage, _) => Some(Outcome::Unmanaged),
        Step::Wait(Wait::Undecodable(problem)) => Some(Outcome::Unreadable { why: scrub(problem) }),
        Step::Do(..) | Step::Wait(_) | Step::Settling(_) => Some(Outcome::Uninstalled),
    }
}

struct Comparison<'a> {
    live: &'a Live,
    cluster: Reader,
    renderer: Option<&'a Renderer>,
    secrets: Vec<String>,
}

impl Comparison<'_> {
    /// Returns how a release differs from its desired state; `None` if it does not.
    async fn compare_release(&self, name: &str, release: &DesiredRelease) -> anyhow::Result<Option<Line>> {
        let key = &release.key;
        let why = |text: &str| self.live.preview.scrubber.scrub(text);
        if let Some(blocked) = &release.blocked {
            // A refused move changes nothing, as in `plan`, so there is nothing left to compare.
            if release.is_refused() && self.live.preview.observed.releases.contains_key(key) {
                return Ok(Some(Line::of(key, Outcome::Stays { why: why(&blocked.message) })));
            }
            return Ok(Some(Line::of(key, Outcome::Refused { why: why(&blocked.message) })));
        }
        let seen = self.live.preview.observed.releases.get(key).filter(|seen| seen.status != Status::Uninstalled);
        let Some(seen) = seen else {
            let mut found = Line::of(key, Outcome::Installed);
            self.objects(name, release, None, &mut found).await;
            return Ok(Some(found));
        };
        if is_known_same(release, seen) {
            return Ok(None);
        }
        let (source, contents) = match self.cluster.recorded_contents(key, seen.revision).await? {
            Ok(found) => found,
            Err(problem) => return Ok(Some(Line::of(key, Outcome::Unreadable { why: why(&problem) }))),
        };
        let mut found = self.values(release, &source);
        self.objects(name, release, Some((&source, contents)), &mut found).await;
        let is_same =
            found.what == Outcome::Changed { chart: None } && found.values.is_empty() && found.objects.is_empty();
        if is_same && let Some(why) = found.unrendered.take() {
            return Ok(Some(Line::of(key, Outcome::Refused { why })));
        }
        // A revision of osdpl with the same inputs was handled above.
        if is_same && !is_ours(seen) {
            return Ok(None);
        }
        if is_same {
            let what = match seen.status {
                Status::Deployed => "helm's version or flags, or a part of its chart without effect here".to_owned(),
                status => format!("only its newest revision, which is {status}"),
            };
            found.what = Outcome::Changed { chart: Some(what) };
        }
        Ok(Some(found))
    }

    /// Returns the values that differ for templates, and the chart.
    fn values(&self, release: &DesiredRelease, source: &RevisionSource) -> Line {
        let compared = compare_release(release, source);
        let (before, after) = (&compared.before, &compared.after);
        let hidden = Hidden::new(release, &self.live.preview.scrubber, [before, after]);
        let change = |path: &Path| Change {
            path: path.to_string(),
            before: hidden.shown(before, path, Side::Before),
            after: hidden.shown(after, path, Side::After),
            source: None,
        };
        let chart = match &compared.verdict {
            ComparisonResult::Differs { chart, .. } => chart.clone(),
            ComparisonResult::Same | ComparisonResult::Owned(_) | ComparisonResult::Unknown(_) => None,
        };
        let mut found = Line::of(&release.key, Outcome::Changed { chart });
        found.values = changed_paths(before, after).iter().map(change).collect();
        found
    }

    /// Adds the objects that differ, if requested, or why they are not known: an unavailable chart must not hide the
    /// results of others.
    async fn objects(
        &self,
        name: &str,
        release: &DesiredRelease,
        recorded: Option<(&RevisionSource, Vec<Values>)>,
        found: &mut Line,
    ) {
        let Some(renderer) = self.renderer else { return };
        match self.rendered(renderer, name, release, recorded).await {
            Ok(objects) => found.objects = objects,
            Err(error) => found.unrendered = Some(self.live.preview.scrubber.scrub(&format!("{error:#}"))),
        }
    }

    async fn rendered(
        &self,
        renderer: &Renderer,
        name: &str,
        release: &DesiredRelease,
        recorded: Option<(&RevisionSource, Vec<Values>)>,
    ) -> anyhow::Result<Vec<Difference>> {
        let scrubber: Scrubber = scrubber(release, &self.secrets, recorded.as_ref().map(|(source, _)| &source.config));
        let spec = &self.live.preview.spec;
        let cloud = (spec, &*self.live.catalog);
        let after = renderer.objects(cloud, (name, release), recorded.is_some(), &scrubber).await?;
        let before = parse_objects(recorded.map(|(_, contents)| contents).unwrap_or_default(), &release.key);
        Ok(diff_manifests(&before, &after, &scrubber))
    }
}

impl Line {
    fn of(key: &ReleaseKey, what: Outcome) -> Self {
        Self { release: key.to_string(), what, values: Vec::new(), objects: Vec::new(), unrendered: None }
    }
}

/// Whether osdpl created the newest revision.
fn is_ours(seen: &ObservedRelease) -> bool {
    seen.attempt.as_ref().is_some_and(|attempt| attempt.revision == seen.revision)
}

/// Whether the record has the same inputs: its manifest then equals the one that would be rendered.
fn is_known_same(release: &DesiredRelease, seen: &ObservedRelease) -> bool {
    is_ours(seen) && seen.status == Status::Deployed && seen.inputs.as_ref() == Some(&release.inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::plan::Reason;

    fn outcome(step: &Step) -> Option<String> {
        undesired_outcome(step, &|text: &str| text.replace("hunter2", "…")).map(|what| what.to_string())
    }

    #[test]
    fn describes_releases_that_are_not_desired() {
        assert_eq!(outcome(&Step::Ready), None, "only its record is left");
        let unmanage = Step::Do(Action::Unmanage, Reason::Unmanaged);
        assert_eq!(outcome(&unmanage).unwrap(), "would be unmanaged, and keeps running as it is");
        let broken = Step::Wait(Wait::Undecodable("no gzip: hunter2".into()));
        assert_eq!(outcome(&broken).unwrap(), "can't be read: no gzip: …");
        let gone = Step::Do(Action::Uninstall { skip_hooks: false }, Reason::NotDesired);
        assert_eq!(outcome(&gone).unwrap(), "would be uninstalled");
        assert_eq!(outcome(&Step::Wait(Wait::Approval(Reason::NotDesired))).unwrap(), "would be uninstalled");
    }
}
