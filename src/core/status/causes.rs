//! Fills `status.causes`: each root cause once, with the objects that wait for it.

use k8s_openapi::jiff::Timestamp;

use super::Report;
use crate::api::RootCauseStatus;
use crate::observed::Cause;

/// The maximum number of root causes in the status. When one of these root causes is fixed, the status shows the next
/// root cause.
const MAX_CAUSES: usize = 20;

/// The maximum number of affected objects that the status names for a root cause.
const MAX_AFFECTED: usize = 20;

/// The maximum number of affected objects that a condition's message names.
const MAX_AFFECTED_IN_MESSAGE: usize = 3;

/// Returns the root causes that concern releases of this cloud, the most severe first.
fn own_causes<'a>(report: &'a Report<'_>) -> impl Iterator<Item = &'a Cause> {
    let ours = |cause: &&Cause| report.plan.decisions.values().any(|decision| cause.releases.contains(&decision.key));
    report.observed.causes.iter().filter(ours)
}

/// Returns the root causes for the status. A root cause that the previous status already contains keeps the time of its
/// first report.
pub(super) fn causes(before: &[RootCauseStatus], report: &Report<'_>, now: Timestamp) -> Vec<RootCauseStatus> {
    let causes = own_causes(report).take(MAX_CAUSES).map(|cause| {
        let known = before.iter().find(|known| known.message == cause.message);
        RootCauseStatus {
            message: cause.message.clone(),
            objects: cause.objects.clone(),
            affected: limit_names(&cause.affected, MAX_AFFECTED),
            since: known.map_or_else(|| format!("{now:.0}"), |known| known.since.clone()),
        }
    });
    causes.collect()
}

/// Puts the most severe root cause of this cloud before the message of a condition.
///
/// Ignores failing `CronJobs`, because no component waits for them. If `only_stuck` is true, also ignores root causes
/// that may resolve by themselves.
pub(super) fn prepend_cause(message: String, report: &Report<'_>, only_stuck: bool) -> String {
    let is_relevant = |cause: &&Cause| !cause.is_periodic() && (cause.stuck || !only_stuck);
    let Some(first) = own_causes(report).find(is_relevant) else { return message };
    let line = line(first);
    // If `message` already contains the reason of the root cause, the line about the root cause replaces `message`.
    let repeats = first.message.split_once(": ").is_some_and(|(_, why)| message.contains(why));
    if repeats || message.is_empty() { line } else { format!("{line}; {message}") }
}

/// Formats a root cause and the objects that wait for it as one line.
fn line(cause: &Cause) -> String {
    let affected = limit_names(&cause.affected, MAX_AFFECTED_IN_MESSAGE);
    if affected.is_empty() {
        cause.message.clone()
    } else {
        format!("{} ({} waiting)", cause.message, affected.join(", "))
    }
}

fn limit_names(all: &[String], most: usize) -> Vec<String> {
    let mut names: Vec<String> = all.iter().take(most).cloned().collect();
    if all.len() > most {
        names.push(format!("and {} more", all.len() - most));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::{CauseObject, OpenStackDeploymentSpec};
    use crate::desired::Desired;
    use crate::observed::{Observed, ReleaseKey};
    use crate::plan::{Decision, Plan, Step};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
    const LATER: Timestamp = Timestamp::constant(1_800_000_100, 0);

    fn cause(message: &str, release: &str, stuck: bool, affected: usize) -> Cause {
        Cause {
            message: message.into(),
            objects: vec![CauseObject { kind: "Pod".into(), namespace: "n".into(), name: "p".into() }],
            stuck,
            is_explained: true,
            releases: BTreeSet::from([ReleaseKey::new("n", release)]),
            affected: (0..affected).map(|number| format!("app/{number}")).collect(),
        }
    }

    fn with<T>(causes: Vec<Cause>, inspect: impl FnOnce(&Report<'_>) -> T) -> T {
        let decision =
            Decision { key: ReleaseKey::new("n", "ours"), step: Step::Ready, cleanup: None, drift_action: None };
        let plan = Plan { decisions: [("ours".to_owned(), decision)].into(), ..Plan::default() };
        let (spec, desired) = (OpenStackDeploymentSpec::default(), Desired::default());
        let observed = Observed { causes, ..Observed::default() };
        inspect(&Report::new(&spec, 1, &desired, &observed, &plan))
    }

    #[test]
    fn keeps_times_and_skips_other_clouds() {
        let found = vec![cause("ours/a: broken", "ours", true, 0), cause("theirs/a: broken", "theirs", true, 0)];
        let first = with(found.clone(), |report| causes(&[], report, NOW));
        assert_eq!(first.iter().map(|cause| cause.message.as_str()).collect::<Vec<_>>(), ["ours/a: broken"]);
        assert_eq!(with(found, |report| causes(&first, report, LATER)), first);
    }

    #[test]
    fn bounds_causes_and_affected_objects() {
        let many = (0..30).map(|number| cause(&format!("ours/{number}: broken"), "ours", true, 25)).collect();
        let found = with(many, |report| causes(&[], report, NOW));
        assert_eq!((found.len(), found[0].affected.len()), (20, 21));
        assert_eq!(found[0].affected[20], "and 5 more");
    }

    #[test]
    fn prepends_first_cause_without_repetition() {
        let prepended =
            |causes, message: &str, grave| with(causes, |report| prepend_cause(message.to_owned(), report, grave));
        let broken = || vec![cause("db/server: db-0: no image", "ours", true, 4)];
        let line = "db/server: db-0: no image (app/0, app/1, app/2, and 1 more waiting)";
        assert_eq!(prepended(broken(), "helm is running for web", true), format!("{line}; helm is running for web"));
        assert_eq!(prepended(broken(), "db: db-0: no image", true), line);
        let waiting = || vec![cause("db/server: db-0: it starts", "ours", false, 0)];
        assert_eq!(prepended(waiting(), "boom", true), "boom");
        assert_eq!(
            prepended(waiting(), "helm is running for web", false),
            "db/server: db-0: it starts; helm is running for web"
        );
    }
}
