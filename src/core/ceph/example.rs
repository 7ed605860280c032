//! Creates placeholder settings of a Ceph cluster, for commands that resolve a spec without access to Kubernetes.

use std::collections::BTreeMap;

use super::{Ceph, CephxKey, Consumer, Gateway, Layout, Monitors, Pool, Url, User};

/// Returns the settings of a Ceph cluster that does not exist. The names of its users and pools contain the word
/// `placeholder`, so that people do not take them for names of a real cluster.
pub fn example() -> Ceph {
    let key = CephxKey::placeholder();
    let user = |consumer: Consumer| {
        let name = if consumer == Consumer::Nova { Consumer::Cinder.user() } else { consumer.user() };
        let pools = vec![Pool { name: format!("placeholder.{}", consumer.name()), role: None, device_class: None }];
        (consumer, User { name: format!("placeholder.{name}"), key: key.clone(), pools })
    };
    let users: BTreeMap<Consumer, User> = Consumer::ALL.map(user).into();
    let fsid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    Ceph {
        object: "the placeholder".into(),
        layout: Layout::Placeholder,
        monitors: Monitors::example(),
        fsid,
        users,
        admin: None,
    }
}

impl Ceph {
    /// Replaces the cephx keys of all Ceph users with a placeholder, and removes the settings of `client.admin`.
    pub fn hide_keys(&mut self) {
        for user in self.users.values_mut() {
            user.key = CephxKey::placeholder();
        }
        self.admin = None;
    }
}

/// Returns gateways of an object store that do not exist. The domain `invalid` of their URL is reserved and never
/// exists.
pub fn example_gateway() -> Gateway {
    let url = Url { scheme: "http".into(), host: "rgw.placeholder.invalid".into(), port: 80 };
    Gateway::External { internal: url.clone(), public: url }
}
