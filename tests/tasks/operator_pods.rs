//! Tests whether the operator recognizes that an operator process in another pod is dead.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use osdpl_core::observed::Liveness;
use osdpl_operator::cluster::OperatorPods;
use osdpl_operator::helm::Instance;
use serde_json::json;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn evicted_operator_pod_is_dead() {
    let world = World::new("tasks-operator-pods").await;
    // The scheduler of this pod does not exist, so the pod stays pending.
    let pod: Pod = world
        .create(json!({
            "metadata": {"name": "osdpl", "labels": {"app.kubernetes.io/name": "osdpl"}},
            "spec": {"schedulerName": "none", "containers": [{"name": "osdpl", "image": "osdpl"}]},
        }))
        .await;
    let before = format!("p{}.abcdef", pod.metadata.uid.unwrap().replace('-', ""));
    let pods = OperatorPods::new(Instance::of_this_process(Some("another-pod")).unwrap());
    let client = world.api::<Pod>().into_client();
    pods.refresh(&client).await.unwrap();
    assert_eq!(pods.liveness(&before), Liveness::Alive);

    let evicted = Patch::Merge(json!({"status": {"phase": "Failed", "reason": "Evicted"}}));
    world.api::<Pod>().patch_status("osdpl", &PatchParams::default(), &evicted).await.unwrap();
    pods.refresh(&client).await.unwrap();
    assert_eq!(pods.liveness(&before), Liveness::Dead);
}
