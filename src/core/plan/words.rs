//! The one wording of every action, reason and wait: status, events, logs and the command line all show these.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

use super::{Action, Wait, Why};
use crate::observed::Verdict;

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install => formatter.write_str("it is not installed"),
            Self::Spec => formatter.write_str("its inputs changed"),
            Self::Catalog => formatter.write_str("the operator or its catalogue changed"),
            Self::Guests(hosts) => write!(
                formatter,
                "Ceph's key for instances changed, and those that run keep the old one until they are moved or restarted ({hosts})"
            ),
            Self::Split(pods) => {
                let each = pods.iter().map(|(component, count)| {
                    format!("{component} on {count} node{}", if *count == 1 { "" } else { "s" })
                });
                let each = each.collect::<Vec<_>>().join(", ");
                write!(
                    formatter,
                    "values for some nodes give its DaemonSets other names and nodes, which restarts {each}"
                )
            }
            Self::Retry(count) => write!(formatter, "the last attempt failed ({count} in a row)"),
            Self::Repair => formatter.write_str("repair was asked for"),
            Self::Drift => formatter.write_str("its objects were changed beside helm"),
            Self::Unwanted => formatter.write_str("it is not wanted any more"),
            Self::Unfinished => formatter.write_str("an uninstall began and did not end"),
            Self::Unmanaged => formatter.write_str("the spec lets it go"),
            Self::Alike => formatter.write_str("it was made by others just as it is wanted"),
            Self::Asked => formatter.write_str("taking it over was asked for"),
            Self::Adopted => formatter.write_str("it was taken over as others made it, which is not as it is wanted"),
            Self::Abandoned(status) => write!(formatter, "a dead attempt left it {status}"),
            Self::Superseded(hook) => write!(formatter, "the wish changed while helm waits in vain ({hook})"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upgrade { delete_jobs } if delete_jobs.is_empty() => formatter.write_str("helm upgrade --install"),
            Self::Upgrade { delete_jobs } => {
                write!(formatter, "delete Jobs {}, helm upgrade --install", delete_jobs.join(", "))
            }
            Self::Uninstall { skip_hooks: false } => formatter.write_str("helm uninstall"),
            Self::Uninstall { skip_hooks: true } => formatter.write_str("helm uninstall --no-hooks"),
            Self::Recover => formatter.write_str("unlock the record"),
            Self::Adopt { .. } => formatter.write_str("label the record"),
            Self::LetGo => formatter.write_str("take our labels from its records"),
            Self::Stop => formatter.write_str("stop helm"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needs(components) => {
                let names = components.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                write!(formatter, "waits for {names}")
            }
            Self::Helm { verb, queued: true, .. } => write!(formatter, "helm {verb} waits for its turn"),
            Self::Helm { verb, hook: Some(hook), .. } if verb == "uninstall" => write!(
                formatter,
                "helm uninstall runs: {hook}; annotate {}=<release> to leave the hook out",
                crate::api::SKIP_HOOKS
            ),
            Self::Helm { verb, hook: Some(hook), .. } => write!(formatter, "helm {verb} runs: {hook}"),
            Self::Helm { verb, .. } => write!(formatter, "helm {verb} runs"),
            Self::Locked { message, .. } | Self::Blocked { message, .. } => formatter.write_str(message),
            Self::Approval(why) => write!(formatter, "{why}: waits for approval (osdpl approve)"),
            Self::Backoff { until, count: 1, message } => {
                write!(formatter, "failed once, next try at {until:.0}: {message}")
            }
            Self::Backoff { until, count, message } => {
                write!(formatter, "failed {count} times in a row, next try at {until:.0}: {message}")
            }
            Self::Paused => formatter.write_str("paused; set `paused: false` to go on"),
            Self::Refused => formatter.write_str("stays as it is until the spec is mended"),
            Self::Record => formatter.write_str("its release record is being read"),
            Self::Dependents(names) => {
                let verb = if names.len() == 1 { "is" } else { "are" };
                write!(formatter, "stays until {} {verb} gone", names.join(", "))
            }
            Self::Foreign { revision, description, since } => write!(
                formatter,
                "revision {revision} was not made by osdpl ({}); change the spec to overwrite it, or annotate {}=<release>",
                by_hand(description, *since),
                crate::api::REPAIR
            ),
            Self::Unmanaged(verdict) => unmanaged(verdict.as_ref(), formatter),
            Self::Undecodable(problem) => write!(formatter, "its release record can't be read: {problem}"),
            Self::Terminating(namespace) => {
                write!(formatter, "namespace {namespace} is being deleted: no Job starts in it any more")
            }
        }
    }
}

fn unmanaged(verdict: Option<&Verdict>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str("a release of this name exists that osdpl did not make; ")?;
    match verdict {
        None => formatter.write_str("take it over (osdpl adopt <release>)")?,
        Some(Verdict::Same) => formatter.write_str("take it over (osdpl adopt <release>): nothing would change")?,
        Some(verdict @ Verdict::Differs { .. }) => {
            write!(formatter, "take it over (osdpl adopt <release>): {verdict}, once that is approved")?;
        }
        Some(Verdict::Owned(text) | Verdict::Unknown(text)) => formatter.write_str(text)?,
    }
    formatter
        .write_str(". Or uninstall it, or give this one another name in services.<service>.releases.<release>.name")
}

/// What someone did by hand, and when, as far as the record tells.
fn by_hand(description: &str, since: Option<Timestamp>) -> String {
    let what =
        if description.is_empty() { "helm upgrade or rollback".to_owned() } else { format!("helm: {description:?}") };
    since.map_or_else(|| format!("{what} by hand"), |since| format!("{what} by hand at {since:.0}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn an_uninstall_that_waits_for_a_hook_names_the_way_out_and_one_failure_is_no_row() {
        let helm = |verb: &str| {
            let hook = Some("pre-delete Job x: waits in init container init".to_owned());
            Wait::Helm { verb: verb.into(), queued: false, hook }.to_string()
        };
        assert_eq!(helm("upgrade"), "helm upgrade runs: pre-delete Job x: waits in init container init");
        let told = helm("uninstall");
        assert!(told.ends_with("init; annotate osdpl.dev/skip-hooks=<release> to leave the hook out"), "{told}");
        let failed = |count| Wait::Backoff { until: Timestamp::UNIX_EPOCH, count, message: "boom".into() }.to_string();
        assert!(failed(1).starts_with("failed once, next try at 1970"), "{}", failed(1));
        assert!(failed(2).starts_with("failed 2 times in a row, next"), "{}", failed(2));
    }
}
