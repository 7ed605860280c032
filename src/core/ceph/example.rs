//! A placeholder Ceph, for commands without access to a cluster.

use std::collections::BTreeMap;

use super::{Ceph, CephxKey, Consumer, Gateway, Layout, Monitors, Pool, Url, User};

/// Returns a placeholder Ceph with upstream's names, which `osdpl render` uses.
pub fn example() -> Ceph {
    let key = CephxKey::placeholder();
    let pool = |consumer| match consumer {
        Consumer::Glance => "glance.images",
        Consumer::Cinder => "cinder.volumes",
        Consumer::CinderBackup => "cinder.backups",
        Consumer::Nova => "vms",
        Consumer::Manila => "manila",
        Consumer::Gnocchi => "gnocchi.metrics",
    };
    let user = |consumer: Consumer| {
        let name = if consumer == Consumer::Nova { Consumer::Cinder.user() } else { consumer.user() };
        let pools = vec![Pool { name: pool(consumer).to_owned(), role: None, device_class: None }];
        (consumer, User { name: name.to_owned(), key: key.clone(), pools })
    };
    let users: BTreeMap<Consumer, User> = Consumer::ALL.map(user).into();
    let fsid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    Ceph {
        object: "the example".into(),
        layout: Layout::Documented,
        monitors: Monitors::example(),
        fsid,
        users,
        admin: None,
    }
}

/// Returns placeholder gateways.
pub fn example_gateway() -> Gateway {
    let url = Url { scheme: "http".into(), host: "rgw.example.org".into(), port: 80 };
    Gateway::External { internal: url.clone(), public: url }
}
