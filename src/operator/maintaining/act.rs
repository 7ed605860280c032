//! Executes one action.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::MaintenanceController;
use crate::cluster;
use osdpl_core::api::{NODE_MAINTENANCE, NodeMaintenance};
use osdpl_core::maintenance::{Act, Setting};
use osdpl_core::openstack::{self, Api, nova};

/// The error of an action.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActError {
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    #[error(transparent)]
    Cloud(#[from] openstack::Error),
}

impl MaintenanceController {
    pub(super) async fn act(
        &self,
        maintenance: &NodeMaintenance,
        act: &Act,
        setting: Option<&Setting>,
        refused: &mut BTreeMap<String, String>,
    ) -> Result<(), ActError> {
        let (name, node) = (maintenance.name_any(), &maintenance.spec.node);
        let cluster = &self.context.cluster;
        tracing::info!(maintenance = name, node, ?act, "executing a maintenance action");
        match act {
            Act::AddFinalizer => cluster.hold_maintenance(maintenance, true).await?,
            Act::Disable { id, reason } => self.nova(setting, &nova::disable(id, reason)).await?,
            Act::Enable { id } => self.nova(setting, &nova::enable(id)).await?,
            Act::Migrate(ids) => {
                for id in ids {
                    match self.nova(setting, &nova::live_migrate(id)).await {
                        // Other errors are retried: nova may just be starting.
                        Err(openstack::Error::Refused { answer, said, code: 400 | 403 | 404 | 409, .. }) => {
                            refused.insert(id.clone(), said.unwrap_or(answer));
                        }
                        other => other?,
                    }
                }
            }
            Act::ClearRetry => {
                refused.clear();
                cluster.forgive_maintenance(maintenance).await?;
            }
            Act::Cordon => self.cordon(node, Some(&name)).await?,
            Act::Uncordon => self.cordon(node, None).await?,
            Act::RemoveFinalizer => {
                cluster.hold_maintenance(maintenance, false).await?;
                self.trigger.notify_one();
            }
        }
        Ok(())
    }

    async fn nova(&self, setting: Option<&Setting>, call: &openstack::Call<()>) -> Result<(), openstack::Error> {
        let access =
            setting.and_then(|setting| setting.access.as_ref()).ok_or(openstack::Error::Absent(Api::Compute))?;
        self.cloud.call(access, call).await
    }

    async fn cordon(&self, node: &str, by: Option<&str>) -> Result<(), cluster::Error> {
        let Some(node) = self.context.cluster.node(node).await? else { return Ok(()) };
        let marked = node.annotations().contains_key(NODE_MAINTENANCE);
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
        // Someone else cordoned it in the meantime, so it is not ours.
        if by.is_some() && cordoned && !marked {
            return Ok(());
        }
        self.context.cluster.cordon(&node, by).await
    }
}
