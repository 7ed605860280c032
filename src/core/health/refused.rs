//! What controllers say that are refused what they want to make.

use super::workload::Condition;

/// The condition of a Deployment whose `ReplicaSet` can't make its pods.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The longest message of others that is passed on, in characters.
const MESSAGE_MAX: usize = 240;

/// Why a Deployment's pods can't be made, where its conditions say so.
pub(super) fn of_deployment(conditions: &[Condition]) -> Option<String> {
    let failure =
        conditions.iter().find(|condition| condition.kind == REPLICA_FAILURE && condition.status == "True")?;
    Some(no_pod(&failure.message))
}

/// `no pod can be created: forbidden: exceeded quota: …`, from the API server's words in whatever a controller wraps them in. The name of the
/// pod, which another attempt has another one of, is left out.
pub fn no_pod(message: &str) -> String {
    let said = message.split_once("pods \"").and_then(|(_, rest)| rest.split_once("\" "));
    let said = said.map_or(message, |(_, rest)| rest.strip_prefix("is ").unwrap_or(rest));
    format!("no pod can be created: {}", shortened(said))
}

/// One line, of bounded length.
pub fn shortened(text: &str) -> String {
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
    fn what_the_api_server_says_is_told_without_the_pods_name_and_the_controllers_words() {
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
            assert_eq!(no_pod(&message), format!("no pod can be created: {expected}"));
        }
        assert!(no_pod(&"long ".repeat(100)).chars().count() < 300);
    }
}
