//! The texts of all actions, reasons and waits, as osdpl shows them in the status, in events, in logs and on the
//! command line.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

use super::{Action, Reason, Wait};
use crate::observed::ComparisonResult;
use crate::release::Verb;

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install => formatter.write_str("it is not installed"),
            Self::Spec => formatter.write_str("its inputs changed"),
            Self::Catalog => formatter.write_str("the operator or its catalogue changed"),
            Self::Additions(names) => {
                let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                write!(formatter, "the content of ConfigMaps in spec.catalog changed: {names}")
            }
            Self::Chart => formatter.write_str("the content of its chart changed under the same version"),
            Self::Instances(hosts) => write!(
                formatter,
                "Ceph's key for instances changed: running instances keep the old key until they are migrated or restarted ({hosts})"
            ),
            Self::Split(pods) => {
                let each = pods.iter().map(|(component, count)| {
                    format!("{component} on {count} node{}", if *count == 1 { "" } else { "s" })
                });
                let each = each.collect::<Vec<_>>().join(", ");
                write!(
                    formatter,
                    "its values divide the nodes differently among its DaemonSets, which can restart the pods of {each}"
                )
            }
            Self::Crds(names) => write!(
                formatter,
                "its chart changes CRDs that already exist in the cluster, which affects all objects of these CRDs: {}",
                names.join(", ")
            ),
            Self::Retry(1) => formatter.write_str("the last attempt failed"),
            Self::Retry(count) => write!(formatter, "the last {count} attempts failed"),
            Self::Repair => formatter.write_str("a repair was requested"),
            Self::Drift => formatter.write_str("its objects were changed outside of helm"),
            Self::NotDesired => formatter.write_str("it is no longer desired"),
            Self::NotOwned => formatter.write_str(
                "it is not desired, and the status of the OpenStackDeployment does not list it, but its release record \
                 has osdpl's labels (to keep the release, remove these labels from the record)",
            ),
            Self::Unfinished => formatter.write_str("an earlier uninstall did not finish"),
            Self::Unmanaged => formatter.write_str("the spec sets managed: false for it"),
            Self::Matches => formatter.write_str("its newest revision already equals the desired state"),
            Self::AdoptRequested => formatter.write_str("its adoption was requested"),
            Self::Adopted => formatter.write_str("it was adopted and differs from the desired state"),
            Self::Abandoned(status) => {
                write!(formatter, "an interrupted helm operation left it in the status {status}")
            }
            Self::Superseded(Some(hook)) => {
                write!(formatter, "the running helm operation is outdated, and waits for the hook {hook}")
            }
            Self::Superseded(None) => formatter.write_str("the running helm operation is outdated"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upgrade { delete_jobs, skip_hooks } => {
                if !delete_jobs.is_empty() {
                    write!(formatter, "delete Jobs {}, ", delete_jobs.join(", "))?;
                }
                write!(formatter, "helm upgrade --install{}", if *skip_hooks { " --no-hooks" } else { "" })
            }
            Self::Uninstall { skip_hooks: false } => formatter.write_str("helm uninstall"),
            Self::Uninstall { skip_hooks: true } => formatter.write_str("helm uninstall --no-hooks"),
            Self::Unlock => formatter.write_str("unlock the record"),
            Self::Adopt { .. } => formatter.write_str("label the record"),
            Self::Unmanage => formatter.write_str("remove osdpl's labels from its records"),
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
            Self::Helm { verb, queued: true, .. } => {
                write!(formatter, "helm {verb} waits until another helm process ends")
            }
            Self::Helm { verb: Verb::Uninstall, hook: Some(hook), .. } => write!(
                formatter,
                "helm uninstall runs: {hook}; to skip the hook, annotate the OpenStackDeployment with {}=<release>",
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
            Self::Paused => formatter.write_str("paused; set `paused: false` to resume"),
            Self::Refused => {
                formatter.write_str("the spec has errors, so osdpl does not change this release; correct the spec")
            }
            Self::ReleaseRecord => formatter.write_str("osdpl is still reading the release record"),
            Self::Dependents(names) => {
                let verb = if names.len() == 1 { "is" } else { "are" };
                write!(formatter, "waits until {} {verb} uninstalled", names.join(", "))
            }
            Self::Foreign { revision, description, since } => write!(
                formatter,
                "osdpl did not make revision {revision} ({}); to overwrite it, change the spec, or annotate the OpenStackDeployment with {}=<release>",
                by_hand(description, *since),
                crate::api::REPAIR
            ),
            Self::Unmanaged(result) => unmanaged(result.as_ref(), formatter),
            Self::Undecodable(problem) => write!(formatter, "osdpl can't read the release record: {problem}"),
            Self::Terminating(namespace) => {
                write!(formatter, "namespace {namespace} is being deleted, so Kubernetes creates no objects in it")
            }
        }
    }
}

fn unmanaged(result: Option<&ComparisonResult>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str("a release of this name exists that osdpl did not install; ")?;
    match result {
        None => formatter.write_str("adopt it (osdpl adopt <release>)")?,
        Some(ComparisonResult::Same) => {
            formatter.write_str("adopt it (osdpl adopt <release>): nothing would change")?;
        }
        Some(result @ ComparisonResult::Differs { .. }) => {
            write!(formatter, "adopt it (osdpl adopt <release>) and approve the upgrade: {result}")?;
        }
        Some(ComparisonResult::Owned(text) | ComparisonResult::Unknown(text)) => formatter.write_str(text)?,
    }
    formatter.write_str(
        ". Or uninstall it, or set another name for the release in services.<service>.releases.<release>.name",
    )
}

/// Describes the helm operation that someone ran on the release without osdpl, and its time if the time is known.
fn by_hand(description: &str, since: Option<Timestamp>) -> String {
    let operation =
        if description.is_empty() { "helm upgrade or rollback".to_owned() } else { format!("helm: {description:?}") };
    since.map_or_else(|| format!("{operation} by hand"), |since| format!("{operation} by hand at {since:.0}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn names_skip_hooks_annotation_for_blocked_uninstalls() {
        let helm = |verb| {
            let hook = Some("pre-delete Job x: waits in init container init".to_owned());
            Wait::Helm { verb, queued: false, hook }.to_string()
        };
        assert_eq!(helm(Verb::Upgrade), "helm upgrade runs: pre-delete Job x: waits in init container init");
        let message = helm(Verb::Uninstall);
        assert!(
            message.ends_with(
                "init; to skip the hook, annotate the OpenStackDeployment with osdpl.dev/skip-hooks=<release>"
            ),
            "{message}"
        );
        let failed = |count| Wait::Backoff { until: Timestamp::UNIX_EPOCH, count, message: "boom".into() }.to_string();
        assert!(failed(1).starts_with("failed once, next try at 1970"), "{}", failed(1));
        assert!(failed(2).starts_with("failed 2 times in a row, next"), "{}", failed(2));
    }
}
