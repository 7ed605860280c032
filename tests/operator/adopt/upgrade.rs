//! `osdpl adopt` shows which objects the upgrade of an adopted release changes; the upgrade then changes exactly these
//! objects.

use std::path::PathBuf;
use std::process::Command;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::chart;
use crate::cloud::{NAME, StatusAccess};
use crate::world::{World, run_test};

impl World {
    /// Returns the path of a changed copy of the chart memcached. In the copy, the pods' termination grace period
    /// differs from the original, and there is an additional `ConfigMap` with the name `notes`.
    fn changed_memcached(&self) -> PathBuf {
        let folder = self.folder.path().join("changed/memcached");
        std::fs::create_dir(self.folder.path().join("changed")).unwrap();
        let mut copy = Command::new("cp");
        assert!(
            copy.args(["--recursive", "--dereference", &chart("memcached")]).arg(&folder).status().unwrap().success()
        );
        let values = folder.join("values.yaml");
        let text = std::fs::read_to_string(&values).unwrap();
        let changed = text.replace("{memcached: {timeout: 30}}", "{memcached: {timeout: 31}}");
        assert_ne!(changed, text);
        std::fs::write(values, changed).unwrap();
        let notes = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n";
        std::fs::write(folder.join("templates/notes.yaml"), notes).unwrap();
        folder
    }
}

#[test]
fn upgrade_matches_the_shown_difference_after_adoption() {
    run_test("adopt-upgrade", async |world| {
        let changed = world.changed_memcached().display().to_string();
        world.helm_prints(&["install", "memcached", &changed, "--set", "conf.memcached.memory=99"]);
        let _operator = world.operator().start().await;
        let file = world.folder.path().join("adopted.yaml").display().to_string();
        let (charts, cache) = (chart(""), world.folder.path().join("cache").display().to_string());
        let helm = world.cluster().helm(4).unwrap().display().to_string();
        let source = ["--charts", &charts, "--cache", &cache, "--helm", &helm];
        let adopt = ["adopt", "--namespace", &world.namespace, "--name", NAME, "--out", &file, "--output", "json"];
        let output: Value = serde_json::from_str(&world.osdpl(&[&adopt[..], &source[..]].concat())).unwrap();
        let release = &output["releases"][0];
        assert_eq!(
            (&release["name"], &release["values"], &release["unrendered"]),
            (&json!("memcached"), &json!(null), &json!(null))
        );
        let differences = release["changes"].to_string();
        assert!(differences.contains("but other templates or defaults"), "{output}");
        let object = |object: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&object["kind"]), text(&object["name"]), text(&object["effect"]["what"]))
        };
        let objects: Vec<_> = release["objects"].as_array().into_iter().flatten().map(object).collect();
        let expected = [("ConfigMap", "notes", "removed"), ("StatefulSet", "memcached-memcached", "restartsPods")];
        assert_eq!(objects, expected.map(|(kind, name, what)| (kind.to_owned(), name.to_owned(), what.to_owned())));

        let pods = world.pods().await;
        world.run_kubectl(&["apply", "--server-side", "-f", &file]);
        world.osdpl(&["adopt", "--namespace", &world.namespace, "memcached"]);
        let patch = Patch::Merge(json!({"spec": {"paused": false}}));
        world.deployments().patch(NAME, &PatchParams::default(), &patch).await.unwrap();
        let is_waiting = |cloud: &osdpl_core::api::OpenStackDeployment| {
            cloud.child("memcached").message.contains("waits for approval").then_some(())
        };
        world.until("memcached's upgrade waits for approval", is_waiting).await;
        assert_eq!(
            (world.helm_runs().len(), world.pods().await),
            (0, pods.clone()),
            "before the approval, the operator must not run helm or restart pods"
        );

        world.osdpl(&["approve"]);
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));
        assert!(
            world.api::<ConfigMap>().get_opt("notes").await.unwrap().is_none(),
            "the upgrade must remove the ConfigMap notes, which `osdpl adopt` listed"
        );
        assert!(
            !pods.is_empty() && world.pods().await.is_disjoint(&pods),
            "the upgrade must recreate memcached's pods"
        );
    });
}
