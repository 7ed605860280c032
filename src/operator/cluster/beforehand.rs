//! The secrets that are known before a pass was made: after a start logs of failing Jobs are read at once, and while a spec is refused, or a resource
//! is being deleted, no pass learns any.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::{Error, Explain};
use osdpl_core::api::{DEPLOYMENT_LABEL, OpenStackDeployment};
use osdpl_core::release;
use osdpl_core::scrub::collect_secret_scalars;
use osdpl_values::Values;
use osdpl_values::yaml;

/// What our own Secrets hold, and what those hold that specs name.
///
/// # Errors
/// When the API server refuses.
pub async fn secrets_beforehand(client: &Client) -> Result<BTreeSet<String>, Error> {
    let own = ListParams::default().labels(DEPLOYMENT_LABEL);
    let own =
        Api::<Secret>::all(client.clone()).list(&own).await.because(|| "listing Secrets of the operator".into())?;
    let mut found: BTreeSet<String> = own.items.iter().flat_map(ours).collect();
    // As they are stored, by whatever definition: what this program can't read may be corrected as long as it runs.
    let resource = ApiResource::erase::<OpenStackDeployment>(&());
    let deployments: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let deployments = there(deployments.list(&ListParams::default()).await.map(|list| list.items))?;
    let others = ListParams::default().fields(&format!("type!={}", release::SECRET_TYPE));
    for deployment in deployments {
        let (namespace, words) = (deployment.namespace().unwrap_or_default(), words(&deployment.data["spec"]));
        let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let what = || format!("listing Secrets in {namespace}");
        let there = api.list_metadata(&others).await.because(what)?.items.into_iter().map(|secret| secret.name_any());
        for name in there.filter(|name| words.contains(name)) {
            let secret = api.get_opt(&name).await.because(|| format!("reading Secret {namespace}/{name}"))?;
            found.extend(secret.iter().flat_map(|secret| named(secret, &words)));
        }
    }
    Ok(found)
}

/// The resources that there are: before their definition is applied, none.
fn there(listed: Result<Vec<DynamicObject>, kube::Error>) -> Result<Vec<DynamicObject>, Error> {
    match listed {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => listed.because(|| "listing OpenStackDeployments".into()),
    }
}

/// What a Secret of ours holds. What gateways are told of Keystone are common words, but for the password.
fn ours(secret: &Secret) -> Vec<String> {
    let is_open = |key: &str| key == "rgw_keystone_accepted_roles" || key.starts_with("OS_") && key != "OS_PASSWORD";
    texts(secret).filter(|(key, _)| !is_open(key)).map(|(_, text)| text).collect()
}

/// What is in those keys of a Secret that the spec names, or could mean without a word; in all of them where it names none.
fn named(secret: &Secret, words: &BTreeSet<String>) -> Vec<String> {
    let all: Vec<_> = texts(secret).collect();
    let is_named = |key: &str| key == "values.yaml" || words.contains(key);
    let none = !all.iter().any(|(key, _)| is_named(key));
    let mut found = Vec::new();
    for (key, text) in all.into_iter().filter(|(key, _)| none || is_named(key)) {
        let values: Result<Option<Values>, _> = yaml::parse(&key, &text);
        let values = values.ok().flatten().unwrap_or_default();
        found.extend(values.values().flat_map(collect_secret_scalars).map(Into::into));
        found.push(text);
    }
    found
}

fn texts(secret: &Secret) -> impl Iterator<Item = (String, String)> {
    let data = secret.data.iter().flatten();
    data.filter_map(|(key, bytes)| Some((key.clone(), String::from_utf8(bytes.0.clone()).ok()?)))
}

/// Every text of a spec, names of Secrets and of their keys among them, but for the name of Ceph's: addresses are in it, and its keys are in Secrets of
/// ours once anything has them.
fn words(spec: &Value) -> BTreeSet<String> {
    let mut spec = spec.clone();
    if let Some(ceph) = spec.pointer_mut("/features/storage/ceph").and_then(Value::as_object_mut) {
        ceph.remove("secret");
    }
    collect_secret_scalars(&spec).into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(data: &Value) -> Secret {
        serde_json::from_value(json!({"metadata": {"name": "mine"}, "stringData": {}, "data": data})).unwrap()
    }

    /// `text` in base64.
    fn encoded(text: &str) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    }

    #[test]
    fn of_secrets_that_a_spec_names_the_named_keys_and_all_within_values_are_known() {
        let spec = json!({"openstackRelease": "2026.1", "services": {"keystone": {
            "credentials": {"admin": {"name": "mine", "key": "pw"}},
            "releases": {"keystone": {"valuesFrom": [{"kind": "Secret", "name": "more"}]}},
        }}, "features": {"storage": {"ceph": {"secret": {"name": "monitors"}}}}});
        let words = words(&spec);
        assert!(words.contains("mine") && words.contains("pw") && words.contains("more"), "{words:?}");
        assert!(!words.contains("monitors"), "{words:?}");
        let mine = secret(&json!({"pw": encoded("hunter2"), "user": encoded("admin")}));
        assert_eq!(named(&mine, &words), ["hunter2"], "a user's name is a common word");
        let more =
            secret(&json!({"values.yaml": encoded("conf: {users: [{name: a, password: hunter3, pin: 12345678}]}")}));
        let more = named(&more, &words);
        assert!(more.contains(&"hunter3".to_owned()) && more.contains(&"12345678".to_owned()), "{more:?}");
        let other = secret(&json!({"token": encoded("hunter4")}));
        assert_eq!(named(&other, &words), ["hunter4"], "the catalogue may know the key");
    }

    #[tokio::test]
    async fn a_resource_that_this_program_cannot_read_keeps_no_operator_from_starting() {
        let answer = async |request: axum::extract::Request| {
            let path = request.uri().path();
            if path.ends_with("/secrets/mine") {
                return json!({"metadata": {"name": "mine"}, "data": {"token": encoded("hunter2")}}).to_string();
            }
            let (kind, items) = if path.ends_with("/openstackdeployments") {
                let spec = json!({"approval": "OfAnotherVersion", "services": {"nova": {"credentials": {"user": {"name": "mine"}}}}});
                let metadata = json!({"name": "cloud", "namespace": "openstack"});
                (
                    "OpenStackDeploymentList",
                    json!([{"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": metadata, "spec": spec}]),
                )
            } else if path == "/api/v1/namespaces/openstack/secrets" {
                ("PartialObjectMetadataList", json!([{"metadata": {"name": "mine"}}, {"metadata": {"name": "other"}}]))
            } else {
                ("SecretList", json!([]))
            };
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "1"}, "items": items}).to_string()
        };
        let client = Client::new(axum::Router::new().fallback(answer), "cloud");
        assert_eq!(secrets_beforehand(&client).await.unwrap(), ["hunter2".to_owned()].into());
    }

    #[test]
    fn before_their_definition_is_applied_there_are_no_deployments_that_name_secrets() {
        let refused = |code| kube::Error::Api(Box::new(kube::core::Status::failure("refused", "").with_code(code)));
        assert!(there(Err(refused(404))).unwrap().is_empty());
        assert!(there(Err(refused(403))).is_err(), "what can't be known is not taken for nothing");
    }

    #[test]
    fn what_our_own_secrets_hold_is_known_but_for_common_words() {
        let ours = ours(&secret(
            &json!({"admin": encoded("hunter2"), "OS_REGION_NAME": encoded("RegionOne"), "OS_PASSWORD": encoded("hunter3")}),
        ));
        assert_eq!(ours, ["hunter3", "hunter2"]);
    }
}
