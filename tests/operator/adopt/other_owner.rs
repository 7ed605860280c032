//! osdpl refuses to adopt a release that Flux or Argo CD manages. If a release differs from the desired state, osdpl
//! adopts the release, but upgrades it only after approval.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use osdpl_core::api::{ADOPT, reason};
use serde_json::{Value, json};

use super::chart;
use crate::cloud::{NAME, StatusAccess, services};
use crate::world::run_test;

#[test]
fn skips_flux_and_argo_releases_and_asks_approval_for_changes() {
    run_test("other-owner", async |world| {
        world.helm_prints(&["install", "memcached", &chart("memcached"), "--set", "conf.memcached.memory=99"]);
        let name = "memcached-memcached";
        let flux = ["helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"];
        let labelled = |value: Value| Patch::Merge(json!({"metadata": {"labels": {flux[0]: value, flux[1]: value}}}));
        let sets = world.api::<StatefulSet>();
        let _operator = world.operator().start().await;
        world.apply(&services(&["memcached"])).await;
        let until_message = async |text: &'static str| {
            world.until(text, |cloud| cloud.child("memcached").message.contains(text).then(|| cloud.clone())).await
        };
        // The release has no label of Flux or Argo CD yet: osdpl offers to adopt it.
        until_message("it would change conf.memcached.memory").await;
        sets.patch(name, &PatchParams::default(), &labelled(json!("caches"))).await.unwrap();
        let refused = world.osdpl_fails(&["adopt", "--namespace", &world.namespace, "memcached"]);
        assert!(refused.starts_with("osdpl: memcached can't be adopted: Flux manages the release"), "{refused}");
        let refused = world.osdpl_fails(&["adopt", "--namespace", &world.namespace, "--all"]);
        assert!(refused.starts_with("osdpl: memcached can't be adopted: Flux manages the release"), "{refused}");
        let cloud = world.deployments().get(NAME).await.unwrap();
        assert_eq!(
            cloud.annotations().get(ADOPT),
            None,
            "a refused `osdpl adopt` must not set the annotation that makes the operator adopt the release later"
        );
        world.annotate(ADOPT, json!("memcached")).await;
        let refused = until_message("is labelled for HelmRelease caches/caches").await;
        assert_eq!(refused.reason(), reason::FOREIGN);
        assert!(world.labels_on_records().await.is_empty());

        // Replace Flux's labels with Argo CD's annotation in a single patch. Between two patches, the release would
        // have no owner, and the operator would adopt the release.
        let argo = json!({"metadata": {
            "labels": {flux[0]: null, flux[1]: null},
            "annotations": {"argocd.argoproj.io/tracking-id": "caches:apps/StatefulSet:x/y"},
        }});
        sets.patch(name, &PatchParams::default(), &Patch::Merge(argo)).await.unwrap();
        until_message("argocd app delete caches --cascade=false").await;
        let none = json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": null}}});
        sets.patch(name, &PatchParams::default(), &Patch::Merge(none)).await.unwrap();

        let waiting = until_message("it was adopted and differs from the desired state: waits for approval").await;
        assert!(waiting.child("memcached").changes.contains(&"conf.memcached.memory".to_owned()), "{waiting:?}");
        assert_eq!(world.helm_runs(), []);
        world.osdpl(&["approve"]);
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));
        assert_eq!(world.helm_runs().len(), 1);
    });
}
