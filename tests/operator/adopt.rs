//! Clouds that others installed come in, and go again: no helm runs, and no pod is made anew.

mod shown;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use osdpl::api::{ADOPT, reason};
use serde_json::{Value, json};

use crate::cloud::{NAME, Told, services, with_values};
use crate::operator::Operator;
use crate::world::{World, story};

/// A chart of the stand-ins.
fn chart(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts").join(name).display().to_string()
}

/// What a person wrote for each release: passwords of their own, and a few settings.
fn by_hand() -> [(&'static str, Value); 4] {
    let database =
        json!({"auth": {"admin": {"password": "db-by-hand"}, "keystone": {"password": "db-keystone-by-hand"}}});
    let identity = json!({"auth": {"admin": {"password": "admin-by-hand"}}});
    let messaging =
        json!({"auth": {"admin": {"password": "mq-by-hand"}, "keystone": {"password": "mq-keystone-by-hand"}}});
    [
        ("mariadb", json!({"endpoints": {"oslo_db": database}, "volume": {"size": "7Gi"}})),
        ("memcached", json!({"conf": {"memcached": {"memory": 333}}})),
        ("rabbitmq", json!({"endpoints": {"oslo_messaging": {"auth": {"user": {"password": "mq-by-hand"}}}}})),
        (
            "keystone",
            json!({
                "endpoints": {"oslo_db": database, "identity": identity, "oslo_messaging": messaging},
                "conf": {"keystone": {"DEFAULT": {"debug": true}, "token": {"expiration": 1234}}},
            }),
        ),
    ]
}

impl World {
    fn install_by_hand(&self) {
        for (name, values) in by_hand() {
            let file = self.folder.path().join(format!("{name}.json"));
            std::fs::write(&file, values.to_string()).unwrap();
            self.helm_prints(&["install", name, &chart(name), "--values", &file.display().to_string()]);
        }
    }

    /// Runs the commands that `osdpl render` writes for a release.
    fn install_rendered(&self, release: &str) {
        let folder = self.folder.path().join("by-hand");
        let path = folder.display().to_string();
        let charts = chart("");
        let cache = self.folder.path().join("cache").display().to_string();
        let source = ["--charts", &charts, "--cache", &cache];
        let said = self.osdpl(
            &[&["render", "--credentials", "--out", &path, "-n", &self.namespace, release], &source[..]].concat(),
        );
        assert!(said.contains("with the real credentials"), "{said}");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(format!("{release}.yaml")))), (0o700, 0o600));
        // Programs as a person has them: by their names.
        let programs = self.folder.path().join("programs");
        std::fs::create_dir(&programs).unwrap();
        for (name, program) in
            [("helm", self.cluster().helm(4).unwrap()), ("kubectl", self.cluster().kubectl().unwrap())]
        {
            std::os::unix::fs::symlink(program, programs.join(name)).unwrap();
        }
        let path = std::env::join_paths(
            [programs].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut script = Command::new(folder.join("install.sh"));
        let output = script
            .arg(release)
            .env("PATH", path.unwrap())
            .env("HOME", self.folder.path().join("home"))
            .env("KUBECONFIG", self.cluster().kubeconfig())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn kubectl_does(&self, arguments: &[&str]) {
        let mut kubectl = Command::new(self.cluster().kubectl().unwrap());
        kubectl.arg("--kubeconfig").arg(self.cluster().kubeconfig()).args(["--namespace", &self.namespace]);
        let output = kubectl.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The pods that run something, by name and uid: those of Jobs come and go.
    async fn pods(&self) -> BTreeSet<(String, String)> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap();
        let lasting =
            pods.items.into_iter().filter(|pod| pod.owner_references().iter().all(|owner| owner.kind != "Job"));
        lasting.map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
    }

    /// Every label of ours on helm's records.
    async fn labels_on_records(&self) -> BTreeSet<String> {
        let records = self.api::<Secret>().list_metadata(&ListParams::default().labels("owner=helm")).await.unwrap();
        let labels = records.items.into_iter().flat_map(|record| record.labels().keys().cloned().collect::<Vec<_>>());
        labels.filter(|label| label.starts_with("osdpl.dev/")).collect()
    }

    /// Lets the whole cloud go, with a look at the plan before it happens: nothing is uninstalled, upgraded or restarted.
    async fn goes_whole(&self, operator: Operator) {
        let runs = || self.helm_prints(&["list", "--output", "json", "--time-format", "2006"]);
        let (pods, releases) = (self.pods().await, runs());
        // With nobody to carry it out the deletion can be looked at.
        assert!(operator.stop().await.success());
        self.osdpl(&["detach", "--namespace", &self.namespace, "--all"]);
        let plan = self.osdpl(&["plan"]);
        for name in ["keystone", "mariadb", "rabbitmq"] {
            let line = plan.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            assert!(line.contains("take our labels from its records"), "{plan}");
        }
        let _operator = self.operator().start().await;
        self.until_gone().await;
        assert_eq!(self.labels_on_records().await, BTreeSet::new());
        assert_eq!((runs(), self.pods().await), (releases, pods));
    }

    /// Has the running cloud described; the file that was written.
    fn describe(&self) -> PathBuf {
        let file = self.folder.path().join("adopted.yaml");
        let path = file.display().to_string();
        let said = self.osdpl(&["adopt", "--namespace", &self.namespace, "--name", NAME, "--out", &path]);
        for (name, _) in by_hand() {
            let line = said.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            assert!(line.contains("taking it over changes nothing"), "{said}");
        }
        assert!(!said.contains("by-hand"), "{said}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        file
    }
}

#[test]
fn a_cloud_that_was_installed_by_hand_comes_in_without_a_restart_and_goes_again() {
    story("adopt", async |world| {
        world.install_by_hand();
        let operator = world.operator().start().await;
        let pods = world.pods().await;
        let file = world.describe();
        assert_eq!(world.labels_on_records().await, BTreeSet::new(), "it is only looked at");
        world.kubectl_does(&["apply", "--server-side", "-f", &file.display().to_string()]);
        let told = |cloud: &osdpl::api::OpenStackDeployment| {
            let child = cloud.child("keystone");
            child.message.contains("take it over (osdpl adopt <release>): nothing would change").then_some(child.status)
        };
        assert_eq!(world.until("what taking it over would change is told", told).await, "unmanaged");

        world.osdpl(&["adopt", "--namespace", &world.namespace, "keystone", "mariadb"]);
        world.until("keystone is taken over", |cloud| cloud.child("keystone").ready.then_some(())).await;
        world.osdpl(&["adopt", "--namespace", &world.namespace, "--all"]);
        let patch = Patch::Merge(json!({"spec": {"paused": false}}));
        world.deployments().patch(NAME, &PatchParams::default(), &patch).await.unwrap();
        let ready = world.until_ready().await;
        assert_eq!(ready.annotations().get(ADOPT), None, "it was asked for once");
        for (name, values) in by_hand() {
            assert_eq!(ready.child(name).revision, Some(1), "{name}");
            assert_eq!(world.helm_values(name), values, "{name} has the passwords that it had");
        }
        assert_eq!(world.helm_runs(), []);
        assert_eq!(world.pods().await, pods);
        let again = world.osdpl(&["adopt", "--namespace", &world.namespace, "keystone"]);
        assert_eq!(again, "osdpl's already, nothing to do: keystone (revision 1)\n");

        // One release goes, and helm goes on with it while the rest stays.
        world.osdpl(&["detach", "--namespace", &world.namespace, "memcached"]);
        let gone = |cloud: &osdpl::api::OpenStackDeployment| {
            cloud.child("memcached").message.starts_with("let go").then_some(())
        };
        world.until("memcached is let go", gone).await;
        world.helm_prints(&[
            "upgrade",
            "memcached",
            &chart("memcached"),
            "--reuse-values",
            "--set",
            "conf.memcached.memory=77",
        ]);
        let seen = |cloud: &osdpl::api::OpenStackDeployment| {
            (cloud.child("memcached").revision == Some(2) && cloud.is_ready()).then_some(())
        };
        world.until("its next revision is seen, and is nobody's business", seen).await;

        world.goes_whole(operator).await;
        world.helm_prints(&[
            "upgrade",
            "keystone",
            &chart("keystone"),
            "--reuse-values",
            "--set",
            "conf.keystone.DEFAULT.debug=false",
        ]);
        assert_eq!(
            world.helm_values("keystone")["endpoints"]["identity"]["auth"]["admin"]["password"],
            "admin-by-hand"
        );
        assert_eq!(world.helm_runs(), []);
    });
}

#[test]
fn what_was_upgraded_by_hand_to_what_is_wanted_is_in_sync_when_it_comes_back() {
    story("back", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["mariadb", "memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        let mut spec = with_values(spec, "memcached", json!({"conf": {"memcached": {"memory": 512}}}));
        spec["services"]["memcached"]["releases"]["memcached"]["paused"] = json!(true);
        world.apply(&spec).await;
        let paused = |cloud: &osdpl::api::OpenStackDeployment| {
            cloud.child("memcached").message.starts_with("paused").then_some(())
        };
        world.until("it waits", paused).await;
        world.install_rendered("memcached");
        let in_sync = |cloud: &osdpl::api::OpenStackDeployment| {
            let child = cloud.child("memcached");
            (child.revision == Some(2) && child.ready).then_some(())
        };
        world.until("what was done by hand is in sync", in_sync).await;
        let pods = world.pods().await;
        spec["services"]["memcached"]["releases"]["memcached"]["paused"] = json!(false);
        world.apply(&spec).await;
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));
        assert_eq!(world.pods().await, pods);
        assert_eq!(world.helm_runs().iter().filter(|run| run.release() == "memcached").count(), 1, "the install alone");
    });
}

#[test]
fn a_release_that_flux_or_argo_drives_is_not_taken_over_and_one_that_differs_waits_for_approval() {
    story("driven", async |world| {
        world.helm_prints(&["install", "memcached", &chart("memcached"), "--set", "conf.memcached.memory=99"]);
        let name = "memcached-memcached";
        let flux = ["helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"];
        let labelled = |value: Value| Patch::Merge(json!({"metadata": {"labels": {flux[0]: value, flux[1]: value}}}));
        let sets = world.api::<StatefulSet>();
        let _operator = world.operator().start().await;
        world.apply(&services(&["memcached"])).await;
        let says = async |what: &'static str| {
            world.until(what, |cloud| cloud.child("memcached").message.contains(what).then(|| cloud.clone())).await
        };
        // It was nobody's when it was looked at first.
        says("it would change conf.memcached.memory").await;
        sets.patch(name, &PatchParams::default(), &labelled(json!("caches"))).await.unwrap();
        let refused = world.osdpl_fails(&["adopt", "--namespace", &world.namespace, "memcached"]);
        assert!(refused.starts_with("osdpl: memcached can't be taken over: Flux drives it"), "{refused}");
        let refused = world.osdpl_fails(&["adopt", "--namespace", &world.namespace, "--all"]);
        assert!(refused.starts_with("osdpl: memcached can't be taken over: Flux drives it"), "{refused}");
        let asked = world.deployments().get(NAME).await.unwrap();
        assert_eq!(asked.annotations().get(ADOPT), None, "nobody takes it over later by an old word");
        world.annotate(ADOPT, json!("memcached")).await;
        let refused = says("is labelled for HelmRelease caches/caches").await;
        assert_eq!(refused.reason(), reason::FOREIGN);
        assert_eq!(world.labels_on_records().await, BTreeSet::new());

        // At once: between the two nobody would drive it, and it would be taken over.
        let argo = json!({"metadata": {
            "labels": {flux[0]: null, flux[1]: null},
            "annotations": {"argocd.argoproj.io/tracking-id": "caches:apps/StatefulSet:x/y"},
        }});
        sets.patch(name, &PatchParams::default(), &Patch::Merge(argo)).await.unwrap();
        says("argocd app delete caches --cascade=false").await;
        let none = json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": null}}});
        sets.patch(name, &PatchParams::default(), &Patch::Merge(none)).await.unwrap();

        let waits = says("it was taken over as others made it, which is not as it is wanted: waits for approval").await;
        assert!(waits.child("memcached").changes.contains(&"conf.memcached.memory".to_owned()), "{waits:?}");
        assert_eq!(world.helm_runs(), []);
        world.osdpl(&["approve"]);
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));
        assert_eq!(world.helm_runs().len(), 1);
    });
}
