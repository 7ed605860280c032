//! Node roles: the operator labels the nodes that the spec assigns to a role.

use std::collections::{BTreeMap, BTreeSet};

use cluster::AuditEntry;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use osdpl_core::api::{APPROVE, NODE_LABELS, OpenStackDeployment, Phase, owner_label};
use serde_json::{Value, json};

use crate::cloud::{NAME, StatusAccess, services};
use crate::world::{World, now, run_test, with_timeout};

/// The reason for the removal of labels, as `osdpl plan` prints it.
const REMOVAL_REASON: &str = "the spec no longer assigns the roles of these labels to the node";

/// The nodes that a test adds to the control plane. A test needs its own nodes, because the nodes of every control
/// plane already have the labels of all roles.
pub struct Nodes<'a> {
    world: &'a World,
    api: Api<Node>,
    names: Vec<String>,
}

impl<'a> Nodes<'a> {
    pub fn of(world: &'a World) -> Self {
        Self { world, api: Api::all(world.client.clone()), names: Vec::new() }
    }

    /// Adds a node with these labels, and returns the name of the node, which contains the test's namespace. The
    /// operator must not change these labels, because it did not set them.
    pub async fn add(&mut self, name: &str, labels: Value) -> String {
        let name = format!("{}-{name}", self.world.namespace);
        let node = json!({"metadata": {"name": name, "labels": labels}});
        self.api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        self.names.push(name.clone());
        name
    }

    async fn label(&self, name: &str, key: &str, value: Value) {
        self.change(name, json!({"labels": {key: value}})).await;
    }

    async fn change(&self, name: &str, metadata: Value) {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        self.api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until a node has these role labels and no other role labels. Returns the annotation in which osdpl lists
    /// the labels that it set; empty if there is no annotation.
    pub async fn until_labels(&self, name: &str, labels: &[(&str, &str)]) -> String {
        let wanted: BTreeMap<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let has = move |node: Option<&Node>| {
            node.is_some_and(|node| {
                let is_role_label =
                    |key: &String| ["open", "l3-", "sriov", "gpu"].iter().any(|begin| key.starts_with(begin));
                let labels = node.labels().iter().filter(|(key, _)| is_role_label(key));
                labels.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>() == wanted
            })
        };
        let what = format!("node {name} has the labels {labels:?}");
        let node = with_timeout(&what, await_condition(self.api.clone(), name, has)).await.unwrap().unwrap();
        node.annotations().get(NODE_LABELS).cloned().unwrap_or_default()
    }

    /// Removes the nodes that the test added, because later tests use the same control plane.
    pub async fn remove_all(self) {
        for name in self.names {
            let uid = self.api.get(&name).await.unwrap().uid().unwrap();
            self.api.delete(&name, &DeleteParams::default()).await.unwrap();
            with_timeout("the node is deleted", await_condition(self.api.clone(), &name, conditions::is_deleted(&uid)))
                .await
                .unwrap();
        }
    }
}

pub const COMPUTE: (&str, &str) = ("openstack-compute-node", "enabled");
pub const SWITCH: (&str, &str) = ("openvswitch", "enabled");
pub const GATEWAY: (&str, &str) = ("l3-agent", "enabled");

/// Returns a spec with these roles. With this spec, the operator removes labels from all nodes at once and without
/// approval.
fn with_roles(roles: Value) -> Value {
    with_rollout(roles, json!({"approval": "Automatic", "batchSize": "100%", "pauseSeconds": 0}))
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass the result of `json!` without a reference")]
pub fn with_rollout(roles: Value, rollout: Value) -> Value {
    let mut spec = services(&["memcached"]);
    spec["nodes"] = json!({"rollout": rollout});
    // Leave out an empty map of roles: a server-side apply would turn it into null, which the CRD forbids.
    if roles.as_object().is_some_and(|roles| !roles.is_empty()) {
        spec["nodes"]["roles"] = roles;
    }
    spec
}

/// Waits until the operator requests approval to remove labels from nodes. Returns the OpenStackDeployment.
pub async fn until_labels_wait(world: &World) -> OpenStackDeployment {
    let waits = |cloud: &OpenStackDeployment| {
        let message = cloud.condition("Ready").map(|ready| ready.message).unwrap_or_default();
        message.contains("waits for approval to remove labels").then(|| cloud.clone())
    };
    world.until("the removal of labels waits for approval", waits).await
}

#[test]
fn sets_and_removes_exactly_the_role_labels() {
    run_test("roles", async |world| {
        let mut nodes = Nodes::of(world);
        let plain = nodes.add("plain", json!({"rack": "r1"})).await;
        let by_hand = nodes.add("by-hand", json!({"rack": "r1", "openvswitch": "enabled"})).await;
        let disabled = nodes.add("disabled", json!({"rack": "r1", "openvswitch": "disabled"})).await;
        let unselected = nodes.add("unselected", json!({})).await;
        let _operator = world.operator().start().await;
        world.apply(&services(&["memcached"])).await;
        world.until_ready().await;
        assert_eq!(
            nodes.until_labels(&unselected, &[]).await,
            "",
            "the operator must not annotate a node without a role"
        );

        let roles = json!({"compute": {"selector": {"matchLabels": {"rack": "r1"}}}, "gateway": {"names": [unselected.clone(), "nowhere"]}});
        world.apply(&with_roles(roles.clone())).await;
        let ours = "openstack-compute-node=enabled,openvswitch=enabled";
        let owner = owner_label(&world.namespace, NAME);
        assert_eq!(nodes.until_labels(&plain, &[COMPUTE, SWITCH]).await, format!("{owner},{ours}"));
        nodes.until_labels(&by_hand, &[COMPUTE, SWITCH]).await;
        assert_eq!(
            nodes.until_labels(&disabled, &[COMPUTE, ("openvswitch", "disabled")]).await,
            format!("{owner},openstack-compute-node=enabled")
        );
        nodes.until_labels(&unselected, &[GATEWAY, SWITCH]).await;
        let has_warning = |text: &'static str| {
            move |cloud: &OpenStackDeployment| {
                let message = cloud.condition("Ready").filter(|ready| ready.status == "True")?.message;
                message.contains(text).then_some(message)
            }
        };
        let message = world
            .until("the status reports that another writer has set the label", has_warning("another cloud set label"))
            .await;
        let warning = format!(
            "spec.nodes.roles.compute: another writer or another cloud set label openvswitch to \"disabled\" on {disabled}, so osdpl keeps that value"
        );
        assert!(message.contains(&warning), "{message}");
        assert!(message.contains("spec.nodes.roles.gateway: there is no node \"nowhere\""), "{message}");
        let role = world.until_ready().await.status().roles["compute"].clone();
        assert_eq!((role.count, role.labels.join(",")), (3, ours.to_owned()));
        assert!(role.nodes.contains(&plain), "{role:?}");

        let late = nodes.add("late", json!({"rack": "r1"})).await;
        nodes.until_labels(&late, &[COMPUTE, SWITCH]).await;
        nodes.label(&disabled, "openvswitch", Value::Null).await;
        nodes.until_labels(&disabled, &[COMPUTE, SWITCH]).await;
        nodes.label(&plain, "rack", json!("r2")).await;
        assert_eq!(nodes.until_labels(&plain, &[]).await, "");

        world.apply(&with_roles(json!({"gateway": roles["gateway"]}))).await;
        assert_eq!(
            nodes.until_labels(&by_hand, &[SWITCH]).await,
            "",
            "the operator must remove only the labels that it has set"
        );
        nodes.until_labels(&late, &[]).await;
        nodes.until_labels(&unselected, &[GATEWAY, SWITCH]).await;
        world.delete().await;
        world.until_gone().await;
        assert_eq!(
            nodes.until_labels(&unselected, &[]).await,
            "",
            "the operator must remove its labels from the nodes when the cloud is deleted"
        );
        nodes.until_labels(&by_hand, &[SWITCH]).await;
        nodes.remove_all().await;
    });
}

#[test]
fn reports_conflicting_roles_and_plans_them() {
    run_test("role-conflict", async |world| {
        let mut nodes = Nodes::of(world);
        let node = nodes.add("both", json!({})).await;
        let _operator = world.operator().start().await;
        let big = json!({"names": [node.clone()], "labels": {"gpu": "big"}});
        let small = json!({"names": [node.clone()], "labels": {"gpu": "small", "gpu-any": "yes"}});
        world.apply(&with_roles(json!({"big": big}))).await;
        nodes.until_labels(&node, &[("gpu", "big")]).await;
        world.until_ready().await;
        world.apply(&with_roles(json!({"big": big, "small": small}))).await;
        nodes.until_labels(&node, &[("gpu", "big"), ("gpu-any", "yes")]).await;
        let warning = format!(
            "roles set label gpu to different values (big to \"big\", small to \"small\") on {node}: osdpl sets no new value"
        );
        world
            .until("the operator reports the conflict of the two roles", |cloud| {
                cloud.condition("Ready")?.message.contains(&warning).then_some(())
            })
            .await;

        let file = world.folder.path().join("change.yaml");
        let object = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": NAME, "namespace": world.namespace}, "spec": with_roles(json!({"small": small}))});
        std::fs::write(&file, object.to_string()).unwrap();
        let plan = world.osdpl(&["plan", "--file", file.to_str().unwrap()]);
        assert!(plan.contains(&format!("node {node}: labels +gpu=small -gpu=big: {REMOVAL_REASON}\n")), "{plan}");
        world.apply(&with_roles(json!({"small": small}))).await;
        nodes.until_labels(&node, &[("gpu", "small"), ("gpu-any", "yes")]).await;
        // A person changes the label. After that, the operator must neither change nor remove the label.
        nodes.label(&node, "gpu", json!("mine")).await;
        world
            .until("the operator reports that another writer changed the label", |cloud| {
                cloud.condition("Ready")?.message.contains("another cloud set label gpu to \"mine\"").then_some(())
            })
            .await;
        world.apply(&with_roles(json!({}))).await;
        assert_eq!(nodes.until_labels(&node, &[("gpu", "mine")]).await, "");
        nodes.remove_all().await;
    });
}

#[test]
fn removes_labels_after_approval_and_in_batches() {
    run_test("role-removal", async |world| {
        let mut nodes = Nodes::of(world);
        let names = [nodes.add("a", json!({"rack": "r1"})).await, nodes.add("b", json!({"rack": "r1"})).await];
        let rollout = |pause: u32| json!({"batchSize": 1, "pauseSeconds": pause});
        let compute = |rack: &str| json!({"compute": {"selector": {"matchLabels": {"rack": rack}}}});
        let operator = world.operator().start().await;
        world.apply(&with_rollout(compute("r1"), rollout(3600))).await;
        for name in &names {
            nodes.until_labels(name, &[COMPUTE, SWITCH]).await;
        }
        world.until_ready().await;

        let since = now();
        world.apply(&with_rollout(compute("r7"), rollout(3600))).await;
        let is_reported = |cloud: &OpenStackDeployment| {
            let message = cloud.condition("Ready")?.message;
            message.contains("osdpl does not remove the role's labels from").then_some(())
        };
        world.until("the operator reports that the selector matches no node", is_reported).await;

        let gateway = json!({"gateway": {"names": [names[1].clone()]}});
        world.apply(&with_rollout(gateway.clone(), rollout(3600))).await;
        nodes.until_labels(&names[1], &[COMPUTE, SWITCH, GATEWAY]).await;
        let waiting = until_labels_wait(world).await;
        assert_eq!(waiting.status().phase, Some(Phase::AwaitingApproval));
        assert!(waiting.is_ready(), "{:?}", waiting.status());
        nodes.until_labels(&names[0], &[COMPUTE, SWITCH]).await;
        let plan = world.osdpl(&["plan"]);
        for line in [
            format!(
                "node {}: labels -openstack-compute-node=enabled -openvswitch=enabled: {REMOVAL_REASON}: waits for approval",
                names[0]
            ),
            format!("node {}: labels -openstack-compute-node=enabled: {REMOVAL_REASON}: waits for approval", names[1]),
            format!("osdpl approve -n {} nimbus {}", world.namespace, waiting.status().approval.unwrap()),
        ] {
            assert!(plan.contains(&line), "{line}\n{plan}");
        }
        let labelled = |writes: Vec<AuditEntry>| {
            let nodes = writes.into_iter().filter(|write| write.resource == "nodes");
            nodes.map(|write| write.name).collect::<BTreeSet<_>>()
        };
        assert_eq!(
            labelled(world.writes_since(since)),
            [names[1].clone()].into(),
            "the operator must write only the label of the new role"
        );

        world.osdpl(&["approve"]);
        nodes.until_labels(&names[0], &[]).await;
        let has_begun = |cloud: &OpenStackDeployment| {
            let removal = cloud.status().label_removal.filter(|removal| removal.last_batch.is_some())?;
            cloud.annotations().get(APPROVE).is_none().then_some(removal)
        };
        let removal = world.until("the status contains the first batch", has_begun).await;
        assert_eq!(removal.nodes.keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
        operator.kill();
        let since = now();
        let _operator = world.operator().start().await;
        // Add another release. When the cloud is Ready with this release, the new operator has run at least one pass.
        let mut spec = with_rollout(gateway.clone(), rollout(3600));
        spec["services"]["rabbitmq"] = json!({"enabled": true});
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        assert!(cloud.status().message.contains("1 of 2 nodes left"), "{}", cloud.status().message);
        assert_eq!(cloud.status().approval, None, "the rest of the removal must need no further approval");
        assert_eq!(
            labelled(world.writes_since(since)),
            BTreeSet::new(),
            "a restarted operator must respect the pause between batches"
        );

        spec["nodes"]["rollout"] = rollout(0);
        world.apply(&spec).await;
        nodes.until_labels(&names[1], &[GATEWAY, SWITCH]).await;
        let is_done = |cloud: &OpenStackDeployment| cloud.status().label_removal.is_none().then_some(());
        world.until("the removal is complete", is_done).await;
        world.apply(&with_rollout(json!({}), rollout(0))).await;
        until_labels_wait(world).await;
        nodes.until_labels(&names[1], &[GATEWAY, SWITCH]).await;
        nodes.remove_all().await;
    });
}

#[test]
fn removes_no_label_because_the_annotation_was_changed() {
    run_test("role-annotation", async |world| {
        let mut nodes = Nodes::of(world);
        let names = [nodes.add("without", json!({})).await, nodes.add("older", json!({})).await];
        let role = |name: &str| json!({name: {"names": names}});
        let operator = world.operator().start().await;
        world.apply(&with_rollout(role("compute"), json!({"batchSize": 1}))).await;
        let owner = owner_label(&world.namespace, NAME);
        for name in &names {
            nodes.until_labels(name, &[COMPUTE, SWITCH]).await;
        }
        world.until_ready().await;
        operator.kill();
        nodes.change(&names[0], json!({"annotations": {NODE_LABELS: null}})).await;
        nodes
            .change(
                &names[1],
                json!({"annotations": {NODE_LABELS: "openstack-compute-node=enabled,openvswitch=enabled"}}),
            )
            .await;
        world.apply(&with_rollout(role("gateway"), json!({"batchSize": 1}))).await;
        let _operator = world.operator().start().await;
        let waiting = until_labels_wait(world).await;
        assert_eq!(waiting.status().phase, Some(Phase::AwaitingApproval));
        let all = format!("{owner},l3-agent=enabled,openstack-compute-node=enabled,openvswitch=enabled");
        for name in &names {
            assert_eq!(nodes.until_labels(name, &[COMPUTE, SWITCH, GATEWAY]).await, all);
        }
        nodes.remove_all().await;
    });
}
