//! What expressions see of Ceph: names and digests, never a key.

use serde_json::{Map, Value, json};

use super::{Ceph, Consumer, User, rook};
use osdpl_values::{Values, digest};

/// The variable `ceph`: for each consumer that Ceph has a user for `user`, `pool` and `digest`, which changes with what the consumer's pods
/// mount; for nova `own`, whether its user is another one than that of volumes; for libvirt `user`, `secret` and `digest`. Where the charts make
/// pools and users themselves there is no `ceph.libvirt`, but `ceph.admin.digest`, and for each consumer `replicas`.
pub fn variables(ceph: &Ceph) -> Values {
    let configuration = ceph.configuration();
    let digest_of = |user: &User| short([configuration.as_str(), user.key.reveal()]);
    let mut variables = Map::new();
    for (consumer, user) in &ceph.users {
        let entry = json!({"user": user.name, "pool": user.pool(*consumer), "digest": digest_of(user)});
        variables.insert(consumer.variable().into(), entry);
    }
    if let Some(admin) = &ceph.admin {
        for (consumer, replicas) in &admin.replicas {
            let (user, pool) = (rook::user(*consumer), consumer.made_pool());
            let digest = short([configuration.as_str()]);
            let entry = json!({"user": user, "pool": pool, "replicas": replicas, "digest": digest});
            variables.insert(consumer.variable().into(), entry);
        }
        let digest = short([configuration.as_str(), admin.key.reveal()]);
        variables.insert("admin".into(), json!({"digest": digest}));
    }
    if let Some(nova) = variables.get_mut(Consumer::Nova.variable()) {
        nova["own"] = ceph.has_own_nova().into();
    }
    let main = ceph.volumes().and_then(|consumer| Some((consumer, ceph.user(consumer)?)));
    if let Some((consumer, user)) = main {
        // libvirt reads no ceph.conf: with each disk nova tells it the monitors.
        let own = ceph.user(Consumer::Nova).filter(|_| ceph.has_own_nova());
        let keys = [Some(user), own].into_iter().flatten().map(|user| user.key.reveal());
        let entry = json!({"user": user.name, "secret": consumer.keyring(), "digest": short(keys)});
        variables.insert("libvirt".into(), entry);
    }
    variables
}

fn short<'a>(parts: impl IntoIterator<Item = &'a str>) -> Value {
    let mut text = digest(parts);
    text.truncate(16);
    text.into()
}

/// Whether an expression takes anything of Ceph: of the variable, not of the feature of that name.
pub fn is_of_ceph(expression: &str) -> bool {
    let mut places = expression.match_indices("ceph.");
    places.any(|(place, _)| !expression[..place].ends_with(|c: char| c.is_alphanumeric() || "._".contains(c)))
}

/// What an expression asks for, by `ceph.<name>`.
pub fn named_in(expression: &str) -> impl Iterator<Item = &str> {
    let rests = expression.split("ceph.").skip(1);
    rests.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
}

impl Consumer {
    /// The one whose user an expression asks for by this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "libvirt" => Some(Self::Nova),
            name => Self::ALL.into_iter().find(|consumer| consumer.variable() == name),
        }
    }
}
