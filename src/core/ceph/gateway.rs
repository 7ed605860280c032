//! Reads the URLs of the gateways (RGW, HTTP servers) of Ceph's object store, and builds the Secret with the cephx key
//! for gateways that the chart ceph-rgw runs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Ceph, CephxKey, Kind, NotReady, Object, ObjectStore, SecretData, SecretError, ValueError};

/// The URL of an HTTP server, without path and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The scheme of the URL: `http` or `https`.
    pub scheme: String,
    /// The host of the server: a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The TCP port of the server.
    pub port: u16,
}

impl Url {
    /// Parses the URL of an HTTP server in the form `http[s]://host[:port][/]`.
    ///
    /// # Errors
    /// Returns an error if the text has another form.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(ValueError::Url)?;
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(ValueError::Url),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let bracket = rest.rfind(']').unwrap_or(0);
        let (host, port) = match rest[bracket..].rfind(':') {
            Some(colon) => {
                (&rest[..bracket + colon], rest[bracket + colon + 1..].parse().map_err(|_| ValueError::Url)?)
            }
            None => (rest, default_port),
        };
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
        let is_host = inner.map_or(is_name, |inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
        let url = Self { scheme: scheme.to_owned(), host: host.to_owned(), port };
        if is_host && port != 0 { Ok(url) } else { Err(ValueError::Url) }
    }

    fn variable(&self) -> Value {
        json!({"scheme": self.scheme, "host": self.host, "port": self.port})
    }
}

/// The gateways of the object store: HTTP servers (RGW) that serve the APIs of Swift and S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// Gateways that do not belong to a release of the cloud, such as the gateways that Rook runs.
    External {
        /// The URL to which the cloud's services send requests.
        internal: Url,
        /// The URL that Keystone's service catalogue shows to users of the cloud.
        public: Url,
    },
    /// Gateways that the chart ceph-rgw runs, as a release of the cloud.
    Chart {
        /// The cephx key of `client.bootstrap-rgw`, with which each gateway creates its own Ceph user.
        key: CephxKey,
        /// The URL that Keystone's service catalogue shows to users of the cloud; `None` if the spec does not set it.
        public: Option<Url>,
    },
}

impl Gateway {
    /// Reads the settings of the gateways from a Secret that describes a Ceph cluster.
    ///
    /// If the gateways do not belong to a release of the cloud, the Secret has the URLs `rgw_internal` and
    /// `rgw_external`. If both URLs are the same, the Secret needs only one of these two keys. If the chart ceph-rgw
    /// runs the gateways, the Secret has `bootstrap-rgw.key` instead.
    ///
    /// # Errors
    /// Returns an error about the key that is missing or malformed.
    pub fn external(object: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Self, SecretError> {
        let source = SecretData { object, data };
        let url = |key: &str| {
            let text = source.text(key)?;
            text.map(|text| source.parsed(key, Url::parse(text))).transpose()
        };
        match (url("rgw_internal")?, url("rgw_external")?) {
            (Some(internal), public) => {
                Ok(Self::External { public: public.unwrap_or_else(|| internal.clone()), internal })
            }
            (None, Some(public)) => Ok(Self::External { internal: public.clone(), public }),
            (None, None) => match source.text(BOOTSTRAP)? {
                Some(key) => Ok(Self::Chart { key: source.parsed(BOOTSTRAP, CephxKey::parse(key))?, public: None }),
                None => Err(source.problem("rgw_internal", ValueError::NoGateway)),
            },
        }
    }

    /// Reads the URL of Rook's gateways from `status.endpoints` of a `CephObjectStore`. `store` is the `namespace/name`
    /// of the `CephObjectStore`, and `status` its status.
    ///
    /// If Rook reports both an unencrypted and an encrypted endpoint, osdpl takes the unencrypted one, because the
    /// cloud's services do not trust Rook's CA.
    ///
    /// # Errors
    /// Returns an error if Rook reports no endpoint yet, or an endpoint that is not a URL.
    pub fn rook(store: &str, status: &Value) -> Result<Self, NotReady> {
        let lists = ["insecure", "secure"].map(|list| status["endpoints"][list][0].as_str());
        let Some(text) = lists.into_iter().flatten().next() else {
            let phase = status["phase"].as_str().unwrap_or("not reconciled yet");
            return Err(NotReady::Rook(format!(
                "CephObjectStore {store} is {phase} and has no endpoints yet (status.endpoints); see the log of Rook's operator"
            )));
        };
        let url = Url::parse(text);
        let url =
            url.map_err(|complaint| NotReady::Rook(format!("CephObjectStore {store}, status.endpoints: {complaint}")))?;
        Ok(Self::External { internal: url.clone(), public: url })
    }

    /// Replaces the public URL, which Keystone's service catalogue shows to users, with the object store's `publicUrl`.
    /// If the spec does not set `publicUrl`, the URL does not change.
    ///
    /// # Errors
    /// Returns an error if `publicUrl` is not a URL.
    pub fn published_by(self, store: &ObjectStore) -> Result<Self, NotReady> {
        self.with_public(store.public_url())
            .map_err(|problem| NotReady::Spec(format!("spec.features.storage.ceph.objectStore.publicUrl: {problem}")))
    }

    /// Replaces the public URL, which Keystone's service catalogue shows to users, with the URL `text`. If `text` is
    /// `None`, the URL does not change.
    ///
    /// # Errors
    /// Returns an error if `text` is not a URL.
    pub fn with_public(self, text: Option<&str>) -> Result<Self, ValueError> {
        let Some(public) = text.map(Url::parse).transpose()? else { return Ok(self) };
        Ok(match self {
            Self::External { internal, .. } => Self::External { internal, public },
            Self::Chart { key, .. } => Self::Chart { key, public: Some(public) },
        })
    }

    /// Returns the content of the variable `ceph.rgw`, which expressions of the catalogue read.
    pub(super) fn variable(&self, ceph: Option<&Ceph>) -> Value {
        match self {
            Self::External { internal, public } => {
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

    /// Returns a list with the Secret from which the gateways' pods in `namespace` mount the cephx key of
    /// `client.bootstrap-rgw`. The list is empty if the chart ceph-rgw does not run the gateways.
    pub fn objects(&self, namespace: &str) -> Vec<Object> {
        let Self::Chart { key, .. } = self else { return Vec::new() };
        let file = format!("[client.bootstrap-rgw]\n    key = {}\n", key.reveal());
        let data = [("ceph.keyring".to_owned(), file)].into();
        vec![Object { data, ..Self::keyring_object(namespace) }]
    }

    /// Returns the same Secret as `objects`, but without data, for callers that need only the kind, the namespace and
    /// the name.
    pub fn keyring_object(namespace: &str) -> Object {
        let (namespace, name) = (namespace.to_owned(), KEYRING.to_owned());
        Object { kind: Kind::Opaque, namespace, name, data: BTreeMap::new() }
    }
}

/// The key under which the Secret that describes the Ceph cluster contains the cephx key of `client.bootstrap-rgw`.
const BOOTSTRAP: &str = "bootstrap-rgw.key";
/// The name of the Secret from which the chart ceph-rgw mounts the cephx key of `client.bootstrap-rgw`. The name is
/// upstream's default of `secrets.keyrings.rgw`.
const KEYRING: &str = "os-ceph-bootstrap-rgw-keyring";

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";

    #[test]
    fn parses_urls_without_path() {
        let read = |text: &str| Url::parse(text).map(|url| (url.scheme, url.host, url.port));
        let is = |scheme: &str, host: &str, port| Ok((scheme.to_owned(), host.to_owned(), port));
        assert_eq!(read("http://rgw.example.org"), is("http", "rgw.example.org", 80));
        assert_eq!(read("https://rgw.example.org/\n"), is("https", "rgw.example.org", 443));
        assert_eq!(read("https://10.0.0.1:8443"), is("https", "10.0.0.1", 8443));
        assert_eq!(read("http://[fd00::1]:8080/"), is("http", "[fd00::1]", 8080));
        assert_eq!(read("http://[fd00::1]"), is("http", "[fd00::1]", 80));
        for text in [
            "rgw.example.org",
            "ftp://rgw.example.org",
            "https://rgw.example.org/swift/v1",
            "https://user:word@rgw.example.org",
            "https://:443",
            "https://rgw:0",
            "https://rgw:x",
            "https://[10.0.0.1]",
            "https://rgw.example.org?x",
        ] {
            assert_eq!(read(text), Err(ValueError::Url), "{text}");
        }
    }

    fn external(pairs: &[(&str, &str)]) -> Result<Gateway, String> {
        let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        Gateway::external("openstack/ceph", &data).map_err(|problem| problem.to_string())
    }

    #[test]
    fn reads_urls_or_the_bootstrap_key() {
        let urls =
            external(&[("rgw_internal", "http://10.0.0.1:8080"), ("rgw_external", "https://objects.example.org/")]);
        let variable = urls.unwrap().variable(None);
        assert_eq!(
            variable,
            json!({
                "chart": false,
                "internal": {"scheme": "http", "host": "10.0.0.1", "port": 8080},
                "public": {"scheme": "https", "host": "objects.example.org", "port": 443},
            })
        );
        let one = external(&[("rgw_external", "https://objects.example.org")]).unwrap().variable(None);
        assert_eq!(one["internal"], one["public"]);
        let chart = external(&[("bootstrap-rgw.key", KEY)]).unwrap();
        assert!(chart.objects("openstack")[0].data["ceph.keyring"].ends_with(&format!("    key = {KEY}\n")));
        assert!(!format!("{chart:?} {}", chart.variable(None)).contains(KEY));
        assert_eq!(
            chart.variable(None).get("public"),
            None,
            "the variable `ceph.rgw` has no public URL if the spec sets none"
        );
        let named = chart.with_public(Some("https://objects.example.org:8443")).unwrap();
        assert_eq!(
            named.variable(None)["public"],
            json!({"scheme": "https", "host": "objects.example.org", "port": 8443})
        );
        assert_eq!(
            named.objects("openstack").len(),
            1,
            "osdpl writes the Secret for gateways of the chart even if the spec sets a public URL"
        );
        assert_eq!(named.with_public(Some("objects")), Err(ValueError::Url));
        let error = external(&[]).unwrap_err();
        assert!(error.starts_with(
            "Secret openstack/ceph, key rgw_internal: the key is missing, but features.storage.ceph.objectStore"
        ));
        let error = external(&[("rgw_internal", "http://10.0.0.1/path")]).unwrap_err();
        assert!(
            error.ends_with(
                "key rgw_internal: the value is not a URL of the form http[s]://host[:port], without a path"
            ),
            "{error}"
        );
    }

    #[test]
    fn an_invalid_public_url_is_an_error_of_the_spec() {
        let gateway = external(&[("rgw_internal", "http://10.0.0.1")]).unwrap();
        let store = json!({"objectStore": {"publicUrl": "https://objects.example.org:0"}});
        let problem = gateway.published_by(&ObjectStore::from_feature(&store).unwrap()).unwrap_err();
        assert!(matches!(problem, NotReady::Spec(_)), "{problem:?}");
        let expected = "spec.features.storage.ceph.objectStore.publicUrl: the value is not a URL of the form";
        assert!(problem.to_string().starts_with(expected), "{problem}");
    }

    #[test]
    fn waits_for_rooks_endpoints() {
        let read = |status: Value| Gateway::rook("rook-ceph/objects", &status);
        let error = read(json!({"phase": "Progressing"})).unwrap_err().to_string();
        assert!(
            error.starts_with("CephObjectStore rook-ceph/objects is Progressing and has no endpoints yet"),
            "{error}"
        );
        let (plain, secure) = ("http://rgw.rook-ceph.svc:80", "https://rgw.rook-ceph.svc:443");
        let both = read(json!({"endpoints": {"secure": [secure], "insecure": [plain]}})).unwrap();
        assert_eq!(both.variable(None)["internal"]["scheme"], "http");
        let sealed = read(json!({"endpoints": {"secure": [secure], "insecure": null}})).unwrap();
        let moved = sealed.with_public(Some("https://objects.example.org")).unwrap().variable(None);
        assert_eq!(
            (&moved["internal"]["port"], &moved["public"]["host"]),
            (&json!(443), &json!("objects.example.org"))
        );
    }
}
