//! Where Ceph's object store (RADOS gateways, RGW) is found.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Ceph, CephxKey, Complaint, Kind, Object, Problem, Source, Unready};

/// The address of an HTTP server, with neither path nor query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// `http` or `https`.
    pub scheme: String,
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl Url {
    /// Reads `http[s]://host[:port][/]`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(Complaint::Url)?;
        let usual = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(Complaint::Url),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let bracket = rest.rfind(']').unwrap_or(0);
        let (host, port) = match rest[bracket..].rfind(':') {
            Some(colon) => (&rest[..bracket + colon], rest[bracket + colon + 1..].parse().map_err(|_| Complaint::Url)?),
            None => (rest, usual),
        };
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
        let is_host = inner.map_or(is_name, |inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
        let url = Self { scheme: scheme.to_owned(), host: host.to_owned(), port };
        if is_host && port != 0 { Ok(url) } else { Err(Complaint::Url) }
    }

    fn variable(&self) -> Value {
        json!({"scheme": self.scheme, "host": self.host, "port": self.port})
    }
}

/// Who runs the gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// Somebody else: they are reached at these addresses, from the cloud's own services and by its users.
    Elsewhere {
        /// For services.
        internal: Url,
        /// For users.
        public: Url,
    },
    /// The chart ceph-rgw, whole.
    Chart {
        /// Of `client.bootstrap-rgw`, which makes each gateway a user of its own.
        key: CephxKey,
        /// For users, where the spec says so.
        public: Option<Url>,
    },
}

impl Gateway {
    /// Out of a Secret that describes a Ceph: `rgw_internal` and `rgw_external` (which is the same where it is not given), else
    /// `bootstrap-rgw.key`.
    ///
    /// # Errors
    /// The key that is missing or malformed.
    pub fn external(object: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Self, Problem> {
        let source = Source { object, data };
        let url = |key: &str| {
            let text = source.text(key)?;
            text.map(|text| source.parsed(key, Url::parse(text))).transpose()
        };
        match (url("rgw_internal")?, url("rgw_external")?) {
            (Some(internal), public) => {
                Ok(Self::Elsewhere { public: public.unwrap_or_else(|| internal.clone()), internal })
            }
            (None, Some(public)) => Ok(Self::Elsewhere { internal: public.clone(), public }),
            (None, None) => match source.text(BOOTSTRAP)? {
                Some(key) => Ok(Self::Chart { key: source.parsed(BOOTSTRAP, CephxKey::parse(key))?, public: None }),
                None => Err(source.problem("rgw_internal", Complaint::NoGateway)),
            },
        }
    }

    /// Out of `status.endpoints` of a `CephObjectStore`; what is not encrypted first, because no service knows Rook's authority.
    ///
    /// # Errors
    /// While Rook tells none.
    pub fn rook(place: &str, status: &Value) -> Result<Self, Unready> {
        let lists = ["insecure", "secure"].map(|list| status["endpoints"][list][0].as_str());
        let Some(text) = lists.into_iter().flatten().next() else {
            let phase = status["phase"].as_str().unwrap_or("not looked at yet");
            return Err(Unready::Rook(format!(
                "CephObjectStore {place} is {phase} and has no endpoints yet (status.endpoints); Rook's operator says why in its log"
            )));
        };
        let url = Url::parse(text);
        let url =
            url.map_err(|complaint| Unready::Rook(format!("CephObjectStore {place}, status.endpoints: {complaint}")))?;
        Ok(Self::Elsewhere { internal: url.clone(), public: url })
    }

    /// The same with another address for users.
    ///
    /// # Errors
    /// When that is no URL.
    pub fn with_public(self, text: Option<&str>) -> Result<Self, Complaint> {
        let Some(public) = text.map(Url::parse).transpose()? else { return Ok(self) };
        Ok(match self {
            Self::Elsewhere { internal, .. } => Self::Elsewhere { internal, public },
            Self::Chart { key, .. } => Self::Chart { key, public: Some(public) },
        })
    }

    /// What expressions see as `ceph.rgw`.
    pub(super) fn variable(&self, ceph: Option<&Ceph>) -> Value {
        match self {
            Self::Elsewhere { internal, public } => {
                json!({"chart": false, "internal": internal.variable(), "public": public.variable()})
            }
            Self::Chart { public, .. } => {
                let monitors = ceph.map(|ceph| ceph.monitors.to_string());
                let mut variable =
                    json!({"chart": true, "monitors": monitors, "fsid": ceph.and_then(|ceph| ceph.fsid.as_deref())});
                if let Some(public) = public {
                    variable["public"] = public.variable();
                }
                variable
            }
        }
    }

    /// What the chart mounts, where it runs the gateways: in its release's namespace.
    pub fn objects(&self, namespace: &str) -> Vec<Object> {
        let Self::Chart { key, .. } = self else { return Vec::new() };
        let file = format!("[client.bootstrap-rgw]\n    key = {}\n", key.reveal());
        let data = [("ceph.keyring".to_owned(), file)].into();
        vec![Object { data, ..Self::mounted(namespace) }]
    }

    /// That object, of which only the name is known.
    pub fn mounted(namespace: &str) -> Object {
        let (namespace, name) = (namespace.to_owned(), KEYRING.to_owned());
        Object { kind: Kind::Opaque, namespace, name, data: BTreeMap::new() }
    }
}

/// The key of a Secret in which `client.bootstrap-rgw`'s key stands.
const BOOTSTRAP: &str = "bootstrap-rgw.key";
/// The Secret that the chart mounts it from; upstream's default of `secrets.keyrings.rgw`.
const KEYRING: &str = "os-ceph-bootstrap-rgw-keyring";

#[cfg(test)]
mod tests;
