//! osdpl adopts a cloud that a user installed with plain helm, upgrades two releases of the cloud, and detaches the
//! cloud again.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{ADOPT, OpenStackDeployment};
use osdpl_values::Path;
use serde_json::{Value, json};

use super::content::changed_lines;
use super::manual_install::{InstallOptions, ManualRelease, upstream};
use super::stand_ins;
use crate::cloud::{NAME, StatusAccess};
use crate::world::{World, run_test};

/// The name of a Secret that has the type of a release record, but does not name a release.
const MALFORMED: &str = "sh.helm.release.v1.nameless.v1";

impl World {
    /// Creates a malformed release record, which `osdpl adopt` must skip.
    async fn create_malformed_record(&self) {
        let record =
            json!({"metadata": {"name": MALFORMED, "labels": {"owner": "helm"}}, "type": "helm.sh/release.v1"});
        let record = serde_json::from_value(record).unwrap();
        self.api::<Secret>().create(&PostParams::default(), &record).await.unwrap();
    }

    /// Runs `osdpl adopt` for the manually installed cloud. The command writes an `OpenStackDeployment` for this cloud
    /// into a file. Returns the path of the file.
    fn describe(&self, options: &InstallOptions, cloud: &[ManualRelease]) -> PathBuf {
        let file = self.folder.path().join("adopted.yaml");
        let (path, charts) = (file.display().to_string(), options.charts.display().to_string());
        let cache = self.folder.path().join("adopt-cache").display().to_string();
        let helm = self.cluster().helm(4).unwrap().display().to_string();
        let source = ["--charts", &charts, "--cache", &cache, "--helm", &helm];
        let output = self.run(&[&["adopt", "--name", NAME, "--out", &path], &source[..]].concat());
        let warnings = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{warnings}");
        let skipped = format!("warning: osdpl skips a release record: secret {}/{MALFORMED} has", self.namespace);
        assert!(warnings.contains(&skipped) && warnings.contains("its label \"name\" is missing"), "{warnings}");
        let output = String::from_utf8(output.stdout).unwrap();
        for one in cloud {
            let line = output.lines().find(|line| line.starts_with(&format!("{} ", one.release()))).unwrap_or_default();
            let key = format!(" {}/{} ", one.namespace.as_ref().unwrap_or(&self.namespace), one.name);
            assert!(line.contains(&key) && line.contains("adopting it changes nothing"), "{output}");
        }
        let all = format!("{0} of {0} releases can be adopted unchanged.", cloud.len());
        assert!(output.contains(&all), "{output}");
        let other_release = format!("{}/blog", self.namespace);
        let line = output.lines().find(|line| line.contains(&other_release)).unwrap_or_default();
        assert!(line.ends_with("ignored: the catalogue has no release of chart blog"), "{output}");
        assert!(!output.contains("by-hand"), "{output}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        file
    }

    /// Returns the data of the first revision's record of each release.
    async fn record_data(&self, cloud: &[ManualRelease]) -> Vec<Option<BTreeMap<String, ByteString>>> {
        let mut records = Vec::new();
        for one in cloud {
            let namespace = one.namespace.as_ref().unwrap_or(&self.namespace);
            let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
            records.push(secrets.get(&format!("sh.helm.release.v1.{}.v1", one.name)).await.unwrap().data);
        }
        records
    }

    async fn patch(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.deployments().patch(NAME, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Adopts keystone and mariadb while the cloud is paused, then all other releases.
    async fn adopt_all(&self, cloud: &[ManualRelease]) {
        let is_reported = |cloud: &OpenStackDeployment| {
            let child = cloud.child("keystone");
            child.message.contains("adopt it (osdpl adopt <release>): nothing would change").then_some(child.status)
        };
        assert_eq!(self.until("the operator offers to adopt keystone", is_reported).await, "unmanaged");
        self.osdpl(&["adopt", "--namespace", &self.namespace, "keystone", "mariadb"]);
        self.until("keystone is adopted", |cloud| cloud.child("keystone").ready.then_some(())).await;
        self.osdpl(&["adopt", "--namespace", &self.namespace, "--all"]);
        self.patch(json!({"paused": false})).await;
        let ready = self.until_ready().await;
        assert_eq!(ready.annotations().get(ADOPT), None, "the adoption must remove the annotation");
        for one in cloud {
            let child = ready.child(one.release());
            assert!(child.ready && child.revision == Some(1) && child.changes.is_empty(), "{}: {child:?}", one.name);
        }
        let again = self.osdpl(&["adopt", "--namespace", &self.namespace, "keystone"]);
        assert_eq!(again, "already managed by osdpl, nothing to do: keystone (revision 1)\n");
    }

    /// Upgrades the adopted releases keystone and mariadb with changed values. Checks that nothing else changes, in
    /// particular no password.
    async fn check_first_upgrades(&self, cloud: &[ManualRelease]) {
        let one = |release: &str| cloud.iter().find(|one| one.release() == release).unwrap();
        let (keystone, mariadb) = (one("keystone"), one("mariadb"));
        let (pods, texts) = (self.pods().await, self.texts().await);
        let (mut identity, mut database) = (self.merged_values(keystone), self.merged_values(mariadb));
        let tuned = "[mysqld]\nmax_connections=1024\n";
        self.patch(json!({"services": {
            "keystone": {"releases": {"keystone": {"values": {"annotations": null, "conf": {"keystone": {"token": {"expiration": 4321}}}}}}},
            "mariadb": {"releases": {"mariadb": {"values": {"conf": {"database": {"my": tuned}}}}}},
        }}))
        .await;
        let ready = self.until_ready().await;

        let mut runs: Vec<_> = self.helm_runs().iter().map(|run| format!("{} {}", run.verb(), run.release())).collect();
        runs.sort();
        assert_eq!(runs, ["upgrade keystone", "upgrade mariadb"]);
        // The first revision of each other release stays, and with it all of its values.
        for one in cloud {
            let upgraded = [&keystone.name, &mariadb.name].contains(&&one.name);
            assert_eq!(ready.child(one.release()).revision, Some(1 + i64::from(upgraded)), "{}", one.name);
        }
        identity.remove("annotations");
        for (values, path, value) in [
            (&mut identity, "conf.keystone.token.expiration", json!(4321)),
            (&mut database, "conf.database.my", json!(tuned)),
        ] {
            osdpl_values::set(values, &Path::parse(path).unwrap(), value);
        }
        let mut values = self.merged_values(keystone);
        values.remove("annotations");
        assert_eq!(
            (values, self.merged_values(mariadb)),
            (identity, database),
            "the upgrade must change only the values that the spec sets"
        );
        let lines = changed_lines(&texts, &self.texts().await);
        let expected = [
            "keystone-etc keystone.conf: -expiration = 1234",
            "keystone-etc keystone.conf: +expiration = 4321",
            "mariadb-etc my.cnf: -max_connections=512",
            "mariadb-etc my.cnf: +max_connections=1024",
        ];
        assert_eq!(lines, expected);
        self.check_restarted_pods(&pods).await;
    }

    /// Checks that the upgrades replaced only pods of keystone and mariadb, and that keystone's new pods lack the
    /// annotation that the manual install set.
    async fn check_restarted_pods(&self, pods: &BTreeSet<(String, String)>) {
        let api = self.api::<Deployment>().get("keystone-api").await.unwrap().spec.unwrap().template.metadata.unwrap();
        let annotations = api.annotations.unwrap_or_default();
        assert!(
            !annotations.contains_key("example.org/by"),
            "the upgrade must remove the annotation that only the manual install has set: {annotations:?}"
        );
        let now = self.pods().await;
        let others: Vec<_> =
            pods.symmetric_difference(&now).filter(|(name, _)| !is_of(name, &["keystone", "mariadb"])).collect();
        assert_eq!(others, Vec::<&(String, String)>::new(), "the upgrades must not replace pods of other releases");
        assert!(
            pods.iter().any(|pod| is_of(&pod.0, &["keystone"]) && !now.contains(pod)),
            "the upgrade must replace keystone's pods, so that they read the new keystone.conf"
        );
    }
}

fn is_of(pod: &str, releases: &[&str]) -> bool {
    releases.iter().any(|release| pod.starts_with(&format!("{release}-")))
}

/// Installs a cloud with plain helm, then adopts, upgrades and detaches it with osdpl.
fn adopt_and_detach(name: &str, options: &InstallOptions) {
    run_test(name, async |world| {
        let cloud = world.read_manual_releases(options);
        world.install_manually(options, &cloud).await;
        world.install_stranger(options);
        world.create_malformed_record().await;
        let operator = world.operator().charts(&options.charts).start().await;
        let (pods, texts) = (world.pods().await, world.texts().await);
        let records = world.record_data(&cloud).await;
        let file = world.describe(options, &cloud);
        assert!(
            world.labels_on_records().await.is_empty(),
            "if the command line names no release, `osdpl adopt` must label no record"
        );
        world.run_kubectl(&["apply", "--server-side", "-f", &file.display().to_string()]);
        world.adopt_all(&cloud).await;
        world.check_adopted_credentials(&cloud).await;
        assert_eq!(world.helm_runs(), []);
        assert_eq!(world.pods().await, pods);
        assert_eq!(changed_lines(&texts, &world.texts().await), [""; 0]);
        assert!(
            world.record_data(&cloud).await == records,
            "an adoption must not change the content of helm's records"
        );

        world.check_first_upgrades(&cloud).await;
        world.detach_one_then_all(options, &cloud, operator).await;
        assert_eq!(world.helm_runs().len(), 2, "{:?}", world.helm_runs());
    });
}

#[test]
fn adopts_and_detaches_a_manual_install_without_restarts() {
    adopt_and_detach("adopt", &InstallOptions { helm: 4, charts: stand_ins(), only: &[] });
}

/// A user installs the releases with Helm 3, which uses client-side apply. The operator then upgrades them with Helm 4,
/// which uses server-side apply.
#[test]
fn adopts_from_helm_3_upgrades_with_helm_4_and_detaches() {
    let only = &["mariadb", "rabbitmq", "memcached", "keystone", "placement"];
    adopt_and_detach("adopt-helm3", &InstallOptions { helm: 3, charts: stand_ins(), only });
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test operator adopt -- --ignored"]
fn adopts_and_detaches_upstream_charts_without_restarts() {
    adopt_and_detach("adopt-upstream", &InstallOptions { helm: 4, charts: upstream(), only: &[] });
}
