//! Reads Secrets in the layout of Mirantis' `openstack-ceph-keys`, so that people can migrate a cloud with such a
//! Secret to osdpl.

use std::collections::BTreeMap;

use super::{Ceph, CephxKey, Consumer, Layout, Monitors, Pool, SecretData, SecretError, User, ValueError, is_name};

/// The consumers (services that use Ceph) that have their own Ceph user in a Secret in Mirantis' layout. Cinder's
/// backup service has no user of its own: it uses Cinder's user, and its pool is the pool with the role `backup`.
const KNOWN: [Consumer; 4] = [Consumer::Nova, Consumer::Cinder, Consumer::Glance, Consumer::Manila];

/// Reads the settings of a Ceph cluster from a Secret in Mirantis' layout.
///
/// * `mon_endpoints` lists the monitors as `ip:port,…`.
/// * `nova`, `cinder`, `glance` and `manila` each have the form `client.<user>;<key>;<pool>:<role>:<device class>;…`. A
///   newline may follow the key.
///
/// The Secret also contains the cephx key of `client.admin`, but osdpl does not read this key.
///
/// # Errors
/// Returns an error about the first key that is missing or malformed. Also returns an error if no service has a user,
/// or if two services have different cephx keys for the same user.
pub(crate) fn mirantis(object: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Ceph, SecretError> {
    let source = SecretData { object, data };
    let monitors = source.parsed("mon_endpoints", Monitors::parse(source.required("mon_endpoints")?))?;
    let mut users = BTreeMap::new();
    for consumer in KNOWN {
        if let Some(text) = source.text(consumer.name())? {
            users.insert(consumer, source.parsed(consumer.name(), user(text))?);
        }
    }
    if users.is_empty() {
        return Err(source.problem("glance", ValueError::NoUsers));
    }
    let backups = users.get(&Consumer::Cinder).and_then(backups);
    users.extend(backups.map(|user| (Consumer::CinderBackup, user)));
    Ceph { object: object.to_owned(), layout: Layout::Mirantis, monitors, fsid: None, users, admin: None }.consistent()
}

fn user(text: &str) -> Result<User, ValueError> {
    let mut fields = text.split(';').map(str::trim).filter(|field| !field.is_empty());
    let (Some(name), Some(key)) = (fields.next(), fields.next()) else { return Err(ValueError::Fields) };
    let name = name.strip_prefix("client.").ok_or(ValueError::Fields)?;
    if !is_name(name) {
        return Err(ValueError::UserName);
    }
    let key = CephxKey::parse(key)?;
    let pools: Vec<Pool> =
        fields.enumerate().map(|(position, text)| pool(position + 1, text)).collect::<Result<_, ValueError>>()?;
    if pools.is_empty() { Err(ValueError::Fields) } else { Ok(User { name: name.to_owned(), key, pools }) }
}

fn pool(position: usize, text: &str) -> Result<Pool, ValueError> {
    let parts: Vec<&str> = text.split(':').collect();
    let [name, role, class] = parts[..] else { return Err(ValueError::PoolFields(position)) };
    if ![name, role, class].into_iter().all(is_name) {
        return Err(ValueError::PoolFields(position));
    }
    Ok(Pool { name: name.to_owned(), role: Some(role.to_owned()), device_class: Some(class.to_owned()) })
}

fn backups(cinder: &User) -> Option<User> {
    let pools: Vec<Pool> = cinder.pools.iter().filter(|pool| pool.role.as_deref() == Some("backup")).cloned().collect();
    (!pools.is_empty()).then(|| User { pools, ..cinder.clone() })
}
