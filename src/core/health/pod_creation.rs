//! Formats the error that a controller, such as the `ReplicaSet` controller, reports if it can't create pods.

use super::Condition;
use crate::scrub::Scrubber;

/// The type of the condition that a Deployment has while its `ReplicaSet` cannot create pods.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The maximum number of characters that osdpl shows of a message from Kubernetes. osdpl cuts off the rest.
const MESSAGE_MAX: usize = 240;

/// Returns the reason why Kubernetes can't create the pods of a Deployment; `None` if the Deployment's conditions
/// contain no such error.
pub(super) fn of_deployment(conditions: &[Condition], scrubber: &Scrubber) -> Option<String> {
    let failure =
        conditions.iter().find(|condition| condition.kind == REPLICA_FAILURE && condition.status == "True")?;
    Some(describe_creation_error(&scrubber.scrub_output(&failure.message)))
}

/// Formats the API server's refusal to create a pod: `no pod can be created: forbidden: exceeded quota: …`.
///
/// The result leaves out the pod's name and the text before the name. The controller that creates the pod chooses
/// another name each time it tries again, so a message with the name would change each time.
pub fn describe_creation_error(message: &str) -> String {
    let reason = message.split_once("pods \"").and_then(|(_, rest)| rest.split_once("\" "));
    let reason = reason.map_or(message, |(_, rest)| rest.strip_prefix("is ").unwrap_or(rest));
    format!("no pod can be created: {}", shorten(reason))
}

/// Formats a message as one line, and cuts off the part that exceeds the maximum length.
pub fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_pod_name_and_controller_prefix() {
        let quota = "exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3";
        for (message, expected) in [
            (format!("pods \"api-5f-x7k2p\" is forbidden: {quota}"), format!("forbidden: {quota}")),
            (format!("create Pod db-0 in StatefulSet db failed error: pods \"db-0\" is forbidden: {quota}"), format!("forbidden: {quota}")),
            (
                "Error creating: pods \"nova-\" is forbidden: error looking up service account n/nova: serviceaccount \"nova\" not found".into(),
                "forbidden: error looking up service account n/nova: serviceaccount \"nova\" not found".into(),
            ),
            ("admission webhook \"w\" denied the request".into(), "admission webhook \"w\" denied the request".into()),
            ("a\nb".into(), "a b".into()),
        ] {
            assert_eq!(describe_creation_error(&message), format!("no pod can be created: {expected}"));
        }
        assert!(describe_creation_error(&"long ".repeat(100)).chars().count() < 300);
    }
}
