//! What a pass hands on to the maintenance of nodes.

use std::sync::Arc;

use futures::FutureExt;
use kube::runtime::reflector::Store;
use tokio::sync::watch;

use super::Context;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::maintenance::Setting;

impl Context {
    /// Says that there is no cloud any more: its nova was uninstalled. While it is being removed what was said before stands.
    pub(super) fn unsettle(&self) {
        self.say(Setting::none());
    }

    /// Hands on what a plan says about maintenance.
    pub(super) fn say(&self, setting: Setting) {
        self.setting.send_if_modified(|known| {
            let different = known.as_deref() != Some(&setting);
            if different {
                *known = Some(Arc::new(setting));
            }
            different
        });
    }

    /// What the cloud means for nodes that are taken out; nothing where there is one of which nothing was read yet.
    pub fn setting(&self) -> Option<Arc<Setting>> {
        let said = self.setting.borrow().clone();
        let listed =
            |store: &&Store<OpenStackDeployment>| matches!(store.wait_until_ready().now_or_never(), Some(Ok(())));
        let nobody = || self.deployments.get().filter(listed).is_some_and(Store::is_empty);
        said.or_else(|| nobody().then(|| Arc::new(Setting::none())))
    }

    /// Tells when that changes.
    pub fn settings(&self) -> watch::Receiver<Option<Arc<Setting>>> {
        self.setting.subscribe()
    }
}
