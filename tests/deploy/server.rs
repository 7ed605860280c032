//! The same table before a real API server, and what happens to nulls on the way there.

use cluster::{Cluster, Options};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, CustomResourceExt};
use osdpl::api::OpenStackDeployment;
use serde_json::Value;

use crate::table::{BAD, Bad, GOOD_CHANGES};
use crate::{resource, shipped};

async fn with_crd() -> (Cluster, Api<DynamicObject>) {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    crds.create(&PostParams::default(), &osdpl::api::crd(&shipped()).unwrap()).await.unwrap();
    await_condition(crds, OpenStackDeployment::crd_name(), conditions::is_crd_established()).await.unwrap();
    let api = Api::default_namespaced_with(cluster.client(), &OpenStackDeployment::api_resource());
    (cluster, api)
}

/// Creates or replaces the resource; what the API server says against it, as `field: message`.
async fn put(api: &Api<DynamicObject>, object: &Value) -> Result<(), Vec<String>> {
    let mut object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let answer = match api.get_opt("cloud").await.unwrap() {
        None => api.create(&PostParams::default(), &object).await,
        Some(now) => {
            object.metadata.resource_version = now.metadata.resource_version;
            api.replace("cloud", &PostParams::default(), &object).await
        }
    };
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            Err(causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect())
        }
        Err(other) => panic!("{other}"),
    }
}

async fn remove(api: &Api<DynamicObject>) {
    if api.get_opt("cloud").await.unwrap().is_some() {
        api.delete("cloud", &DeleteParams::default()).await.unwrap();
    }
}

async fn said(api: &Api<DynamicObject>, case: &Bad) -> Vec<String> {
    if let Some(before) = case.before {
        put(api, &resource(before)).await.unwrap();
    }
    let said = put(api, &resource(case.spec)).await.err().unwrap_or_default();
    remove(api).await;
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_takes_the_crd_and_judges_by_it() {
    let (cluster, api) = with_crd().await;
    let mut wrong = Vec::new();
    for case in BAD {
        let said = said(&api, case).await;
        let expected = |said: &String| said.starts_with(&format!("{}: ", case.field)) && said.contains(case.message);
        if !said.iter().any(expected) {
            wrong.push(format!("{}\n    expected {}: {}\n    said {said:?}", case.spec, case.field, case.message));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (before, after) in GOOD_CHANGES {
        put(&api, &resource(before)).await.unwrap();
        put(&api, &resource(after)).await.unwrap();
        remove(&api).await;
    }
    drop(cluster);
}
