//! Runs `osdpl detach` for one release, and later for all. After each run, a user can upgrade the detached releases
//! with plain helm.

use osdpl_core::api::OpenStackDeployment;
use osdpl_values::{Path, get};
use serde_json::json;

use super::manual_install::{InstallOptions, ManualRelease};
use crate::cloud::StatusAccess;
use crate::operator::Operator;
use crate::world::World;

impl World {
    /// Detaches memcached and later all other releases. After each step, upgrades a detached release with plain helm.
    pub async fn detach_one_then_all(&self, options: &InstallOptions, cloud: &[ManualRelease], operator: Operator) {
        let one = |release: &str| cloud.iter().find(|one| one.release() == release).unwrap();
        let (memcached, keystone) = (one("memcached"), one("keystone"));
        // After this command, a user can upgrade memcached with plain helm again, while osdpl still manages the other
        // releases.
        self.osdpl(&["detach", "--namespace", &self.namespace, "memcached"]);
        let is_unmanaged =
            |cloud: &OpenStackDeployment| cloud.child("memcached").message.starts_with("unmanaged:").then_some(());
        self.until("memcached is unmanaged", is_unmanaged).await;
        self.upgrade_manually(options, memcached, "conf.memcached.memory=77");
        let is_observed = |cloud: &OpenStackDeployment| {
            (cloud.child("memcached").revision == Some(2) && cloud.is_ready()).then_some(())
        };
        self.until("the cloud is Ready, and its status contains memcached's manual revision 2", is_observed).await;

        self.detach_all(options, cloud, operator).await;
        let mut before = self.merged_values(keystone);
        self.upgrade_manually(options, keystone, "conf.keystone.DEFAULT.debug=false");
        osdpl_values::set(&mut before, &Path::parse("conf.keystone.DEFAULT.debug").unwrap(), json!(false));
        let after = self.merged_values(keystone);
        assert_eq!(after, before);
        for (path, password) in keystone.passwords() {
            assert_eq!(get(&after, &path), Some(password), "{path}");
        }
    }

    /// Detaches all releases. Checks that the plan announces the removal of osdpl's labels, and that no release is
    /// uninstalled, upgraded or restarted.
    async fn detach_all(&self, options: &InstallOptions, cloud: &[ManualRelease], operator: Operator) {
        let helm_list = || self.helm_prints(&["list", "--all-namespaces", "--output", "json", "--time-format", "2006"]);
        let (pods, releases) = (self.pods().await, helm_list());
        // `osdpl detach --all` deletes the OpenStackDeployment. Stop the operator first, so that it does not finish the
        // deletion before `osdpl plan` prints the plan of the deletion.
        assert!(operator.stop().await.success());
        self.osdpl(&["detach", "--namespace", &self.namespace, "--all"]);
        let plan = self.osdpl(&["plan"]);
        for one in cloud.iter().filter(|one| one.release() != "memcached") {
            let line = plan.lines().find(|line| line.starts_with(one.release())).unwrap_or_default();
            assert!(line.contains("remove osdpl's labels from its records"), "{}: {plan}", one.name);
        }
        let _operator = self.operator().charts(&options.charts).start().await;
        self.until_gone().await;
        assert!(self.labels_on_records().await.is_empty());
        assert_eq!((helm_list(), self.pods().await), (releases, pods));
    }
}
