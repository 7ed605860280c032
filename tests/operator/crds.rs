//! Tests CRDs of charts. The operator creates a missing CRD, and changes an existing CRD only after approval. It never
//! changes a CRD that has another owner, or that is newer than the CRD in the chart.

use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use osdpl_core::api::{MANAGER, OpenStackDeployment, reason};
use serde_json::{Value, json};

use crate::approval::copy;
use crate::cloud::{StatusAccess, services, with_values};
use crate::proxy::{Answer, Proxy, REFUSALS};
use crate::world::{World, run_test, with_timeout};

/// The CRD of a test. CRDs are cluster-scoped. So the CRD's group contains the test's namespace, which makes the group
/// unique.
struct Crd<'a> {
    world: &'a World,
    api: Api<CustomResourceDefinition>,
    name: String,
}

impl<'a> Crd<'a> {
    fn of(world: &'a World) -> Self {
        let name = format!("widgets.{}.example.org", world.namespace);
        Self { world, api: Api::all(world.client.clone()), name }
    }

    /// Returns the manifest of the CRD. The CRD's schema defines these fields in `spec`.
    fn with_fields(&self, fields: &[&str]) -> Value {
        let fields: serde_json::Map<_, _> =
            fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
        let spec = json!({"type": "object", "properties": fields});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": format!("{}.example.org", self.world.namespace), "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        })
    }

    /// Returns a folder of charts in which memcached's chart contains the CRD with these fields in `spec`.
    fn charts(&self, fields: &[&str]) -> PathBuf {
        let folder = self.world.folder.path().join("charts");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts"), &folder);
        std::fs::create_dir_all(folder.join("memcached/crds")).unwrap();
        std::fs::write(folder.join("memcached/crds/widgets.yaml"), self.with_fields(fields).to_string()).unwrap();
        folder
    }

    /// Applies the CRD with these fields in `spec`, as this field manager.
    async fn apply(&self, manager: &str, fields: &[&str]) {
        let params = PatchParams::apply(manager).force();
        self.api.patch(&self.name, &params, &Patch::Apply(self.with_fields(fields))).await.unwrap();
    }

    /// Returns the names of the fields that the CRD in the cluster defines in `spec`.
    async fn fields(&self) -> Vec<String> {
        let crd = serde_json::to_value(self.api.get(&self.name).await.unwrap()).unwrap();
        let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
        schema.as_object().unwrap().keys().cloned().collect()
    }

    async fn delete(&self) {
        drop(self.api.delete(&self.name, &DeleteParams::default()).await.unwrap());
    }
}

#[test]
fn changes_crds_only_after_approval() {
    run_test("crd-change", async |world| {
        let crd = Crd::of(world);
        let _operator = world.operator().charts(&crd.charts(&["colour", "size"])).start().await;
        let spec = services(&["memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(crd.fields().await, ["colour", "size"], "a missing CRD must need no approval");

        crd.apply(MANAGER, &["colour", "weight"]).await;
        let changed = with_values(spec.clone(), "memcached", json!({"conf": {"memcached": {"memory": 300}}}));
        world.apply(&changed).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        let message = cloud.child("memcached").message;
        assert!(message.contains("its chart changes CRDs that already exist in the cluster"), "{message}");
        assert!(message.contains(&crd.name), "{message}");
        assert_eq!((crd.fields().await, world.helm_runs().len()), (vec!["colour".into(), "weight".into()], 1));
        world.osdpl(&["approve"]);
        let is_upgraded = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then_some(())
        };
        world.until("memcached is upgraded", is_upgraded).await;
        assert_eq!(crd.fields().await, ["colour", "size"]);

        crd.apply(MANAGER, &["colour", "size", "weight"]).await;
        world.apply(&spec).await;
        let is_upgraded = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == Some(3)).then_some(())
        };
        world
            .until("memcached is upgraded without approval, because the CRD in the cluster is newer", is_upgraded)
            .await;
        assert_eq!(crd.fields().await, ["colour", "size", "weight"]);
        crd.delete().await;
    });
}

/// The status must contain the digest of a chart before the operator writes the chart's CRDs. Otherwise a restarted
/// operator could accept other content of the chart.
#[test]
fn crds_are_written_only_after_the_status_names_the_release() {
    run_test("crd-unrecorded", async |world| {
        world.allow_errors();
        let (crd, proxy) = (Crd::of(world), Proxy::start(world).await);
        let _operator = world.operator().charts(&crd.charts(&["colour"])).through(&proxy).start().await;
        let mut spec = services(&["memcached"]);
        spec["paused"] = json!(true);
        world.apply(&spec).await;
        world.until_reason(reason::PAUSED).await;

        let mut count = proxy.refuse_status_writes();
        spec["paused"] = json!(false);
        world.apply(&spec).await;
        let planned = format!("apply CustomResourceDefinition {}", crd.name);
        let is_planned = async {
            while !world.operator_log().contains(&planned) {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        };
        with_timeout("the operator plans to write the CRD", is_planned).await;
        let enough = *count.borrow() + REFUSALS;
        let refusals = count.wait_for(|count| *count >= enough);
        drop(with_timeout("the API server refuses writes of the status", refusals).await.unwrap());
        assert_eq!((crd.api.get_opt(&crd.name).await.unwrap(), world.helm_runs().len()), (None, 0));

        proxy.set_rule(|_| Answer::Forward);
        world.until_ready().await;
        assert_eq!(crd.fields().await, ["colour"]);
        crd.delete().await;
    });
}

#[test]
fn keeps_crds_of_other_owners() {
    run_test("crd-foreign", async |world| {
        let crd = Crd::of(world);
        crd.apply("argocd-controller", &["colour"]).await;
        let _operator = world.operator().charts(&crd.charts(&["colour", "size"])).start().await;
        let mut spec = services(&["memcached"]);
        spec["approval"] = json!("Automatic");
        world.apply(&spec).await;
        let message = world.until_reason(reason::FOREIGN).await.child("memcached").message;
        let owner = format!("CRD {}, which field manager \"argocd-controller\" owns", crd.name);
        assert!(message.contains(&owner) && message.contains("hand the CRDs of the chart over"), "{message}");
        assert_eq!((crd.fields().await, world.helm_runs().len()), (vec!["colour".into()], 0));
        // Argo CD, which owns the CRD, updates it to the version in the chart.
        crd.apply("argocd-controller", &["colour", "size"]).await;
        world.until_ready().await;
        crd.delete().await;
    });
}

/// The name of a CRD that mariadb's chart has in its templates, not in its folder `crds`. So helm creates and changes
/// this CRD, but only after the operator has checked the change.
const TEMPLATED: &str = "databases.mariadb.osh.openstack.org";

/// Applies the CRD `crd` with these versions, as this field manager. Overwrites the fields of other field managers.
async fn apply_versions(world: &World, crd: &CustomResourceDefinition, manager: &str, versions: Value) {
    let mut spec = json!(crd.spec);
    spec["versions"] = versions;
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": crd.metadata.name}, "spec": spec,
    });
    let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let name = crd.metadata.name.as_deref().unwrap();
    api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(object)).await.unwrap();
}

#[test]
fn checks_crds_in_templates_before_helm_changes_them() {
    run_test("crd-template", async |world| {
        let _operator = world.operator().start().await;
        let with_timeout = |seconds: u32| {
            let lifecycle = json!({"termination_grace_period": {"server": {"timeout": seconds}}});
            with_values(services(&["mariadb"]), "mariadb", json!({"pod": {"lifecycle": lifecycle}}))
        };
        world.apply(&with_timeout(10)).await;
        world.until_ready().await;
        let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        let of_chart = api.get(TEMPLATED).await.unwrap();
        let versions = async || json!(api.get(TEMPLATED).await.unwrap().spec.versions);
        let chart_versions = json!(of_chart.spec.versions);
        let mut changed = chart_versions.clone();
        changed[0]["additionalPrinterColumns"] = json!([{"name": "Age", "type": "date", "jsonPath": ".metadata"}]);
        let is_revision = |revision: i64| {
            move |cloud: &OpenStackDeployment| {
                (cloud.is_ready() && cloud.child("mariadb").revision == Some(revision)).then_some(())
            }
        };

        apply_versions(world, &of_chart, "argocd-controller", changed.clone()).await;
        world.apply(&with_timeout(11)).await;
        let message = world.until_reason(reason::FOREIGN).await.child("mariadb").message;
        assert!(message.contains(TEMPLATED) && message.contains("\"argocd-controller\" owns"), "{message}");
        assert_eq!((versions().await, world.helm_runs().len()), (changed.clone(), 1));
        apply_versions(world, &of_chart, "argocd-controller", chart_versions.clone()).await;
        world.until("mariadb is upgraded, because its CRD is up to date", is_revision(2)).await;

        let mut newer = chart_versions.clone();
        let mut version = newer[0].clone();
        (version["name"], version["storage"]) = (json!("v1"), json!(false));
        newer.as_array_mut().unwrap().push(version);
        apply_versions(world, &of_chart, "helm", newer.clone()).await;
        world.apply(&with_timeout(12)).await;
        let message = world.until_reason(reason::FOREIGN).await.child("mariadb").message;
        assert!(message.contains(&format!("a newer version of CRD {TEMPLATED}")), "{message}");
        assert_eq!((versions().await, world.helm_runs().len()), (newer, 2));

        apply_versions(world, &of_chart, "helm", changed.clone()).await;
        let message = world.until_reason(reason::APPROVAL).await.child("mariadb").message;
        assert!(message.contains("its chart changes CRDs that already exist in the cluster"), "{message}");
        assert!(message.contains(TEMPLATED), "{message}");
        assert_eq!((versions().await, world.helm_runs().len()), (changed, 2));
        world.osdpl(&["approve"]);
        world.until("mariadb is upgraded after approval", is_revision(3)).await;
        assert_eq!(versions().await, chart_versions);
    });
}
