//! Builds the variable `ceph`, which expressions of the catalogue read. The variable contains the names of Ceph's users
//! and pools, and digests of cephx keys, but no keys.

use serde_json::{Map, Value, json};

use super::{Ceph, Consumer, User, rook};
use osdpl_values::{Values, digest};

/// Returns the content of the variable `ceph` from the settings of a Ceph cluster.
///
/// * `ceph.<consumer>`, such as `ceph.glance`, has `user`, `pool` and `digest` if the consumer has a Ceph user. The
///   value of `digest` changes if `ceph.conf` or the cephx key that the consumer's pods mount changes.
/// * `ceph.libvirt` has `user`, `secret` and `digest`. `user` is the Ceph user with which libvirt attaches volumes:
///   Cinder's user or, if Cinder has none, Nova's user. `secret` is the name of the Secret with the cephx key of this
///   user. The value of `digest` changes if one of the cephx keys that libvirt uses changes.
/// * `ceph.nova.own` is true if Nova's Ceph user is another user than `ceph.libvirt.user`.
/// * If the charts create pools and users themselves, `ceph.admin.digest` exists instead of `ceph.libvirt`. Each
///   consumer then has `user`, `pool`, `replicas` and `digest`.
pub fn variables(ceph: &Ceph) -> Values {
    let configuration = ceph.configuration();
    let digest_of = |user: &User| short_digest([configuration.as_str(), user.key.reveal()]);
    let mut variables = Map::new();
    for (consumer, user) in &ceph.users {
        let entry = json!({"user": user.name, "pool": user.pool(*consumer), "digest": digest_of(user)});
        variables.insert(consumer.variable().into(), entry);
    }
    if let Some(admin) = &ceph.admin {
        for (consumer, replicas) in &admin.replicas {
            let (user, pool) = (rook::user(*consumer), consumer.rook_pool());
            let digest = short_digest([configuration.as_str()]);
            let entry = json!({"user": user, "pool": pool, "replicas": replicas, "digest": digest});
            variables.insert(consumer.variable().into(), entry);
        }
        let digest = short_digest([configuration.as_str(), admin.key.reveal()]);
        variables.insert("admin".into(), json!({"digest": digest}));
    }
    if let Some(nova) = variables.get_mut(Consumer::Nova.variable()) {
        nova["own"] = ceph.has_own_nova().into();
    }
    let main = ceph.volume_consumer().and_then(|consumer| Some((consumer, ceph.user(consumer)?)));
    if let Some((consumer, user)) = main {
        // Libvirt's pods restart if this digest changes. The pods use the Ceph users' cephx keys, but no `ceph.conf`,
        // because Nova passes the monitors' addresses with each disk. So the digest must change only if one of these
        // keys changes.
        let own = ceph.user(Consumer::Nova).filter(|_| ceph.has_own_nova());
        let keys = [Some(user), own].into_iter().flatten().map(|user| user.key.reveal());
        let entry = json!({"user": user.name, "secret": consumer.keyring(), "digest": short_digest(keys)});
        variables.insert("libvirt".into(), entry);
    }
    variables
}

fn short_digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> Value {
    let mut text = digest(parts);
    text.truncate(16);
    text.into()
}

/// Whether an expression reads the variable `ceph`. An expression that reads only the field `features.storage.ceph`
/// does not read `ceph`, because this field belongs to the variable `features`.
pub fn uses_ceph(expression: &str) -> bool {
    let mut matches = expression.match_indices("ceph.");
    matches.any(|(position, _)| !expression[..position].ends_with(|c: char| c.is_alphanumeric() || "._".contains(c)))
}

/// Returns each name that follows `ceph.` in an expression, such as `glance` for `ceph.glance.pool`.
pub(crate) fn ceph_names_in(expression: &str) -> impl Iterator<Item = &str> {
    let occurrences = expression.split("ceph.").skip(1);
    occurrences.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
}

impl Consumer {
    /// Returns the consumer whose settings are in the variable `ceph.<name>`; `None` for an unknown name. For
    /// `ceph.libvirt`, returns Nova, because libvirt attaches the disks of Nova's instances.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "libvirt" => Some(Self::Nova),
            name => Self::ALL.into_iter().find(|consumer| consumer.variable() == name),
        }
    }
}
