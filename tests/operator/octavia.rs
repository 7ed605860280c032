//! Tests the Job octavia-prerequisites. The Job runs a Python program from the catalogue, which creates the network,
//! flavor, image, ports and certificates for Octavia's amphorae. The tests run the program with OpenStack's own client
//! libraries, against fake OpenStack APIs and a real Kubernetes API server. In Kubernetes, the program has only the
//! rights that the release octavia grants.

mod api;
mod openstack;
mod program;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Facts, resolve, select};
use osdpl_core::placeholder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::nodes::Nodes;
use crate::world::{World, now, run_test, with_timeout};
use openstack::{IMAGE, OpenStack, PROJECT};
use program::{Fixture, LABEL};

const NOT_READY: &str = "kwok.osdpl.dev/ready";
const ID: &str = "11111111-2222-3333-4444-555555555555";

/// Returns a value of `features.loadBalancer.amphora` for which the program downloads the amphora image from `url` and
/// verifies its checksum.
fn downloaded_image(url: &str) -> Value {
    let checksum = Sha256::digest(IMAGE).iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"));
    json!({"image": {"url": url, "checksum": format!("sha256:{checksum}")}})
}

/// Adds a node on which Octavia's pods can run. The host name of the node is `SHORT.example.org`; `more` is an
/// additional label.
async fn add_node(world: &World, nodes: &mut Nodes<'_>, short: &str, more: (&str, &str)) -> String {
    let host = format!("{short}.example.org");
    nodes.add(short, json!({LABEL: world.namespace, "kubernetes.io/hostname": host, more.0: more.1})).await
}

async fn until_ready(world: &World, node: &str) {
    let ready = |node: Option<&Node>| {
        let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    };
    let api: Api<Node> = Api::all(world.client.clone());
    with_timeout("the node is ready", await_condition(api, node, ready)).await.unwrap();
}

/// Returns the values of the release octavia that result from the fixture's spec and the facts that the program wrote.
async fn resolved(fixture: &Fixture<'_>) -> Value {
    let catalog = Catalog::load(&osdpl_core::files::built_in()).unwrap();
    let spec: OpenStackDeploymentSpec = serde_json::from_value(fixture.spec.clone()).unwrap();
    let selection = select("cloud", "openstack", &spec, &catalog);
    let job_facts = [("octavia".to_owned(), Ok(fixture.facts().await))].into();
    let facts = Facts { job_facts, ..placeholder::facts(&catalog, &selection) };
    resolve(&spec, &catalog, &selection, &facts).releases["octavia"].values.clone().into()
}

/// Checks that the first run of the program requested exactly the expected changes from OpenStack, in the expected
/// order.
fn check_requests(openstack: &OpenStack) {
    let image = openstack.objects("images")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        openstack.writes(),
        [
            "post networks lb-mgmt-net",
            "post subnets lb-mgmt-subnet",
            "post flavors m1.amphora",
            "post images amphora.qcow2",
            &format!("put images {image}/file"),
            &format!("put images {image}/tags/amphora"),
            &format!("put os-quota-sets {PROJECT}"),
            &format!("put quotas {PROJECT}"),
            "post security-groups lb-mgmt-sec-grp",
            "post security-group-rules",
            "post security-group-rules",
            "post security-groups lb-health-mgr-sec-grp",
            "post security-group-rules",
            "post security-groups lb-worker-sec-grp",
            "post ports octavia-worker-port-n1",
            "post ports octavia-health-manager-port-n1",
        ]
    );
}

#[test]
fn creates_everything_once_and_adds_later_nodes() {
    run_test("amphorae", async |world| {
        let fixture = Fixture::new(world, downloaded_image).await;
        let (openstack, mut nodes) = (&fixture.openstack, Nodes::of(world));
        until_ready(world, &add_node(world, &mut nodes, "n1", ("first", "yes")).await).await;
        openstack.add_host("n1.example.org");
        let result = fixture.run_cron_job().await;
        assert!(result.succeeded && result.output.contains("nothing to do"), "{result:?}");

        let result = fixture.run().await;
        assert!(result.succeeded, "{result:?}");
        check_requests(openstack);
        check_created_objects(&fixture).await;

        let (since, facts) = (now(), fixture.facts().await);
        for result in [fixture.run().await, fixture.run_cron_job().await] {
            assert!(result.succeeded && !result.output.contains("creating"), "{result:?}");
        }
        assert_eq!((openstack.writes(), fixture.written_since(since)), (Vec::new(), Vec::new()));
        assert_eq!(fixture.facts().await, facts);

        let second_node = add_node(world, &mut nodes, "n2", (NOT_READY, "false")).await;
        let result = fixture.run_cron_job().await;
        assert!(result.succeeded && result.output.contains("node n2 is not ready"), "{result:?}");
        assert_eq!((openstack.writes(), fixture.facts().await), (Vec::new(), facts.clone()));
        let ready = Patch::Merge(json!({"metadata": {"labels": {NOT_READY: null}}}));
        let api: Api<Node> = Api::all(world.client.clone());
        api.patch(&second_node, &PatchParams::default(), &ready).await.unwrap();
        until_ready(world, &second_node).await;
        let result = fixture.run_cron_job().await;
        assert!(
            !result.succeeded && result.output.contains("neutron has no active switch agent on node n2 yet"),
            "{result:?}"
        );
        openstack.add_host("n2.example.org");
        assert!(fixture.run_cron_job().await.succeeded);
        assert_eq!(
            openstack.writes(),
            ["post ports octavia-worker-port-n2", "post ports octavia-health-manager-port-n2"]
        );
        assert_eq!(fixture.facts().await["controllers"], "172.31.0.12:5555,172.31.0.14:5555");
        nodes.remove_all().await;
    });
}

/// Checks the objects that the program created in OpenStack and in the cluster, and that octavia's values contain the
/// program's facts.
async fn check_created_objects(fixture: &Fixture<'_>) {
    let (openstack, facts) = (&fixture.openstack, fixture.facts().await);
    fixture.check_certificates().await;
    let id = |kind: &str| openstack.objects(kind)[0]["id"].as_str().unwrap().to_owned();
    let values = resolved(fixture).await;
    for (path, expected) in [
        ("/manifests/daemonset_worker", json!(true)),
        ("/manifests/daemonset_health_manager", json!(true)),
        ("/conf/octavia/controller_worker/amp_image_owner_id", json!(PROJECT)),
        ("/conf/octavia/controller_worker/amp_flavor_id", json!(id("flavors"))),
        ("/conf/octavia/controller_worker/amp_boot_network_list", json!(id("networks"))),
        ("/conf/octavia/controller_worker/amp_secgroup_list", json!(id("security-groups"))),
        ("/conf/octavia/health_manager/controller_ip_port_list", json!("172.31.0.12:5555")),
    ] {
        assert_eq!(values.pointer(path), Some(&expected), "{path}: {facts:?}");
    }
    assert_eq!(facts["certificates"], "octavia-amphora-certs");
    let subnet = &openstack.objects("subnets")[0];
    assert_eq!((&subnet["cidr"], &subnet["gateway_ip"]), (&json!("172.31.0.0/16"), &Value::Null));
    let rule = |rule: &Value| (rule["protocol"].clone(), rule["port_range_min"].clone());
    let rules: Vec<_> = openstack.objects("security-group-rules").iter().map(rule).collect();
    assert_eq!(rules, [("icmp", None), ("tcp", Some(9443)), ("udp", Some(5555))].map(|(a, b)| (json!(a), json!(b))));
    for port in openstack.objects("ports") {
        assert_eq!(
            port["binding:host_id"], "n1.example.org",
            "the port must have the host name of the Open vSwitch agent"
        );
    }
    let (nova, neutron) = (&openstack.objects("os-quota-sets")[0], &openstack.objects("quotas")[0]);
    assert_eq!((&nova["instances"], &neutron["port"]), (&json!(-1), &json!(-1)));
    let image = &openstack.objects("images")[0];
    assert_eq!((&image["status"], &image["file_length"]), (&json!("active"), &json!(IMAGE.len())));
    let flavor = &openstack.objects("flavors")[0];
    assert_eq!((&flavor["ram"], &flavor["os-flavor-access:is_public"]), (&json!(1024), &json!(false)));
}

#[test]
fn uses_resources_named_in_the_spec() {
    run_test("amphorae-given", async |world| {
        let given = json!({"imageOwner": PROJECT, "flavor": "f-1", "networks": [ID], "securityGroups": [ID], "certificates": "mine"});
        let fixture = Fixture::new(world, |_| given).await;
        let (openstack, mut nodes) = (&fixture.openstack, Nodes::of(world));
        openstack.add("subnets", json!({"network_id": ID, "ip_version": 4}));
        until_ready(world, &add_node(world, &mut nodes, "n1", ("first", "yes")).await).await;
        openstack.add_host("n1.example.org");
        let since = now();
        let result = fixture.run().await;
        assert!(result.succeeded, "{result:?}");
        let created = openstack.writes();
        let is_expected =
            |line: &String| ["octavia-", "security-group", "quota"].iter().any(|word| line.contains(word));
        assert!(created.iter().all(is_expected), "{created:?}");
        assert!(openstack.objects("ports").iter().all(|port| port["network_id"] == ID), "{created:?}");
        assert_eq!(fixture.written_since(since), ["patch octavia-prerequisites"]);
        let facts = fixture.facts().await;
        let expected = [
            ("certificates", "mine"),
            ("flavor", "f-1"),
            ("imageOwner", PROJECT),
            ("networks", ID),
            ("securityGroups", ID),
        ];
        for (key, value) in expected {
            assert_eq!(facts[key], value, "{key}");
        }
        nodes.remove_all().await;
    });
}

#[test]
fn uses_existing_image_and_certificates() {
    run_test("amphorae-existing", async |world| {
        let fixture = Fixture::new(world, |url| {
            let mut amphora = downloaded_image(url);
            amphora["controllers"] = json!(["172.31.0.9:5555"]);
            amphora
        });
        let fixture = fixture.await;
        let openstack = &fixture.openstack;
        openstack.add("images", json!({"status": "active", "tags": ["amphora"], "created_at": "2026-01-01T00:00:00Z"}));
        let secrets = world.api::<Secret>();
        let partial = Patch::Merge(json!({"data": {"server_ca.cert.pem": "bWluZQ=="}}));
        secrets.patch("octavia-amphora-certs", &PatchParams::default(), &partial).await.unwrap();
        let result = fixture.run().await;
        assert!(
            !result.succeeded && result.output.contains("octavia-amphora-certs has no server_ca-chain.cert.pem, "),
            "{result:?}"
        );
        let names = ["server_ca-chain.cert.pem", "server_ca.key.pem", "client_ca.cert.pem", "client.cert-and-key.pem"];
        let rest: serde_json::Map<_, _> = names.map(|name| (name.to_owned(), json!("bWluZQ=="))).into_iter().collect();
        let rest = Patch::Merge(json!({ "data": rest }));
        let complete_secret = secrets.patch("octavia-amphora-certs", &PatchParams::default(), &rest).await.unwrap();
        let version = complete_secret.resource_version();

        let result = fixture.run().await;
        assert!(result.succeeded, "{result:?}");
        let created = openstack.writes();
        assert!(!created.iter().any(|line| line.contains("images") || line.contains("ports")), "{created:?}");
        assert_eq!(secrets.get("octavia-amphora-certs").await.unwrap().resource_version(), version);
        let facts = fixture.facts().await;
        assert_eq!((facts["imageOwner"].as_str(), facts["controllers"].as_str()), (PROJECT, "172.31.0.9:5555"));
    });
}

#[test]
fn resumes_without_creating_duplicates() {
    run_test("amphorae-resume", async |world| {
        let fixture = Fixture::new(world, downloaded_image).await;
        let (openstack, mut nodes) = (&fixture.openstack, Nodes::of(world));
        until_ready(world, &add_node(world, &mut nodes, "n1", ("first", "yes")).await).await;
        openstack.add_host("n1.example.org");
        let mut created = Vec::new();
        for fails in ["post subnets", "/file", "post security-groups lb-mgmt", "post ports octavia-health"] {
            openstack.with(|cloud| cloud.fails = Some(fails.into()));
            let result = fixture.run().await;
            assert!(
                !result.succeeded && result.output.contains("giving up for now: ") && result.output.contains("500"),
                "{result:?}"
            );
            assert!(fixture.facts().await.is_empty(), "the program must not write facts if it fails");
            assert_eq!(
                openstack.with(|cloud| cloud.fails.clone()),
                None,
                "the program must request a change that contains {fails:?}"
            );
            created.extend(openstack.writes());
        }
        let result = fixture.run().await;
        assert!(result.succeeded, "{result:?}");
        created.extend(openstack.writes());
        for (kind, count) in
            [("networks", 1), ("subnets", 1), ("flavors", 1), ("images", 1), ("security-groups", 3), ("ports", 2)]
        {
            assert_eq!(openstack.objects(kind).len(), count, "{kind}: {created:?}");
        }
        assert_eq!(openstack.objects("images")[0]["tags"], json!(["amphora"]));
        fixture.check_certificates().await;
        assert_eq!(fixture.facts().await.len(), 6);
        nodes.remove_all().await;
    });
}

#[test]
fn refuses_permanent_errors_with_a_remedy() {
    run_test("amphorae-refused", async |world| {
        let wrong_checksum =
            |url: &str| json!({"image": {"url": url, "checksum": format!("sha256:{}", "0".repeat(64))}});
        let fixture = Fixture::new(world, wrong_checksum).await;
        let openstack = &fixture.openstack;
        let networks = [(); 2].map(|()| openstack.add("networks", json!({"name": "lb-mgmt-net"})));
        let result = fixture.run().await;
        let message =
            "network lb-mgmt-net exists 2 times in this project: set the right one in features.loadBalancer.amphora";
        assert!(!result.succeeded && result.output.contains(message), "{result:?}");
        assert_eq!(openstack.writes(), Vec::<String>::new());

        openstack.with(|cloud| cloud.objects.get_mut("networks").unwrap().retain(|one| one["id"] == networks[0]));
        let result = fixture.run().await;
        let message = "but features.loadBalancer.amphora.image.checksum is 000";
        assert!(!result.succeeded && result.output.contains(message), "{result:?}");
        let image = &openstack.objects("images")[0];
        assert_eq!((&image["status"], &image["tags"]), (&json!("queued"), &json!([])));
        assert!(fixture.facts().await.is_empty());
    });
}
