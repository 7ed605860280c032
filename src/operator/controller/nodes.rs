//! Roles of nodes, carried out: every pass looks through the nodes and writes what differs.

use std::collections::BTreeMap;

use super::Context;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::nodes::{self, LabelChange, NodeInventory};

impl Context {
    /// What the spec means for the nodes that are there; nothing where they may not be seen.
    pub(super) fn survey(&self, spec: &OpenStackDeploymentSpec) -> NodeInventory {
        let seen = self.tasks.observe();
        seen.nodes().map(|all| nodes::build_inventory(spec, &self.catalog(), all)).unwrap_or_default()
    }

    /// Writes what differs; says what could not be written.
    pub(super) async fn label_nodes(&self, changes: &BTreeMap<String, LabelChange>) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, change) in changes {
            match self.cluster.label_node(name, &change.uid, &change.labels).await {
                Ok(()) => tracing::info!(node = name, %change, "labelled"),
                Err(error) => problems.push(error.to_string()),
            }
        }
        problems
    }
}
