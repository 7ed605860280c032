//! Detaching: first one release, then all of them. Plain helm can manage each release afterwards.

use osdpl_core::api::OpenStackDeployment;
use osdpl_values::{Path, get};
use serde_json::json;

use super::by_hand::{ByHand, Setting};
use crate::cloud::StatusAccess;
use crate::operator::Operator;
use crate::world::World;

impl World {
    /// Detaches one release, and then the others.
    pub async fn detach_one_then_all(&self, setting: &Setting, cloud: &[ByHand], operator: Operator) {
        let one = |release: &str| cloud.iter().find(|one| one.release() == release).unwrap();
        let (cache, keystone) = (one("memcached"), one("keystone"));
        // Detach one release; helm manages it again while the others stay managed.
        self.osdpl(&["detach", "--namespace", &self.namespace, "memcached"]);
        let gone =
            |cloud: &OpenStackDeployment| cloud.child("memcached").message.starts_with("unmanaged:").then_some(());
        self.until("memcached is let go", gone).await;
        self.upgrade_manually(setting, cache, "conf.memcached.memory=77");
        let seen = |cloud: &OpenStackDeployment| {
            (cloud.child("memcached").revision == Some(2) && cloud.is_ready()).then_some(())
        };
        self.until("its next revision is observed and ignored", seen).await;

        self.detach_all(setting, cloud, operator).await;
        let mut before = self.seen(keystone);
        self.upgrade_manually(setting, keystone, "conf.keystone.DEFAULT.debug=false");
        osdpl_values::set(&mut before, &Path::parse("conf.keystone.DEFAULT.debug").unwrap(), json!(false));
        let after = self.seen(keystone);
        assert_eq!(after, before);
        for (place, password) in keystone.passwords() {
            assert_eq!(get(&after, &place), Some(password), "{place}");
        }
    }

    /// Detaches the whole cloud after checking the plan: nothing is uninstalled, upgraded or restarted.
    async fn detach_all(&self, setting: &Setting, cloud: &[ByHand], operator: Operator) {
        let runs = || self.helm_prints(&["list", "--all-namespaces", "--output", "json", "--time-format", "2006"]);
        let (pods, releases) = (self.pods().await, runs());
        // Without a running operator the plan of the deletion can be inspected.
        assert!(operator.stop().await.success());
        self.osdpl(&["detach", "--namespace", &self.namespace, "--all"]);
        let plan = self.osdpl(&["plan"]);
        for one in cloud.iter().filter(|one| one.release() != "memcached") {
            let line = plan.lines().find(|line| line.starts_with(one.release())).unwrap_or_default();
            assert!(line.contains("remove our labels from its records"), "{}: {plan}", one.name);
        }
        let _operator = self.operator().charts(&setting.charts).start().await;
        self.until_gone().await;
        assert!(self.labels_on_records().await.is_empty());
        assert_eq!((runs(), self.pods().await), (releases, pods));
    }
}
