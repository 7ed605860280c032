//! Reads a Secret in osdpl's documented layout. In such a Secret, a person describes a Ceph cluster that Rook does not
//! run.

use std::collections::BTreeMap;

use super::{
    Ceph, CephxKey, Consumer, Layout, Monitors, Pool, SecretData, SecretError, User, ValueError, is_name, is_uuid,
};

/// Reads the settings of a Ceph cluster from a Secret in osdpl's documented layout.
///
/// * `mon_host` and `fsid` are required.
/// * Each service that uses Ceph (glance, cinder, cinder-backup, nova, manila, gnocchi) has `<service>.key` and
///   `<service>.pool`. `<service>.user` is required only if the name of the user is not upstream's default.
/// * If the Secret has `nova.pool`, but neither `nova.key` nor `nova.user`, Nova uses Cinder's user.
///
/// # Errors
/// Returns an error about the first key that is missing or malformed. Also returns an error if no service has a user,
/// or if two services have different cephx keys for the same user.
pub fn external(object: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Ceph, SecretError> {
    let source = SecretData { object, data };
    let monitors = source.parsed("mon_host", Monitors::parse(source.required("mon_host")?))?;
    let fsid = source.required("fsid")?.to_ascii_lowercase();
    if !is_uuid(&fsid) {
        return Err(source.problem("fsid", ValueError::NotUuid));
    }
    let mut users = BTreeMap::new();
    for consumer in Consumer::ALL {
        let cinder = users.get(&Consumer::Cinder).filter(|_| consumer == Consumer::Nova);
        if let Some(user) = user(&source, consumer, cinder)? {
            users.insert(consumer, user);
        }
    }
    if users.is_empty() {
        return Err(source.problem("glance.key", ValueError::NoUsers));
    }
    Ceph { object: object.to_owned(), layout: Layout::Documented, monitors, fsid: Some(fsid), users, admin: None }
        .consistent()
}

/// Reads the Ceph user of one service from the keys `<service>.key`, `<service>.pool` and `<service>.user` in the
/// Secret's data; `None` if the data has none of these three keys.
///
/// If the data has one of the three keys, it must also have `<service>.pool` and `<service>.key`. There is one
/// exception: if the data has `nova.pool`, but neither `nova.key` nor `nova.user`, Nova gets the name and key of
/// Cinder's user.
///
/// `cinder` is Cinder's user if `consumer` is Nova; for other consumers, it is `None`.
fn user(source: &SecretData<'_>, consumer: Consumer, cinder: Option<&User>) -> Result<Option<User>, SecretError> {
    let [key, pool, user] = ["key", "pool", "user"].map(|field| format!("{}.{field}", consumer.name()));
    if ![&key, &pool, &user].into_iter().any(|name| source.data.contains_key(name)) {
        return Ok(None);
    }
    let secret = match (source.text(&key)?, cinder) {
        (None, Some(cinder)) if !source.data.contains_key(&user) => Err(cinder),
        _ => Ok(source.parsed(&key, CephxKey::parse(source.required(&key)?))?),
    };
    let main = source.required(&pool)?;
    if !is_name(main) {
        return Err(source.problem(&pool, ValueError::PoolName));
    }
    let pools = vec![Pool { name: main.to_owned(), role: None, device_class: None }];
    let key = match secret {
        Ok(key) => key,
        Err(cinder) => return Ok(Some(User { pools, ..cinder.clone() })),
    };
    let configured = source.text(&user)?.unwrap_or(consumer.user());
    let name = configured.strip_prefix("client.").unwrap_or(configured);
    if !is_name(name) {
        return Err(source.problem(&user, ValueError::UserName));
    }
    Ok(Some(User { name: name.to_owned(), key, pools }))
}
