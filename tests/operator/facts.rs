//! A Job of a release writes facts about the running cloud into a `ConfigMap`. If the facts change the values of this
//! release, the operator upgrades this release and no other.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use osdpl_core::api::OpenStackDeployment;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services};
use crate::world::run_test;

/// The catalogue's definition of a test service. The service's release has a Job, and an empty `ConfigMap` for the
/// Job's facts. The test writes the facts in place of the Job. A fragment of the service uses the fact `memory`.
const LANTERN: &str = "
service: lantern
description: A test service.
group: infra
releases:
  lantern:
    chart: memcached
    facts: lantern-facts
    plainJobs: [lantern-job]
    values:
      extraObjects:
        made: {apiVersion: v1, kind: ConfigMap, metadata: {name: lantern-facts}}
        make: &make
          apiVersion: batch/v1
          kind: Job
          metadata: {name: lantern-job, labels: {release_group: '{{ .Release.Name }}'}}
          spec:
            template:
              metadata: {labels: {application: lantern, component: make, release_group: '{{ .Release.Name }}'}}
              spec:
                restartPolicy: OnFailure
                containers: [{name: make, image: example.org/make:1, env: [{name: KNOWN, value: nothing}]}]
    fragments:
    - when: has(facts.lantern.memory)
      values:
        conf: {memcached: {memory: '${facts.lantern.memory}'}}
        extraObjects:
          make:
            spec:
              template:
                spec:
                  containers: [{name: make, image: example.org/make:1, env: [{name: KNOWN, value: '${facts.lantern.memory}'}]}]
";

#[test]
fn facts_of_a_job_reach_only_its_release() {
    run_test("facts", async |world| {
        let catalogue = json!({
            "metadata": {"name": "lantern"}, "data": {"services.lantern.yaml": LANTERN},
        });
        let catalogue: ConfigMap = serde_json::from_value(catalogue).unwrap();
        world.api().create(&PostParams::default(), &catalogue).await.unwrap();
        let _operator = world.operator().start().await;
        let mut spec = services(&["lantern", "openvswitch"]);
        spec["catalog"] = json!([{"name": "lantern"}]);
        world.apply(&spec).await;
        world.until_ready().await;
        let memory = || world.helm_values("lantern").pointer("/conf/memcached/memory").cloned();
        assert_eq!(memory(), None);

        let patch = |memory: &str| Patch::Merge(json!({"data": {"memory": memory}}));
        let write = async |memory: &str| {
            let writer = PatchParams { field_manager: Some("osdpl-facts".into()), ..PatchParams::default() };
            world.api::<ConfigMap>().patch("lantern-facts", &writer, &patch(memory)).await.unwrap();
        };
        let revisions = |cloud: &OpenStackDeployment| {
            ["lantern", "openvswitch"].map(|release| cloud.child(release).revision.unwrap_or_default())
        };
        for (text, revision) in [("500", 2), ("600", 3)] {
            write(text).await;
            let is_upgraded = |cloud: &OpenStackDeployment| {
                (cloud.is_ready() && revisions(cloud)[0] >= revision).then(|| cloud.clone())
            };
            let cloud = world.until("lantern is upgraded with the fact", is_upgraded).await;
            assert_eq!((revisions(&cloud), memory()), ([revision, 1], Some(Value::from(text))));
            assert!(cloud.child("lantern").drift.is_empty(), "{:?}", cloud.child("lantern").drift);
        }
        let data = world.api::<ConfigMap>().get("lantern-facts").await.unwrap().data.unwrap();
        assert_eq!(data["memory"], "600");
        assert_eq!(world.helm_runs().len(), 4, "{:?}", world.helm_runs());
    });
}
