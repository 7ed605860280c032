//! Executes the actions of a maintenance.

use std::collections::BTreeMap;

use kube::ResourceExt;
use osdpl_client::Error;
use osdpl_core::api::{NODE_MAINTENANCE, NodeMaintenance};
use osdpl_core::maintenance::CloudSettings;
use osdpl_core::openstack::{self, Api, nova};

use super::MaintenanceController;
use crate::decide::Action;

/// Why an action of a maintenance failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecuteError {
    #[error(transparent)]
    Cluster(#[from] Error),
    #[error(transparent)]
    OpenStack(#[from] openstack::Error),
}

impl MaintenanceController {
    /// Executes an action. If Nova refuses to migrate an instance, adds the instance's UUID and Nova's message to
    /// `refused_migrations`.
    pub(super) async fn execute(
        &self,
        maintenance: &NodeMaintenance,
        action: &Action,
        setting: Option<&CloudSettings>,
        refused_migrations: &mut BTreeMap<String, String>,
    ) -> Result<(), ExecuteError> {
        let (name, node) = (maintenance.name_any(), &maintenance.spec.node);
        tracing::info!(maintenance = name, node, ?action, "executing a maintenance action");
        match action {
            Action::AddFinalizer => self.cluster.set_finalizer(maintenance, true).await?,
            Action::Disable { id, reason } => self.call_nova(setting, &nova::disable(id, reason)).await?,
            Action::Enable { id } => self.call_nova(setting, &nova::enable(id)).await?,
            Action::Migrate(ids) => {
                for id in ids {
                    match self.call_nova(setting, &nova::live_migrate(id)).await {
                        // These codes mean that Nova refuses to migrate the instance. Any other error may be temporary,
                        // for example while Nova starts. In this case the action fails, and the controller retries the
                        // action.
                        Err(openstack::Error::Refused { status, message, code: 400 | 403 | 404 | 409, .. }) => {
                            refused_migrations.insert(id.clone(), message.unwrap_or(status));
                        }
                        other => other?,
                    }
                }
            }
            Action::ClearRetry => {
                refused_migrations.clear();
                self.cluster.remove_retry_annotation(maintenance).await?;
            }
            Action::Cordon => self.cordon(node, Some(&name)).await?,
            Action::Uncordon => self.cordon(node, None).await?,
            Action::RemoveFinalizer => {
                self.cluster.set_finalizer(maintenance, false).await?;
                self.trigger.notify_one();
            }
        }
        Ok(())
    }

    async fn call_nova(
        &self,
        setting: Option<&CloudSettings>,
        call: &openstack::Call<()>,
    ) -> Result<(), openstack::Error> {
        let access =
            setting.and_then(|setting| setting.access.as_ref()).ok_or(openstack::Error::Absent(Api::Compute))?;
        self.openstack.call(access, call).await
    }

    /// Cordons a node for the maintenance named `by`; uncordons it if `by` is `None`.
    async fn cordon(&self, node: &str, by: Option<&str>) -> Result<(), Error> {
        let Some(node) = self.cluster.get_node(node).await? else { return Ok(()) };
        let marked = node.annotations().contains_key(NODE_MAINTENANCE);
        let cordoned = node.spec.unschedulable;
        // If someone else has cordoned the node since the decision, do not add osdpl's annotation. Without the
        // annotation, this maintenance will not uncordon the node later.
        if by.is_some() && cordoned && !marked {
            return Ok(());
        }
        self.cluster.set_cordon(&node, by).await
    }
}
