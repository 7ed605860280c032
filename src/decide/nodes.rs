//! Labels of nodes.

use std::collections::BTreeMap;

use super::action::{Action, Planned};
use super::draft::Draft;
use osdpl_core::nodes::LabelChange;

/// Plans the labels of nodes; returns what the API server refused.
pub fn label(draft: &mut Draft<'_>, changes: &BTreeMap<String, LabelChange>, reason: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, change) in changes {
        let action = Action::LabelNode { name: name.clone(), change: change.clone() };
        let refusal = draft.attempt(Planned::new(action, reason));
        problems.extend(refusal.map(|refusal| refusal.message.clone()));
    }
    problems
}
