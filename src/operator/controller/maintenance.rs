//! Passes the cloud's maintenance settings from the last plan to the controller of `NodeMaintenance` resources.

use std::sync::Arc;

use futures::FutureExt;
use kube::runtime::reflector::Store;
use tokio::sync::watch;

use super::Context;
use osdpl_client::Stored;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::maintenance::CloudSettings;

impl Context {
    /// Tells the controller of `NodeMaintenance` resources that there is no cloud any more.
    ///
    /// The operator calls this function after it has removed the finalizer from the cloud's `OpenStackDeployment`.
    /// Until then, the controller uses the settings of the last plan.
    pub(super) fn clear_maintenance_setting(&self) {
        self.set_maintenance_setting(CloudSettings::none());
    }

    /// Stores the settings of a plan, and notifies the controller of `NodeMaintenance` resources if the settings have
    /// changed.
    pub(super) fn set_maintenance_setting(&self, setting: CloudSettings) {
        self.setting.send_if_modified(|known| {
            let different = known.as_deref() != Some(&setting);
            if different {
                *known = Some(Arc::new(setting));
            }
            different
        });
    }

    /// Returns the cloud's settings from the last plan that contains them. After osdpl has removed the finalizer of the
    /// cloud's `OpenStackDeployment`, returns [`CloudSettings::none`].
    ///
    /// Before the first plan with settings, returns [`CloudSettings::none`] if the watch has listed all
    /// `OpenStackDeployment`s and found none in a namespace in which the operator has rights, and otherwise `None`.
    pub(crate) fn maintenance_setting(&self) -> Option<Arc<CloudSettings>> {
        let known = self.setting.borrow().clone();
        let is_listed = |store: &&Store<Stored<OpenStackDeployment>>| {
            matches!(store.wait_until_ready().now_or_never(), Some(Ok(())))
        };
        let is_without_cloud = |store: &Store<Stored<OpenStackDeployment>>| {
            !store.state().iter().any(|one| self.is_in_scope(one.as_ref()))
        };
        let has_no_cloud = || self.deployments.get().filter(is_listed).is_some_and(is_without_cloud);
        known.or_else(|| has_no_cloud().then(|| Arc::new(CloudSettings::none())))
    }

    /// Returns a receiver that is notified when the cloud's settings change.
    pub(crate) fn watch_maintenance_setting(&self) -> watch::Receiver<Option<Arc<CloudSettings>>> {
        self.setting.subscribe()
    }
}
