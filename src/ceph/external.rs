//! Our own layout of a Secret that describes a Ceph which Kubernetes does not know.

use std::collections::BTreeMap;

use super::{Ceph, CephxKey, Complaint, Consumer, Monitors, Pool, Problem, Source, User, is_name};

/// Reads a Secret of these keys: `mon_host` and `fsid`, and for each of glance, cinder, cinder-backup, nova, manila and gnocchi that the cloud
/// has `<service>.key` and `<service>.pool`, with `<service>.user` where its name is not upstream's default.
///
/// # Errors
/// The first key that is missing or malformed.
pub fn external(object: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Ceph, Problem> {
    let source = Source { object, data };
    let monitors = source.parsed("mon_host", Monitors::parse(source.required("mon_host")?))?;
    let fsid = source.required("fsid")?.to_ascii_lowercase();
    if !is_uuid(&fsid) {
        return Err(source.problem("fsid", Complaint::NotUuid));
    }
    let mut users = BTreeMap::new();
    for consumer in Consumer::ALL {
        if let Some(user) = user(&source, consumer)? {
            users.insert(consumer, user);
        }
    }
    if users.is_empty() {
        return Err(source.problem("glance.key", Complaint::NoUsers));
    }
    Ok(Ceph { monitors, fsid: Some(fsid), users })
}

/// A service of which any key is there must have them all: a half-written one is no "service without Ceph".
fn user(source: &Source<'_>, consumer: Consumer) -> Result<Option<User>, Problem> {
    let [key, pool, user] = ["key", "pool", "user"].map(|field| format!("{}.{field}", consumer.name()));
    if ![&key, &pool, &user].into_iter().any(|name| source.data.contains_key(name)) {
        return Ok(None);
    }
    let secret = source.parsed(&key, CephxKey::parse(source.required(&key)?))?;
    let name = source.required(&pool)?;
    if !is_name(name) {
        return Err(source.problem(&pool, Complaint::PoolName));
    }
    let given = source.text(&user)?.unwrap_or(consumer.user());
    let given = given.strip_prefix("client.").unwrap_or(given);
    if !is_name(given) {
        return Err(source.problem(&user, Complaint::UserName));
    }
    let pools = vec![Pool { name: name.to_owned(), role: None, device_class: None }];
    Ok(Some(User { name: given.to_owned(), key: secret, pools }))
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}
