//! Determines the nodes that an entry of `spec.nodes.overrides` selects. An entry can select nodes only by the values
//! of one label or by name, because charts support no other selection.

use std::collections::BTreeSet;

use osdpl_values::CollectSorted;

use crate::api::{NodeOperator, NodeOverride, NodeSelector};
use crate::observed::Labels;

/// A set of nodes that a chart can select: by the values of one label, or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeTarget {
    /// The nodes on which this label has one of these values.
    Label(String, BTreeSet<String>),
    /// The nodes with these names.
    Hosts(BTreeSet<String>),
}

impl NodeTarget {
    /// Whether the target selects a node with the name `name` and the labels `labels`.
    pub fn fits(&self, name: &str, labels: &Labels) -> bool {
        match self {
            Self::Label(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::Hosts(names) => names.contains(name),
        }
    }

    /// Whether two targets have a common node name, or a common value of the same label. For the nodes with this name
    /// or value, the values of the later entry of `spec.nodes.overrides` override those of the earlier entry.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Label(key, values), Self::Label(other_key, others)) => {
                key == other_key && !values.is_disjoint(others)
            }
            (Self::Hosts(names), Self::Hosts(others)) => !names.is_disjoint(others),
            (Self::Label(..), Self::Hosts(_)) | (Self::Hosts(_), Self::Label(..)) => false,
        }
    }
}

/// Returns the nodes that an entry of `spec.nodes.overrides` selects, in a form that charts support.
///
/// # Errors
/// Returns the reason and the remedy as a message if charts can't select these nodes.
pub fn parse_target(entry: &NodeOverride) -> Result<NodeTarget, String> {
    let Some(selector) = &entry.selector else {
        return Ok(NodeTarget::Hosts(entry.nodes.iter().cloned().collect_set()));
    };
    let NodeSelector { match_labels, match_expressions } = selector;
    match (match_labels.iter().collect::<Vec<_>>().as_slice(), match_expressions.as_slice()) {
        ([(key, value)], []) => Ok(NodeTarget::Label((*key).clone(), BTreeSet::from([(*value).clone()]))),
        ([], [required]) if required.operator == NodeOperator::In => {
            Ok(NodeTarget::Label(required.key.clone(), required.values.iter().cloned().collect_set()))
        }
        ([], [required]) => Err(unsupported(&format!("{:?}", required.operator))),
        _ => Err(unsupported("several labels at once")),
    }
}

fn unsupported(what: &str) -> String {
    format!(
        "uses {what}, but charts can select nodes only by the values of one label; add a label to these nodes with a role (spec.nodes.roles), and select by that label"
    )
}
