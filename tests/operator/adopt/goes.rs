//! Detach: one release goes, then all, and plain helm goes on with each.

use osdpl_core::api::OpenStackDeployment;
use osdpl_values::{Path, get};
use serde_json::json;

use super::by_hand::{ByHand, Setting};
use crate::cloud::Told;
use crate::operator::Operator;
use crate::world::World;

impl World {
    /// Lets one release go, and then the rest.
    pub async fn leaves(&self, setting: &Setting, cloud: &[ByHand], operator: Operator) {
        let one = |release: &str| cloud.iter().find(|one| one.release() == release).unwrap();
        let (cache, keystone) = (one("memcached"), one("keystone"));
        // One release goes, and helm goes on with it while the rest stays.
        self.osdpl(&["detach", "--namespace", &self.namespace, "memcached"]);
        let gone =
            |cloud: &OpenStackDeployment| cloud.child("memcached").message.starts_with("unmanaged:").then_some(());
        self.until("memcached is let go", gone).await;
        self.goes_on(setting, cache, "conf.memcached.memory=77");
        let seen = |cloud: &OpenStackDeployment| {
            (cloud.child("memcached").revision == Some(2) && cloud.is_ready()).then_some(())
        };
        self.until("its next revision is seen, and is nobody's business", seen).await;

        self.goes_whole(setting, cloud, operator).await;
        let mut before = self.seen(keystone);
        self.goes_on(setting, keystone, "conf.keystone.DEFAULT.debug=false");
        osdpl_values::set(&mut before, &Path::parse("conf.keystone.DEFAULT.debug").unwrap(), json!(false));
        let after = self.seen(keystone);
        assert_eq!(after, before);
        for (place, password) in keystone.passwords() {
            assert_eq!(get(&after, &place), Some(password), "{place}");
        }
    }

    /// Lets the whole cloud go, with a look at the plan before it happens: nothing is uninstalled, upgraded or restarted.
    async fn goes_whole(&self, setting: &Setting, cloud: &[ByHand], operator: Operator) {
        let runs = || self.helm_prints(&["list", "--all-namespaces", "--output", "json", "--time-format", "2006"]);
        let (pods, releases) = (self.pods().await, runs());
        // With nobody to carry it out the deletion can be looked at.
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
