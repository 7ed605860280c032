//! What a pass knows of the Ceph that the spec declares.

use std::collections::BTreeMap;

use super::{Ceph, Cluster, Consumer, Gateway, Problem, external, mirantis, variables};
use osdpl_values::Values;

/// The Ceph that the spec declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// What is known of it, or why nothing is.
    pub read: Result<Ceph, Unready>,
    /// What the `CephCluster` says of itself, where Rook runs it and it is known.
    pub cluster: Option<Cluster>,
    /// Who runs the gateways of the object store that is asked for, or why that is not known; none where none is asked for.
    pub gateway: Option<Result<Gateway, Unready>>,
    /// What wanted releases need and the Secret does not say, in the order of [`Consumer::ALL`].
    pub lacking: Vec<Problem>,
    /// What is not as it should be, though what runs can go on with what it has.
    pub note: Option<Unready>,
    /// Every word of the Secret that may be a key, malformed ones as well: what must never show.
    pub secrets: Vec<Secret>,
}

/// A text that never shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("[redacted]")
    }
}

/// Why the declared Ceph can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unready {
    /// The Secret is not there, or can't be read.
    #[error("{0}")]
    Secret(String),
    /// The Secret is no description of a Ceph.
    #[error(transparent)]
    Malformed(#[from] Problem),
    /// Rook has not made what is needed yet, or can't.
    #[error("{0}")]
    Rook(String),
    /// An object that is not ours has the name of one that the charts mount.
    #[error("{0} was not made by osdpl, which must write there; delete it, or take it out of the way")]
    Occupied(String),
    /// It is another Ceph than the one that the charts use.
    #[error(
        "the Ceph described is {found}, and the cloud's images, volumes and instances are in {held} (ConfigMap {map}): nothing is changed; correct what describes it, or, where the cloud is to begin anew on that Ceph, delete that ConfigMap"
    )]
    Another {
        /// The fsid in what describes it.
        found: String,
        /// The fsid that the charts were given.
        held: String,
        /// Where that stands.
        map: String,
    },
}

impl Declared {
    /// One that lacks nothing, or that is not known.
    pub fn of(read: Result<Ceph, Unready>) -> Self {
        let keys = read.iter().flat_map(Ceph::keys);
        let secrets = keys.map(|key| Secret(key.reveal().to_owned())).collect();
        Self { read, cluster: None, gateway: None, lacking: Vec::new(), note: None, secrets }
    }

    /// What Rook answers.
    pub fn by_rook((read, cluster): (Result<Ceph, Unready>, Option<Cluster>)) -> Self {
        let note = cluster.as_ref().and_then(Cluster::trouble);
        Self { cluster, note, ..Self::of(read) }
    }

    /// What keeps it from being ready for every release that needs it, first things first.
    pub fn trouble(&self) -> Option<Unready> {
        let lacking = || self.lacking.first().cloned().map(Unready::from);
        let gateway = || self.gateway.as_ref()?.as_ref().err().cloned();
        self.read.as_ref().err().cloned().or_else(lacking).or_else(|| self.note.clone()).or_else(gateway)
    }

    /// The same with what is known of the gateways.
    #[must_use]
    pub fn with_gateway(self, gateway: Option<Result<Gateway, Unready>>) -> Self {
        let key = match &gateway {
            Some(Ok(Gateway::Chart { key, .. })) => Some(Secret(key.reveal().to_owned())),
            _ => None,
        };
        Self { gateway, secrets: self.secrets.into_iter().chain(key).collect(), ..self }
    }

    /// What expressions see as `ceph`: see [`variables()`], and with an object store `ceph.rgw`: `chart`, whether the chart runs the gateways (with
    /// `monitors` and `fsid` then, and `public` where the spec says it), else `internal` and `public`, each with `scheme`, `host` and `port`.
    pub fn variables(&self) -> Values {
        let ceph = self.read.as_ref().ok();
        let mut variables = ceph.map(variables).unwrap_or_default();
        if let Some(Ok(gateway)) = &self.gateway {
            variables.insert("rgw".into(), gateway.variable(ceph));
        }
        variables
    }

    /// Why an expression that asks for this (`ceph.<name>`) finds nothing.
    pub fn blame(&self, name: &str) -> Option<String> {
        if let ("rgw", Some(gateway)) = (name, &self.gateway) {
            return gateway.as_ref().err().map(ToString::to_string);
        }
        match (&self.read, Consumer::named(name)) {
            (Err(problem), _) => Some(problem.to_string()),
            (Ok(ceph), Some(consumer)) if !ceph.serves(consumer) => Some(ceph.missing(consumer).to_string()),
            (Ok(_), _) => None,
        }
    }
}

/// What a Secret says: `object` is its `namespace/name`, `data` what it holds or why it can't be read, `releases` the catalogue's names of
/// those that are wanted.
pub fn declared<'a>(
    object: &str,
    data: Result<BTreeMap<String, Vec<u8>>, String>,
    releases: impl Iterator<Item = &'a str>,
) -> Declared {
    let data = match data {
        Ok(data) => data,
        Err(problem) => return Declared::of(Err(Unready::Secret(problem))),
    };
    // A Secret may have been filled for both; then ours says more.
    let is_mirantis = data.contains_key("mon_endpoints") && !data.contains_key("mon_host");
    let read = if is_mirantis { mirantis(object, &data) } else { external(object, &data) };
    let lacking = read.as_ref().map(|ceph| lacking(ceph, releases)).unwrap_or_default();
    Declared { lacking, secrets: words(&data), ..Declared::of(read.map_err(Unready::from)) }
}

fn lacking<'a>(ceph: &Ceph, releases: impl Iterator<Item = &'a str>) -> Vec<Problem> {
    let needed = releases.filter_map(|release| match release {
        "glance" => Some(Consumer::Glance),
        "cinder" => Some(Consumer::Cinder),
        "nova" | "libvirt" => Some(Consumer::Nova),
        "manila" => Some(Consumer::Manila),
        "gnocchi" => Some(Consumer::Gnocchi),
        _ => None,
    });
    let needed: std::collections::BTreeSet<Consumer> = needed.collect();
    needed.into_iter().filter(|consumer| ceph.user(*consumer).is_none()).map(|one| ceph.missing(one)).collect()
}

/// Every word that is long enough to be a key, or a good part of one, and is none of what stands in `ceph.conf`.
fn words(data: &BTreeMap<String, Vec<u8>>) -> Vec<Secret> {
    const SHORTEST: usize = 16;
    const OPEN: [&str; 5] = ["mon_host", "mon_endpoints", "fsid", "rgw_internal", "rgw_external"];
    let closed = data.iter().filter(|(key, _)| {
        let names = matches!(key.rsplit('.').next(), Some("pool" | "user"));
        !names && !OPEN.contains(&key.as_str())
    });
    let texts = closed.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
    let words = texts.flat_map(|text| {
        let words = text.split(|c: char| c.is_whitespace() || c == ';');
        // Pools and users in Mirantis' form.
        let words = words.filter(|word| !word.contains(':') && !word.starts_with("client."));
        words.filter(|word| word.len() >= SHORTEST).map(|word| Secret(word.to_owned())).collect::<Vec<_>>()
    });
    words.collect()
}
