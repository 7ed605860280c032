//! The Ceph that the spec declares, and whether it is ready.

use std::collections::BTreeMap;

use super::{Ceph, Cluster, Consumer, Gateway, ObjectStore, SecretError, external, mirantis, variables};
use osdpl_values::Values;

/// The Ceph that the spec declares.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredCeph {
    /// The settings, or the reason why they can't be read.
    pub settings: Result<Ceph, NotReady>,
    /// The status of the `CephCluster`, if Rook runs it and it is known.
    pub cluster: Option<Cluster>,
    /// The gateways of the object store, or the reason why they are unknown; `None` if the spec has no object store.
    pub gateway: Option<Result<Gateway, NotReady>>,
    /// Users that desired releases need and the Secret lacks, in the order of [`Consumer::ALL`].
    pub missing_users: Vec<SecretError>,
    /// A problem that does not affect running releases.
    pub warning: Option<NotReady>,
    /// Every word of the Secret that may be a key, including malformed keys. They must never be shown.
    pub secrets: Vec<Secret>,
}

/// A text that is redacted in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("[redacted]")
    }
}

/// The reason why the declared Ceph can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The Secret does not exist or can't be read.
    #[error("{0}")]
    Secret(String),
    /// The Secret is malformed.
    #[error(transparent)]
    Malformed(#[from] SecretError),
    /// Rook has not created the required objects yet, or can't.
    #[error("{0}")]
    Rook(String),
    /// A foreign object has the name of one that the charts mount.
    #[error("{0} was not created by osdpl, which needs to write it; delete or rename it")]
    Occupied(String),
    /// It is not the Ceph that the charts use.
    #[error(
        "the described Ceph is {found}, but the cloud's images, volumes and instances are in {in_use} (ConfigMap {map}): nothing is changed; correct the description, or delete that ConfigMap to start with an empty Ceph"
    )]
    OtherCeph {
        /// The fsid in the description.
        found: String,
        /// The fsid that the charts use.
        in_use: String,
        /// The ConfigMap with the fsid that the charts use.
        map: String,
    },
}

impl DeclaredCeph {
    /// Creates a Ceph without gateways from its settings, or from the reason why they can't be read.
    pub fn of(settings: Result<Ceph, NotReady>) -> Self {
        let keys = settings.iter().flat_map(Ceph::keys);
        let secrets = keys.map(|key| Secret(key.reveal().to_owned())).collect();
        Self { settings, cluster: None, gateway: None, missing_users: Vec::new(), warning: None, secrets }
    }

    /// Creates a Ceph from Rook's objects.
    pub fn from_rook((read, cluster): (Result<Ceph, NotReady>, Option<Cluster>)) -> Self {
        let warning = cluster.as_ref().and_then(Cluster::not_ready_reason);
        Self { cluster, warning, ..Self::of(read) }
    }

    /// Returns the most important reason why it is not ready for every release that needs it.
    pub fn not_ready_reason(&self) -> Option<NotReady> {
        let missing_users = || self.missing_users.first().cloned().map(NotReady::from);
        let gateway = || self.gateway.as_ref()?.as_ref().err().cloned();
        self.settings.as_ref().err().cloned().or_else(missing_users).or_else(|| self.warning.clone()).or_else(gateway)
    }

    /// Sets the gateways.
    #[must_use]
    pub fn with_gateway(self, gateway: Option<Result<Gateway, NotReady>>) -> Self {
        let key = match &gateway {
            Some(Ok(Gateway::Chart { key, .. })) => Some(Secret(key.reveal().to_owned())),
            _ => None,
        };
        Self { gateway, secrets: self.secrets.into_iter().chain(key).collect(), ..self }
    }

    /// Returns the variable `ceph` of expressions, see [`variables()`].
    ///
    /// With an object store there is `ceph.rgw`. Its `chart` is whether the chart runs the gateways. If so, it has
    /// `monitors`, `fsid`, and `public` if the spec contains it, else `internal` and `public`. Both addresses have
    /// `scheme`, `host` and `port`.
    pub fn variables(&self) -> Values {
        let ceph = self.settings.as_ref().ok();
        let mut variables = ceph.map(variables).unwrap_or_default();
        if let Some(Ok(gateway)) = &self.gateway {
            variables.insert("rgw".into(), gateway.variable(ceph));
        }
        variables
    }

    /// Returns the reason why `ceph.<name>` is missing in expressions.
    pub(crate) fn missing_reason(&self, name: &str) -> Option<String> {
        if let ("rgw", Some(gateway)) = (name, &self.gateway) {
            return gateway.as_ref().err().map(ToString::to_string);
        }
        match (&self.settings, Consumer::named(name)) {
            (Err(problem), _) => Some(problem.to_string()),
            (Ok(ceph), Some(consumer)) if !ceph.has_user_for(consumer) => {
                Some(ceph.missing_user_error(consumer).to_string())
            }
            (Ok(_), _) => None,
        }
    }
}

/// Reads the Secret that describes a Ceph, with the gateways of the object store if there is one.
///
/// `object` is its `namespace/name`, `data` is its data or the reason why it can't be read, and `releases` are the
/// catalogue's names of the desired releases.
pub fn read_declared_ceph<'a>(
    object: &str,
    data: Result<BTreeMap<String, Vec<u8>>, String>,
    releases: impl Iterator<Item = &'a str>,
    store: Option<&ObjectStore>,
) -> DeclaredCeph {
    let data = match data {
        Ok(data) => data,
        Err(problem) => return DeclaredCeph::of(Err(NotReady::Secret(problem))),
    };
    // If a Secret has the keys of both layouts, the documented one has more information.
    let is_mirantis = data.contains_key("mon_endpoints") && !data.contains_key("mon_host");
    let read = if is_mirantis { mirantis(object, &data) } else { external(object, &data) };
    let missing_users = read.as_ref().map(|ceph| missing_users(ceph, releases)).unwrap_or_default();
    let gateway = store.map(|store| Gateway::external(object, &data).map_err(NotReady::from)?.published_by(store));
    DeclaredCeph { missing_users, secrets: possible_keys(&data), ..DeclaredCeph::of(read.map_err(NotReady::from)) }
        .with_gateway(gateway)
}

fn missing_users<'a>(ceph: &Ceph, releases: impl Iterator<Item = &'a str>) -> Vec<SecretError> {
    let needed = releases.filter_map(|release| match release {
        "glance" => Some(Consumer::Glance),
        "cinder" => Some(Consumer::Cinder),
        "nova" | "libvirt" => Some(Consumer::Nova),
        "manila" => Some(Consumer::Manila),
        "gnocchi" => Some(Consumer::Gnocchi),
        _ => None,
    });
    let needed: std::collections::BTreeSet<Consumer> = needed.collect();
    needed
        .into_iter()
        .filter(|consumer| ceph.user(*consumer).is_none())
        .map(|one| ceph.missing_user_error(one))
        .collect()
}

/// Returns every word that is long enough to be a key or a large part of one, and that is not public.
fn possible_keys(data: &BTreeMap<String, Vec<u8>>) -> Vec<Secret> {
    const MIN_LENGTH: usize = 16;
    const PUBLIC: [&str; 5] = ["mon_host", "mon_endpoints", "fsid", "rgw_internal", "rgw_external"];
    let secret_values = data.iter().filter(|(key, _)| {
        let names = matches!(key.rsplit('.').next(), Some("pool" | "user"));
        !names && !PUBLIC.contains(&key.as_str())
    });
    let texts = secret_values.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
    let words = texts.flat_map(|text| {
        let words = text.split(|c: char| c.is_whitespace() || c == ';');
        // Pools and users in Mirantis' layout.
        let words = words.filter(|word| !word.contains(':') && !word.starts_with("client."));
        words.filter(|word| word.len() >= MIN_LENGTH).map(|word| Secret(word.to_owned())).collect::<Vec<_>>()
    });
    words.collect()
}
