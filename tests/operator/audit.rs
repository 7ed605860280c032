//! Compares the plans of the operator, and the output of `osdpl plan`, with the API server's audit log: the operator
//! must write all objects that the plans list, and no others.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use osdpl_core::api::{ADOPT, OpenStackDeployment, reason};
use osdpl_core::release::RELEASE_LABEL;
use serde_json::{Value, json};

use crate::ceph::{NEWER, SECRET};
use crate::cleanup::{config, refused};
use crate::cloud::{BACKENDS, NAME, StatusAccess, services, with_values};
use crate::nodes::Nodes;
use crate::world::{World, now, run_test, with_timeout};

/// The identity of an object: its kind in lower-case plural (`secrets`), its namespace and its name.
type Object = (String, String, String);

/// The kind of objects that these tests ignore, because plans do not list events.
const UNPLANNED: &str = "events";

impl World {
    /// Returns the objects that the operator itself wrote after `since`. Ignores writes of the status, and writes by
    /// helm.
    fn written_since(&self, since: Timestamp) -> BTreeSet<Object> {
        let own = self.writes_since(since).into_iter().filter(|entry| {
            let is_helm = entry.user_agent.starts_with("Helm");
            !is_helm && entry.subresource != "status" && entry.resource != UNPLANNED
        });
        own.map(|entry| (entry.resource, entry.namespace, entry.name)).collect()
    }

    /// Returns the objects that the operator's plans list. Reads only the plans that the operator logged after `since`.
    fn planned_since(&self, since: Timestamp) -> BTreeSet<Object> {
        let log = self.operator_log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let planned = lines.filter(|line| {
            let at = line["timestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
            line["message"] == "planned" && at.is_some_and(|at| at >= since)
        });
        let objects = planned.flat_map(|line| {
            let action = line["action"].as_str().unwrap_or_default().to_owned();
            let is_of_resource = action.contains("finalizer") || action.starts_with("annotate");
            let own = is_of_resource.then(|| object(&format!("OpenStackDeployment {}/{NAME}", self.namespace)));
            let listed = line["objects"].as_str().unwrap_or_default().to_owned();
            let listed: Vec<Object> = listed.split(", ").filter(|text| !text.is_empty()).map(object).collect();
            listed.into_iter().chain(own)
        });
        objects.collect()
    }

    /// Returns the objects that `osdpl plan` lists if the test's `OpenStackDeployment` gets this spec.
    fn printed_plan(&self, spec: &Value) -> BTreeSet<Object> {
        let file = self.file(spec);
        let plan: Value =
            serde_json::from_str(&self.osdpl(&["plan", "-f", file.to_str().unwrap(), "-o", "json"])).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let steps = all(&plan["releases"]).into_iter().chain(all(&plan["actions"]));
        let objects = steps.flat_map(|step| all(&step["objects"]));
        let objects =
            objects.map(|object| (plural(&text(&object["kind"])), text(&object["namespace"]), text(&object["name"])));
        let nodes = all(&plan["nodes"]).into_iter();
        objects.chain(nodes.map(|node| ("nodes".to_owned(), String::new(), text(&node["name"])))).collect()
    }

    /// Checks that the operator wrote exactly the objects that its plans after `since` list, and returns them.
    async fn writes_what_it_plans(&self, since: Timestamp, what: &str) -> BTreeSet<Object> {
        // A watch may report a write to the test before the API server adds the write to its audit log. So wait until
        // the audit log contains all planned writes.
        let logged = async {
            while self.written_since(since) != self.planned_since(since) {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(10), logged).await;
        let (written, planned) = (self.written_since(since), self.planned_since(since));
        let unplanned: Vec<_> = written.difference(&planned).collect();
        let unwritten: Vec<_> = planned.difference(&written).collect();
        assert!(
            unplanned.is_empty() && unwritten.is_empty(),
            "{what}: written but not planned {unplanned:?}, planned but not written {unwritten:?}"
        );
        written
    }
}

/// Parses an object as the operator's log names it: `Secret NAMESPACE/NAME`.
fn object(text: &str) -> Object {
    let (kind, key) = text.split_once(' ').unwrap();
    let (namespace, name) = key.split_once('/').unwrap();
    (plural(kind), namespace.to_owned(), name.to_owned())
}

/// Returns a kind as the audit log names it: `secrets` for `Secret`.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind.ends_with('s') { kind } else { format!("{kind}s") }
}

/// Leaves out CRDs. The operator writes CRDs only if an earlier test has left the CRDs of mariadb's chart in the
/// cluster, because the operator then makes the new release the owner of these CRDs.
fn without_crds(mut objects: BTreeSet<Object>) -> BTreeSet<Object> {
    objects.retain(|(kind, ..)| kind != "customresourcedefinitions");
    objects
}

fn kinds(objects: &BTreeSet<Object>) -> BTreeSet<&str> {
    objects.iter().map(|(kind, ..)| kind.as_str()).collect()
}

#[test]
fn plans_list_all_writes_from_install_to_deletion() {
    run_test("planned", async |world| {
        // Grant rights in all namespaces, because the operator creates the namespace of a release in this test.
        world.permit_all();
        let mut nodes = Nodes::of(world);
        let began = now();
        let _operator = world.operator().start().await;
        let elsewhere = format!("{}-cache", world.namespace);
        let mut spec = services(&["mariadb", "memcached", "rabbitmq"]);
        spec["services"]["keystone"] = json!({"enabled": false});
        spec["services"]["memcached"]["releases"]["memcached"] = json!({"namespace": elsewhere});
        let printed = without_crds(world.printed_plan(&spec));
        world.apply(&spec).await;
        world.until_ready().await;
        let installed = without_crds(world.writes_what_it_plans(began, "install").await);
        assert_eq!(installed, printed, "osdpl plan must list the writes of the install");
        let namespace = ("namespaces".to_owned(), String::new(), elsewhere.clone());
        assert!(installed.contains(&namespace), "{installed:?}");
        assert_eq!(kinds(&installed), ["namespaces", "openstackdeployments", "secrets"].into(), "{installed:?}");

        spec = with_values(spec, "memcached", json!({"conf": {"memcached": {"memory": 300}}}));
        let printed = world.printed_plan(&spec);
        let began = now();
        world.apply(&spec).await;
        let is_upgraded = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then_some(())
        };
        world.until("memcached is upgraded", is_upgraded).await;
        let changed = world.writes_what_it_plans(began, "day-2 change").await;
        assert_eq!(changed, printed, "osdpl plan must list the writes of the day-2 change");

        check_cleanup(world, &spec, &elsewhere).await;

        let first = nodes.add("first", json!({"rack": "planned"})).await;
        spec["nodes"] = json!({"roles": {"compute": {"selector": {"matchLabels": {"rack": "planned"}}}}});
        let printed = world.printed_plan(&spec);
        let began = now();
        world.apply(&spec).await;
        nodes.until_labels(&first, &[("openstack-compute-node", "enabled"), ("openvswitch", "enabled")]).await;
        let labelled = world.writes_what_it_plans(began, "new role").await;
        assert_eq!(labelled, printed, "osdpl plan must list the writes of the new role");
        assert_eq!(labelled, [("nodes".to_owned(), String::new(), first)].into());

        let began = now();
        let node = nodes.add("new", json!({"rack": "planned"})).await;
        nodes.until_labels(&node, &[("openstack-compute-node", "enabled"), ("openvswitch", "enabled")]).await;
        let labelled = world.writes_what_it_plans(began, "new node").await;
        assert!(labelled.contains(&("nodes".to_owned(), String::new(), node)), "{labelled:?}");

        let began = now();
        world.delete().await;
        world.until_gone().await;
        let deleted = world.writes_what_it_plans(began, "deletion").await;
        assert!(kinds(&deleted).contains("jobs") && kinds(&deleted).contains("nodes"), "{deleted:?}");
        nodes.remove_all().await;
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        namespaces.delete(&elsewhere, &DeleteParams::default()).await.unwrap();
    });
}

/// Checks that plans list the objects that the operator deletes after a failed upgrade.
///
/// The cloud must be ready with the spec `spec`, and its release memcached must have revision 2 in `namespace`.
async fn check_cleanup(world: &World, spec: &Value, namespace: &str) {
    let began = now();
    let values = json!({"conf": {"memcached": {"memory": 300}}, "extraObjects": [config("left"), refused()]});
    world.apply(&with_values(spec.clone(), "memcached", values)).await;
    let has_failed = |cloud: &OpenStackDeployment| {
        let child = cloud.child("memcached");
        (child.status == "failed" && child.revision == Some(3)).then_some(())
    };
    world.until("the upgrade of memcached has failed", has_failed).await;
    world.apply(spec).await;
    let object = |kind: &str, name: &str| (kind.to_owned(), namespace.to_owned(), name.to_owned());
    let record = object("secrets", "sh.helm.release.v1.memcached.v3");
    with_timeout("the operator labels the record of the failed revision", async {
        while !world.written_since(began).contains(&record) {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    })
    .await;
    world.until_ready().await;
    let written = world.writes_what_it_plans(began, "cleanup").await;
    assert!(written.contains(&object("configmaps", "left")), "{written:?}");
}

#[test]
fn plans_list_the_transfer_of_crds() {
    run_test("planned-crds", async |world| {
        let elsewhere = format!("{}-data", world.namespace);
        world.permit(&elsewhere).await;
        let here = services(&["mariadb"]);
        let mut moved = here.clone();
        moved["services"]["mariadb"]["releases"]["mariadb"] = json!({"namespace": elsewhere});
        let _operator = world.operator().start().await;
        world.apply(&moved).await;
        world.until_ready().await;
        world.delete().await;
        world.until_gone().await;

        let began = now();
        world.apply(&here).await;
        let hash = world.until_reason(reason::APPROVAL).await.status().approval.unwrap();
        world.osdpl(&["approve", &hash]);
        world.until_ready().await;
        let installed =
            world.writes_what_it_plans(began, "install with CRDs that the uninstall of a release has left").await;
        assert!(kinds(&installed).contains("customresourcedefinitions"), "{installed:?}");
        let runs = world.helm_runs();
        assert_eq!(runs.len(), 3, "helm must run to install, uninstall and install mariadb: {runs:#?}");
    });
}

#[test]
fn plans_list_all_writes_of_a_ceph_key_rotation() {
    run_test("planned-ceph", async |world| {
        world.describe_ceph(json!({})).await;
        let began = now();
        let _operator = world.operator().start().await;
        let mut spec = world.with_external(services(&["keystone", "glance"]), &BACKENDS).await;
        spec["features"] =
            json!({"storage": {"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": SECRET}}}});
        world.apply(&spec).await;
        world.until_ready().await;
        let installed = world.writes_what_it_plans(began, "install").await;
        assert!(kinds(&installed).contains("configmaps"), "{installed:?}");

        let began = now();
        world.describe_ceph(json!({"glance.key": NEWER})).await;
        let is_upgraded =
            |cloud: &OpenStackDeployment| (cloud.is_ready() && cloud.child("glance").revision == Some(2)).then_some(());
        world.until("glance has the new key", is_upgraded).await;
        let rotated = world.writes_what_it_plans(began, "rotation").await;
        let keyring = ("secrets".to_owned(), world.namespace.clone(), "images-rbd-keyring".to_owned());
        assert!(rotated.contains(&keyring), "{rotated:?}");
    });
}

#[test]
fn a_paused_cloud_is_not_written_to() {
    run_test("planned-pause", async |world| {
        let mut nodes = Nodes::of(world);
        let _operator = world.operator().start().await;
        let mut spec = services(&["mariadb", "memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        spec["paused"] = json!(true);
        world.apply(&spec).await;
        let cloud = world.until_reason(reason::PAUSED).await;
        assert_eq!(cloud.condition("Paused").unwrap().status, "True");

        // Each of the following changes would make the operator write something if the cloud were not paused.
        let began = now();
        let mut changed = with_values(spec.clone(), "memcached", json!({"conf": {"memcached": {"memory": 300}}}));
        changed["services"]["rabbitmq"] = json!({"enabled": true});
        changed["nodes"] = json!({"roles": {"compute": {"selector": {"matchLabels": {"rack": "paused"}}}}});
        let generation = world.apply(&changed).await.metadata.generation;
        nodes.add("new", json!({"rack": "paused"})).await;
        world.annotate(ADOPT, json!("mariadb")).await;
        let credentials = credentials_of("mariadb");
        let edit = json!({"stringData": {"root": "changed-by-hand"}});
        let secrets: Api<Secret> = world.api();
        secrets.patch(&credentials, &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        let is_observed =
            |cloud: &OpenStackDeployment| (cloud.status().observed_generation == generation).then_some(());
        world.until("the operator has observed the change of the paused cloud", is_observed).await;
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        assert_eq!(world.written_since(began), [].into());
        assert_eq!(world.planned_since(began), [].into());
        assert_eq!(world.helm_runs().len(), 2);

        changed["paused"] = json!(false);
        world.apply(&changed).await;
        with_timeout("the operator labels the node after the pause", async {
            while !kinds(&world.written_since(began)).contains("nodes") {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        })
        .await;
        nodes.remove_all().await;
    });
}

#[test]
fn the_deletion_of_a_paused_cloud_waits() {
    run_test("planned-pause-deletion", async |world| {
        let _operator = world.operator().start().await;
        let mut spec = services(&["memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        spec["paused"] = json!(true);
        world.apply(&spec).await;
        world.until_reason(reason::PAUSED).await;
        let began = now();
        let clouds: Api<OpenStackDeployment> = world.api();
        clouds.delete(NAME, &DeleteParams::default()).await.unwrap();
        let is_waiting =
            |cloud: &OpenStackDeployment| cloud.status().message.contains("the cloud is paused").then_some(());
        world.until("the deletion waits until the pause ends", is_waiting).await;
        assert_eq!(world.written_since(began), [].into());
        assert_eq!(world.helm_runs().len(), 1);

        let resumed = json!({"spec": {"paused": false}});
        clouds.patch(NAME, &PatchParams::default(), &Patch::Merge(resumed)).await.unwrap();
        let gone = await_condition(clouds, NAME, |cloud: Option<&OpenStackDeployment>| cloud.is_none());
        drop(with_timeout("the cloud is deleted after the pause", gone).await.unwrap());
        assert_eq!(world.helm_runs().last().unwrap().verb(), "uninstall");
    });
}

/// Returns a spec with a database, a broker, a cache, and OVN, whose releases mariadb and ovn have this field `paused`.
fn partly_paused(paused: bool) -> Value {
    let mut spec = services(&["mariadb", "memcached", "rabbitmq", "openvswitch", "ovn"]);
    spec["features"] = json!({"network": {"backend": "ovn"}});
    for release in ["mariadb", "ovn"] {
        spec["services"][release]["releases"] = json!({release: {"paused": paused}});
    }
    spec
}

/// Returns the spec with the update strategy `RollingUpdate` for ovn. As soon as the values no longer contain this
/// strategy, the operator itself sets `OnDelete` in ovn's `DaemonSet`, before helm upgrades ovn.
fn with_rolling_update(spec: Value) -> Value {
    let daemonsets = json!({"pod_replacement_strategy": "RollingUpdate"});
    with_values(spec, "ovn", json!({"pod": {"lifecycle": {"upgrades": {"daemonsets": daemonsets}}}}))
}

fn with_changed_values(spec: Value) -> Value {
    let spec = with_values(spec, "mariadb", json!({"conf": {"database": {"my": "# changed"}}}));
    with_values(spec, "memcached", json!({"conf": {"memcached": {"memory": 300}}}))
}

fn credentials_of(service: &str) -> String {
    format!("{NAME}-credentials-{service}")
}

/// Edits osdpl's Secrets of mariadb and rabbitmq, and waits until the operator has restored that of rabbitmq.
///
/// The operator's watch reports the edit of mariadb's Secret first. So the pass that restores rabbitmq's Secret also
/// restores that of mariadb, unless mariadb is paused.
async fn edit_credentials(world: &World) {
    let passwords = world.credentials("rabbitmq").await;
    for (service, key) in [("mariadb", "root"), ("rabbitmq", "guest")] {
        let edit = Patch::Merge(json!({"stringData": {key: "changed-by-hand"}}));
        let secrets: Api<Secret> = world.api();
        secrets.patch(&credentials_of(service), &PatchParams::default(), &edit).await.unwrap();
    }
    let is_restored = |found: Option<&Secret>| {
        let data = found.and_then(|found| found.data.as_ref());
        data.is_some_and(|data| data["guest"].0 == passwords["guest"].as_bytes())
    };
    let what = "the operator restores rabbitmq's Secret";
    Box::pin(world.until_object(what, &credentials_of("rabbitmq"), is_restored)).await;
}

#[test]
fn paused_releases_are_not_written_to() {
    run_test("planned-release-pause", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&with_rolling_update(partly_paused(false))).await;
        world.until_ready().await;
        let generation = world.apply(&with_rolling_update(partly_paused(true))).await.metadata.generation;
        let is_observed =
            |cloud: &OpenStackDeployment| (cloud.status().observed_generation == generation).then_some(());
        world.until("the operator has observed the pause", is_observed).await;

        // The releases rabbitmq and memcached are not paused: the operator restores the Secret of one, and upgrades the
        // other.
        let (began, runs) = (now(), world.helm_runs().len());
        let releases = || world.helm_runs()[runs..].iter().map(|run| run.release().to_owned()).collect::<BTreeSet<_>>();
        edit_credentials(world).await;
        world.apply(&with_changed_values(partly_paused(true))).await;
        let is_upgraded = |cloud: &OpenStackDeployment| {
            let memcached = cloud.child("memcached");
            let is_paused = |release| cloud.child(release).message.starts_with("paused");
            let is_upgraded = memcached.ready && memcached.revision == Some(2);
            (is_upgraded && is_paused("mariadb") && is_paused("ovn") && !cloud.is_ready()).then_some(())
        };
        world.until("memcached is upgraded, and the paused releases wait", is_upgraded).await;
        let written = world.writes_what_it_plans(began, "two paused releases").await;
        let object = |kind: &str, name: &str| (kind.to_owned(), world.namespace.clone(), name.to_owned());
        let rabbitmq = object("secrets", &credentials_of("rabbitmq"));
        assert_eq!(written, [rabbitmq].into());
        assert_eq!(releases(), ["memcached".to_owned()].into());

        // Without the pause, the operator executes all changes.
        world.apply(&with_changed_values(partly_paused(false))).await;
        world.until_ready().await;
        let written = world.writes_what_it_plans(began, "end of the pause").await;
        let expected = [object("secrets", &credentials_of("mariadb")), object("daemonsets", "ovn-controller-default")];
        assert!(written.is_superset(&expected.into()), "{written:?}");
        assert_eq!(releases(), ["mariadb", "memcached", "ovn"].map(str::to_owned).into());
    });
}

#[test]
fn a_paused_cloud_adopts_a_release_on_request() {
    run_test("planned-adoption", async |world| {
        let _operator = world.operator().start().await;
        let managed = services(&["memcached"]);
        world.apply(&managed).await;
        world.until_ready().await;
        let mut unmanaged = managed.clone();
        unmanaged["services"]["memcached"]["releases"] = json!({"memcached": {"managed": false}});
        world.apply(&unmanaged).await;
        let is_unmanaged =
            |cloud: &OpenStackDeployment| cloud.child("memcached").message.starts_with("unmanaged:").then_some(());
        world.until("memcached is unmanaged", is_unmanaged).await;
        let mut paused = managed;
        paused["paused"] = json!(true);
        let generation = world.apply(&paused).await.metadata.generation;
        let is_observed =
            |cloud: &OpenStackDeployment| (cloud.status().observed_generation == generation).then_some(());
        world.until("the operator has observed the pause", is_observed).await;

        let began = now();
        world.annotate(ADOPT, json!("memcached")).await;
        let record = "sh.helm.release.v1.memcached.v1";
        let is_labelled =
            |record: Option<&Secret>| record.is_some_and(|record| record.labels().contains_key(RELEASE_LABEL));
        Box::pin(world.until_object("the release is adopted", record, is_labelled)).await;
        let adopted = world.writes_what_it_plans(began, "adoption").await;
        assert_eq!(adopted, [("secrets".to_owned(), world.namespace.clone(), record.to_owned())].into());
        assert_eq!(world.helm_runs().len(), 1);
    });
}
