//! Collects the secrets of a test while the test runs. So the check at the end of the test knows even the secrets that
//! the test has rotated or deleted. Also collects every version of the statuses of osdpl's resources, because even an
//! overwritten status must contain no secret.

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::statuses::Statuses;
use crate::world::{is_of, with_timeout};

/// The namespace of the marker: a Secret that the collector creates at the end of a test. When the collector's watch
/// has returned the marker, it has returned all Secrets. The marker is not in the test's namespace, because the test
/// may have deleted that namespace.
const MARKS: &str = "default";

/// The beginning of every token that the fake Keystone of a test issues. No test may make this text visible.
pub const TOKEN: &str = "gaaaa-token-of-the-fake-keystone";

/// The default password in OpenStack-Helm's charts. The search ignores it, because many key names contain this word.
const DEFAULT: &str = "password";

/// The data keys in Secrets whose values are public, such as certificates. A value is also public if its key ends with
/// one of [`OPEN_ENDS`], or if its key begins with `OS_` and is not `OS_PASSWORD`.
const OPEN: [&str; 13] = [
    "tls.crt",
    "ca.crt",
    "fsid",
    "mon_host",
    "mon_endpoints",
    "rgw_internal",
    "rgw_external",
    "rgw_keystone_accepted_roles",
    "ceph-username",
    "cluster-name",
    "userID",
    "userid",
    "username",
];
const OPEN_ENDS: [&str; 5] = [".pool", ".user", ".cert.pem", "-chain.cert.pem", ".fs"];

/// The maximum size of a secret in bytes. The collector ignores longer values, because they are not secret: some tests
/// create huge Secrets that repeat one letter.
const LONGEST: usize = 64 << 10;

/// The secrets of a test.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The values in the Secrets of osdpl and of the user (credentials, secrets of features, private keys), and the
    /// tokens of Keystone.
    pub all: BTreeSet<String>,
    /// The keys of Ceph's users. The charts get them only through Secrets, so no other object may contain them.
    pub ceph: BTreeSet<String>,
}

/// Watches the Secrets and the statuses of a test until this value is dropped.
pub struct Collector {
    client: Client,
    namespace: String,
    secrets: Arc<watch::Sender<Secrets>>,
    statuses: Statuses,
    task: JoinHandle<()>,
}

impl Collector {
    /// Starts to collect the Secrets of a test, and to write the statuses into `file`. `namespace` is the test's own
    /// namespace; the names of its other namespaces begin with this name.
    pub fn new(client: Client, namespace: &str, file: &Path) -> Self {
        let statuses = Statuses::watch(&client, namespace, file);
        let tokens = Secrets { all: BTreeSet::from([TOKEN.to_owned()]), ..Secrets::default() };
        let secrets = Arc::new(watch::Sender::new(tokens));
        let (shared, own, api) = (Arc::clone(&secrets), namespace.to_owned(), Api::<Secret>::all(client.clone()));
        let task = tokio::spawn(async move {
            // Skip release records: the credentials in their values are also in other Secrets.
            let fields = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token";
            let mut seen =
                pin!(watcher(api, watcher::Config::default().fields(fields)).default_backoff().applied_objects());
            loop {
                // The watch continues after an error, such as a restart of the API server.
                let Ok(Some(secret)) = seen.try_next().await else { continue };
                let namespace = secret.namespace().unwrap_or_default();
                if is_of(&own, &namespace) || namespace == MARKS && secret.name_any() == own {
                    shared.send_modify(|secrets| secrets.add(&secret));
                }
            }
        });
        Self { client, namespace: namespace.to_owned(), secrets, statuses, task }
    }

    /// Waits until all Secrets and statuses of the test are collected, and returns the secrets.
    pub async fn collected(&self) -> Secrets {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), MARKS);
        let mark = format!("{}-{:?}", self.namespace, std::time::Instant::now());
        let object = json!({"metadata": {"name": self.namespace}, "stringData": {"mark": mark}});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        self.statuses.until_complete().await;
        let mut secrets = self.secrets.subscribe();
        let seen = secrets.wait_for(|secrets| secrets.all.contains(&mark));
        let mut secrets = with_timeout("the collector has seen all Secrets", seen).await.unwrap().clone();
        drop(api.delete(&self.namespace, &DeleteParams::default()).await.unwrap());
        self.secrets.send_modify(|secrets| {
            secrets.all.remove(&mark);
        });
        secrets.all.remove(&mark);
        secrets
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Secrets {
    fn add(&mut self, secret: &Secret) {
        // Skip the Secrets of charts. They contain whole configuration files, whose credentials are also in osdpl's
        // Secrets.
        if secret.annotations().contains_key("meta.helm.sh/release-name") {
            return;
        }
        for (key, value) in secret.data.iter().flatten() {
            let Ok(text) = std::str::from_utf8(&value.0) else { continue };
            if text.len() > LONGEST {
                continue;
            }
            self.ceph.extend(ceph_keys(text));
            let is_open = OPEN.contains(&key.as_str())
                || OPEN_ENDS.iter().any(|end| key.ends_with(end))
                || key.starts_with("OS_") && key != "OS_PASSWORD";
            if is_open {
                continue;
            }
            if key.rsplit_once('.').is_some_and(|(_, end)| end == "yaml") {
                collect_leaves(&osdpl_values::yaml::parse(key, text).unwrap_or_default(), &mut self.all);
            } else {
                self.all.insert(text.to_owned());
            }
        }
        self.all.remove(DEFAULT);
    }
}

/// Returns the words in a text that have the format of `ceph auth print-key`.
fn ceph_keys(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| letter.is_whitespace() || ";:,\"".contains(letter));
    words.filter(|word| word.len() == 40 && word.starts_with("AQ") && word.ends_with("==")).map(str::to_owned)
}

/// Adds all strings and numbers in a JSON value to `texts`. The search later ignores those that are too short.
fn collect_leaves(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(texts.insert(text.clone())),
        Value::Number(number) => drop(texts.insert(number.to_string())),
        Value::Array(items) => items.iter().for_each(|item| collect_leaves(item, texts)),
        Value::Object(map) => map.values().for_each(|item| collect_leaves(item, texts)),
        Value::Null | Value::Bool(_) => {}
    }
}

#[test]
fn collects_secrets_but_no_settings() {
    let key = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";
    let object = json!({"metadata": {"name": "x"}, "data": {}});
    let mut secret: Secret = serde_json::from_value(object).unwrap();
    let entries = [
        ("password", "hunter22"),
        ("mon_host", "10.0.0.1:6789"),
        ("glance.pool", "images"),
        ("OS_USERNAME", "swift"),
        ("OS_PASSWORD", "hunter33"),
        ("glance", &format!("client.glance;{key}\n;images-hdd:images:hdd")),
        ("values.yaml", "{conf: {secret: hunter44, pin: 735512}, endpoints: {password: password}}"),
    ];
    let bytes = |text: &str| k8s_openapi::ByteString(text.as_bytes().to_vec());
    secret.data = Some(entries.map(|(name, text)| (name.to_owned(), bytes(text))).into());
    let mut secrets = Secrets::default();
    secrets.add(&secret);
    assert_eq!(secrets.ceph, [key.to_owned()].into());
    let whole = format!("client.glance;{key}\n;images-hdd:images:hdd");
    assert_eq!(secrets.all, [whole.as_str(), "hunter22", "hunter33", "hunter44", "735512"].map(str::to_owned).into());
}
