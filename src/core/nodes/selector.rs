//! Label selectors with the semantics of Kubernetes (`k8s.io/apimachinery/pkg/labels`).

use crate::api::{NodeOperator, NodeSelector};
use crate::observed::Labels;

/// Whether a selector matches a node with these labels. An empty selector matches every node.
pub fn selector_matches(selector: &NodeSelector, labels: &Labels) -> bool {
    let same = selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
    let holds = selector.match_expressions.iter().all(|required| {
        let value = labels.get(&required.key);
        let named = value.is_some_and(|value| required.values.contains(value));
        match required.operator {
            NodeOperator::In => named,
            NodeOperator::NotIn => !named,
            NodeOperator::Exists => value.is_some(),
            NodeOperator::DoesNotExist => value.is_none(),
        }
    });
    same && holds
}
