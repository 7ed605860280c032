//! Reads the settings of the Ceph cluster that the spec declares, and collects the reasons why the cloud can't use this
//! cluster yet.

use std::collections::BTreeMap;

use super::{Ceph, Cluster, Consumer, Gateway, NotReady, ObjectStore, SecretError, external, mirantis, variables};
use osdpl_values::{CollectSorted, Values};

/// The Ceph cluster that the spec declares: its settings, its gateways, and the reasons why the cloud can't use it yet.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredCeph {
    /// The settings of the Ceph cluster, or the reason why osdpl can't read them.
    pub settings: Result<Ceph, NotReady>,
    /// The status of Rook's `CephCluster`; `None` if Rook does not run Ceph, or if the operator could not read the
    /// status.
    pub cluster: Option<Cluster>,
    /// The gateways (RGW) of the object store, or the reason why osdpl can't read their settings; `None` if the spec
    /// has no object store.
    pub gateway: Option<Result<Gateway, NotReady>>,
    /// An error for each Ceph user that a desired release needs, but that is missing in the Secret that describes the
    /// Ceph cluster. The order of the errors is the order of [`Consumer::ALL`].
    pub missing_users: Vec<SecretError>,
    /// A problem of the running Ceph cluster, such as a `CephCluster` in `HEALTH_ERR`. The settings are valid despite
    /// the problem, so osdpl can run helm for all releases.
    pub warning: Option<NotReady>,
    /// All texts that are or may be cephx keys. osdpl redacts these texts in all its output. If a person wrote the
    /// Secret, the texts include malformed cephx keys, and cephx keys that the person stored under a wrong name in the
    /// Secret's data.
    pub secrets: Vec<Secret>,
}

/// A text that is or may be a cephx key. Debug output redacts the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("[redacted]")
    }
}

impl DeclaredCeph {
    /// Creates a `DeclaredCeph` without gateways from the settings of the Ceph cluster, or from the reason why osdpl
    /// can't read the settings.
    pub fn of(settings: Result<Ceph, NotReady>) -> Self {
        let keys = settings.iter().flat_map(Ceph::keys);
        let secrets = keys.map(|key| Secret(key.reveal().to_owned())).collect();
        Self { settings, cluster: None, gateway: None, missing_users: Vec::new(), warning: None, secrets }
    }

    /// Creates a `DeclaredCeph` without gateways from the result of [`super::RookSettings::read`].
    pub fn from_rook(settings: Result<Ceph, NotReady>, cluster: Option<Cluster>) -> Self {
        let warning = cluster.as_ref().and_then(Cluster::not_ready_reason);
        Self { cluster, warning, ..Self::of(settings) }
    }

    /// Returns the most important problem of the declared Ceph cluster: a reason why the cloud can't use it, or a
    /// warning; `None` if the cluster has no problem.
    pub fn not_ready_reason(&self) -> Option<NotReady> {
        let missing_users = || self.missing_users.first().cloned().map(NotReady::from);
        let gateway = || self.gateway.as_ref()?.as_ref().err().cloned();
        self.settings.as_ref().err().cloned().or_else(missing_users).or_else(|| self.warning.clone()).or_else(gateway)
    }

    /// Sets the gateways of the object store, or the reason why osdpl can't read their settings. If the spec has no
    /// object store, `gateway` is `None`.
    #[must_use]
    pub fn with_gateway(self, gateway: Option<Result<Gateway, NotReady>>) -> Self {
        let key = match &gateway {
            Some(Ok(Gateway::Chart { key, .. })) => Some(Secret(key.reveal().to_owned())),
            _ => None,
        };
        Self { gateway, secrets: self.secrets.into_iter().chain(key).collect(), ..self }
    }

    /// Returns the content of the variable `ceph`, which expressions of the catalogue read. [`variables()`] describes
    /// the fields.
    ///
    /// If the spec has an object store, the variable also contains `ceph.rgw`, with these fields:
    ///
    /// * `chart`: whether the chart ceph-rgw runs the gateways
    /// * if `chart` is true: `monitors` and `fsid` and, if the spec sets a public URL, `public`
    /// * if `chart` is false: the URLs `internal` and `public`
    ///
    /// Each URL has `scheme`, `host` and `port`.
    pub fn variables(&self) -> Values {
        let ceph = self.settings.as_ref().ok();
        let mut variables = ceph.map(variables).unwrap_or_default();
        if let Some(Ok(gateway)) = &self.gateway {
            variables.insert("rgw".into(), gateway.variable(ceph));
        }
        variables
    }

    /// Returns the reason why the variable `ceph` has no field `<name>` for expressions to read; `None` if osdpl knows
    /// no reason.
    pub(crate) fn missing_reason(&self, name: &str) -> Option<String> {
        if let ("rgw", Some(gateway)) = (name, &self.gateway) {
            return gateway.as_ref().err().map(ToString::to_string);
        }
        match (&self.settings, Consumer::named(name)) {
            (Err(problem), _) => Some(problem.to_string()),
            (Ok(ceph), Some(consumer)) if !ceph.has_user_for(consumer) => Some(ceph.missing_user_reason(consumer)),
            (Ok(_), _) => None,
        }
    }
}

/// Reads the settings of a Ceph cluster from a Secret. If the spec has an object store, also reads the settings of its
/// gateways (RGW) from this Secret.
///
/// `object` is the Secret's `namespace/name`. `data` is the Secret's data, or the reason why osdpl can't read the
/// Secret. `releases` are the catalogue names of the desired releases.
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
    // A Secret in Mirantis' layout has the key `mon_endpoints`, and a Secret in osdpl's documented layout has the key
    // `mon_host`. If a Secret has both keys, use the documented layout, because it has more settings.
    let is_mirantis = data.contains_key("mon_endpoints") && !data.contains_key("mon_host");
    let read = if is_mirantis { mirantis(object, &data) } else { external(object, &data) };
    let missing_users = read.as_ref().map(|ceph| missing_users(ceph, releases)).unwrap_or_default();
    let gateway = store.map(|store| Gateway::external(object, &data).map_err(NotReady::from)?.published_by(store));
    DeclaredCeph { missing_users, secrets: possible_keys(&data), ..DeclaredCeph::of(read.map_err(NotReady::from)) }
        .with_gateway(gateway)
}

/// Returns an error for each Ceph user that at least one of `releases` needs but the settings lack.
fn missing_users<'a>(ceph: &Ceph, releases: impl Iterator<Item = &'a str>) -> Vec<SecretError> {
    let needed = releases.filter_map(|release| match release {
        "glance" => Some(Consumer::Glance),
        "cinder" => Some(Consumer::Cinder),
        "nova" | "libvirt" => Some(Consumer::Nova),
        "manila" => Some(Consumer::Manila),
        "gnocchi" => Some(Consumer::Gnocchi),
        _ => None,
    });
    let needed: std::collections::BTreeSet<Consumer> = needed.collect_set();
    needed
        .into_iter()
        .filter(|consumer| ceph.user(*consumer).is_none())
        .map(|one| ceph.missing_user_error(one))
        .collect()
}

/// Returns the words in a Secret's data that are long enough to be a cephx key or a large part of one.
///
/// The result contains no addresses, no fsid, and no names of pools and users. None of these is secret, so osdpl need
/// not redact them.
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
        // In Mirantis' layout, a word with a colon describes a pool, and a word that starts with `client.` names a
        // user. Neither is secret.
        let words = words.filter(|word| !word.contains(':') && !word.starts_with("client."));
        words.filter(|word| word.len() >= MIN_LENGTH).map(|word| Secret(word.to_owned())).collect::<Vec<_>>()
    });
    words.collect()
}
