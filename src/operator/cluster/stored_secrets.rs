//! Reads the secrets that the cluster already contains when the operator starts.
//!
//! The scrubber, which removes secrets from logs, must know these secrets before the first pass, for two reasons. The
//! background tasks read the logs of failing Jobs as soon as the operator starts. And while osdpl refuses the spec or
//! the resource is being deleted, passes give no secrets to the scrubber.

use std::collections::BTreeSet;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::{Error, ErrorContext, Reader};
use crate::tasks::named_namespaces;
use osdpl_client::{Scope, Stored, list_metadata};
use osdpl_core::api::{DEPLOYMENT_LABEL, OpenStackDeployment};
use osdpl_core::release;
use osdpl_core::scrub::collect_secret_scalars;
use osdpl_values::yaml;
use osdpl_values::{CollectSorted, Values};

/// The maximum number of Secrets in one response, when the operator lists Secrets page by page. The number is low,
/// because one Secret can be 1 MiB large.
const PAGE: u32 = 8;

/// The maximum number of bytes that the operator keeps from the Secrets with osdpl's label. The limit is necessary
/// because anyone who can set the label could otherwise use up the operator's memory.
const CAPACITY: usize = 4 << 20;

/// Returns the contents of two kinds of Secrets: those that osdpl wrote in the namespaces that the stored
/// `OpenStackDeployment`s name, and those that the specs name. Skips namespaces that are not in `scope`.
///
/// # Errors
/// Returns an error if a request to the API server fails.
pub async fn stored_secrets(client: &Client, scope: &Scope) -> Result<BTreeSet<String>, Error> {
    // Read the resources as dynamic objects: the operator must start even if a stored resource does not match the CRD
    // of this osdpl version.
    let resource = ApiResource::erase::<OpenStackDeployment>(&());
    let deployments: Api<Stored<DynamicObject>> = Api::all_with(client.clone(), &resource);
    let deployments = if_defined(deployments.list(&ListParams::default()).await.map(|list| list.items))?;
    let own = ListParams::default().labels(DEPLOYMENT_LABEL).limit(PAGE);
    let (mut found, mut capacity) = (BTreeSet::new(), CAPACITY);
    let namespaces: BTreeSet<String> = deployments.iter().flat_map(named_namespaces).collect_set();
    for namespace in namespaces.into_iter().filter(|namespace| scope.contains(namespace)) {
        let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let what = || format!("listing Secrets of the operator in {namespace}");
        found.extend(own_texts(&api, own.clone(), &mut capacity).await.with_context(what)?);
    }
    let others = ListParams::default().fields(&format!("type!={}", release::SECRET_TYPE));
    let is_served = |one: &DynamicObject| scope.contains(&one.namespace().unwrap_or_default());
    for deployment in deployments.iter().filter_map(|stored| stored.content().ok()).filter(|one| is_served(one)) {
        let (namespace, texts) = (deployment.namespace().unwrap_or_default(), spec_texts(&deployment.data["spec"]));
        let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let what = || format!("listing Secrets in {namespace}");
        let named = |secret: &PartialObjectMeta<Secret>| Some(secret.name_any()).filter(|name| texts.contains(name));
        for name in list_metadata(&api, &others, named).await.with_context(what)? {
            let secret = api.get_opt(&name).await.with_context(|| format!("reading Secret {namespace}/{name}"))?;
            found.extend(secret.iter().flat_map(|secret| named_contents(secret, &texts)));
        }
    }
    Ok(found)
}

/// Lists the Secrets that osdpl wrote, page by page, and returns their contents.
///
/// `capacity` is the number of bytes that the function may still return. The function subtracts the length of each text
/// that it returns, and stops before the first text that is longer than the remaining capacity.
async fn own_texts(api: &Api<Secret>, mut page: ListParams, capacity: &mut usize) -> kube::Result<Vec<String>> {
    let mut found = Vec::new();
    loop {
        let list = api.list(&page).await?;
        for text in list.items.iter().flat_map(own_contents) {
            let Some(left) = capacity.checked_sub(text.len()) else {
                tracing::warn!(
                    "the Secrets with the label {DEPLOYMENT_LABEL} have more than {} MiB, so osdpl has not read all of \
                     them, and logs may contain the secrets in the others until the first pass; delete the Secrets \
                     that osdpl did not create",
                    CAPACITY >> 20
                );
                return Ok(found);
            };
            *capacity = left;
            found.push(text);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(found),
        }
    }
}

impl Reader {
    /// Returns the contents of the Secrets that osdpl wrote or that the specs name. See the function
    /// [`stored_secrets`] of this module.
    pub(crate) async fn stored_secrets(&self) -> Result<BTreeSet<String>, Error> {
        stored_secrets(&self.client, self.scope()).await
    }

    /// Returns a stream with an item for each change of a Secret that osdpl wrote.
    pub(crate) fn own_secret_changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let apis = self.scope().apis::<PartialObjectMeta<Secret>>(&self.client).into_iter();
        let changes =
            apis.map(|api| watcher(api, watcher::Config::default().labels(DEPLOYMENT_LABEL)).default_backoff());
        futures::stream::select_all(changes.map(|changes| changes.map(drop).boxed()))
    }
}

/// Returns the listed `OpenStackDeployment`s; none if their CRD does not exist yet.
fn if_defined<K>(listed: Result<Vec<K>, kube::Error>) -> Result<Vec<K>, Error> {
    match listed {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => listed.with_context(|| "listing OpenStackDeployments".into()),
    }
}

/// Returns the secret contents of a Secret that osdpl wrote.
///
/// If the Secret contains the Keystone settings of an object gateway, returns only the password. All other settings are
/// common words, which must stay readable in logs.
fn own_contents(secret: &Secret) -> Vec<String> {
    let is_public = |key: &str| key == "rgw_keystone_accepted_roles" || key.starts_with("OS_") && key != "OS_PASSWORD";
    entries(secret).filter(|(key, _)| !is_public(key)).map(|(_, text)| text).collect()
}

/// Returns the contents of two kinds of keys in a Secret: the keys that `spec_texts` contains, and `values.yaml`, the
/// default key of `valuesFrom`. If the Secret has none of these keys, returns the contents of all its keys.
fn named_contents(secret: &Secret, spec_texts: &BTreeSet<String>) -> Vec<String> {
    let all: Vec<_> = entries(secret).collect();
    let is_named = |key: &str| key == "values.yaml" || spec_texts.contains(key);
    let names_none = !all.iter().any(|(key, _)| is_named(key));
    let mut found = Vec::new();
    for (key, text) in all.into_iter().filter(|(key, _)| names_none || is_named(key)) {
        let values: Result<Option<Values>, _> = yaml::parse(&key, &text);
        let values = values.ok().flatten().unwrap_or_default();
        found.extend(values.values().flat_map(collect_secret_scalars).map(Into::into));
        found.push(text);
    }
    found
}

/// Returns all strings in a spec except for the name of Ceph's Secret. Callers use these strings to find the Secrets,
/// and the keys in Secrets, that the spec names.
///
/// The result lacks the name of Ceph's Secret, so that osdpl does not treat the contents of this Secret as secret: they
/// include addresses, which must stay readable in logs. The scrubber learns the cephx keys from the Secrets into which
/// osdpl copies them.
fn spec_texts(spec: &Value) -> BTreeSet<String> {
    let mut spec = spec.clone();
    if let Some(ceph) = spec.pointer_mut("/features/storage/ceph").and_then(Value::as_object_mut) {
        ceph.remove("secret");
    }
    collect_secret_scalars(&spec).into_iter().map(Into::into).collect_set()
}

/// Returns the keys of a Secret, each with its content. Skips a key if its content is not UTF-8.
fn entries(secret: &Secret) -> impl Iterator<Item = (String, String)> {
    let data = secret.data.iter().flatten();
    data.filter_map(|(key, bytes)| Some((key.clone(), String::from_utf8(bytes.0.clone()).ok()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(data: &Value) -> Secret {
        serde_json::from_value(json!({"metadata": {"name": "mine"}, "stringData": {}, "data": data})).unwrap()
    }

    fn encoded(text: &str) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    }

    #[test]
    fn finds_named_keys_and_all_scalars_of_values() {
        let spec = json!({"openstackRelease": "2026.1", "services": {"keystone": {
            "credentials": {"admin": {"name": "mine", "key": "pw"}},
            "releases": {"keystone": {"valuesFrom": [{"kind": "Secret", "name": "more"}]}},
        }}, "features": {"storage": {"ceph": {"secret": {"name": "monitors"}}}}});
        let texts = spec_texts(&spec);
        assert!(texts.contains("mine") && texts.contains("pw") && texts.contains("more"), "{texts:?}");
        assert!(!texts.contains("monitors"), "{texts:?}");
        let mine = secret(&json!({"pw": encoded("hunter2"), "user": encoded("admin")}));
        assert_eq!(
            named_contents(&mine, &texts),
            ["hunter2"],
            "the content of a key that the spec does not name is not treated as secret"
        );
        let more =
            secret(&json!({"values.yaml": encoded("conf: {users: [{name: a, password: hunter3, pin: 12345678}]}")}));
        let more = named_contents(&more, &texts);
        assert!(more.contains(&"hunter3".to_owned()) && more.contains(&"12345678".to_owned()), "{more:?}");
        let other = secret(&json!({"token": encoded("hunter4")}));
        assert_eq!(
            named_contents(&other, &texts),
            ["hunter4"],
            "if the spec names no key of the Secret, all contents are secret: the catalogue may define a default key"
        );
    }

    #[tokio::test]
    async fn starts_with_a_resource_of_another_version() {
        let respond = async |request: axum::extract::Request| {
            let path = request.uri().path();
            if path.ends_with("/secrets/mine") {
                return json!({"metadata": {"name": "mine"}, "data": {"token": encoded("hunter2")}}).to_string();
            }
            let (kind, items) = if path.ends_with("/openstackdeployments") {
                let credentials = json!({"user": {"name": "mine"}});
                let spec = json!({"approval": "OfAnotherVersion", "services": {"nova": {"credentials": credentials}}});
                let metadata = json!({"name": "cloud", "namespace": "openstack"});
                (
                    "OpenStackDeploymentList",
                    json!([{
                        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": metadata,
                        "spec": spec,
                    }]),
                )
            } else if path == "/api/v1/namespaces/openstack/secrets" {
                ("PartialObjectMetadataList", json!([{"metadata": {"name": "mine"}}, {"metadata": {"name": "other"}}]))
            } else {
                ("SecretList", json!([]))
            };
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "1"}, "items": items}).to_string()
        };
        let client = Client::new(axum::Router::new().fallback(respond), "cloud");
        assert_eq!(stored_secrets(&client, &Scope::All).await.unwrap(), ["hunter2".to_owned()].into());
    }

    #[tokio::test]
    async fn keeps_a_limited_number_of_bytes() {
        let respond = async |request: axum::extract::Request| {
            let query = request.uri().query().unwrap_or_default();
            let secrets = |token: &str, data: &[(&str, usize)]| {
                let data: serde_json::Map<_, _> =
                    data.iter().map(|(key, mib)| ((*key).to_owned(), encoded(&key.repeat(mib << 20)).into())).collect();
                let items = json!([{"metadata": {"name": "own"}, "data": data}]);
                json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {"continue": token}, "items": items})
            };
            assert!(!query.contains("continue=c"), "no page is read after the capacity is used up");
            match query {
                query if query.contains("continue=b") => secrets("c", &[("y", 2)]),
                _ => secrets("b", &[("x", 3)]),
            }
            .to_string()
        };
        let client = Client::new(axum::Router::new().fallback(respond), "cloud");
        let (api, mut capacity) = (Api::namespaced(client, "openstack"), CAPACITY);
        let found = own_texts(&api, ListParams::default(), &mut capacity).await.unwrap();
        assert_eq!(found.iter().map(String::len).collect::<Vec<_>>(), [3 << 20]);
        assert_eq!(capacity, 1 << 20);
    }

    #[test]
    fn finds_no_resources_without_the_crd() {
        let refused = |code| kube::Error::Api(Box::new(kube::core::Status::failure("refused", "").with_code(code)));
        assert!(if_defined::<Secret>(Err(refused(404))).unwrap().is_empty());
        assert!(
            if_defined::<Secret>(Err(refused(403))).is_err(),
            "a forbidden list is an error; only a missing CRD means that there are no resources"
        );
    }

    #[test]
    fn finds_own_secrets_except_common_words() {
        let data = json!({
            "admin": encoded("hunter2"), "OS_REGION_NAME": encoded("RegionOne"), "OS_PASSWORD": encoded("hunter3"),
        });
        assert_eq!(own_contents(&secret(&data)), ["hunter3", "hunter2"]);
    }
}
