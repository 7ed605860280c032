//! While a standby is frozen, release records are deleted and etcd is compacted. The API server then refuses to
//! continue the standby's watches (410 Gone). The standby must list all objects again before it acts.

use std::io::{Read, Write};
use std::net::TcpStream;

use cluster::Component;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services};
use crate::interrupted::{KEYS, fill};
use crate::world::{World, now, run_test};

/// Keystone and the services that its pods wait for.
const KEYSTONE: [&str; 4] = ["keystone", "mariadb", "memcached", "rabbitmq"];

impl World {
    /// Removes from etcd all versions of each object except the newest version.
    fn compact(&self) {
        let state = std::fs::read_to_string(self.cluster().folder().state()).unwrap();
        let state: Value = serde_json::from_str(&state).unwrap();
        let port = u16::try_from(state["ports"]["etcd"].as_u64().unwrap()).unwrap();
        let key = json!({"key": "AA=="});
        let newest = post(port, "/v3/kv/range", &key)["header"]["revision"].clone();
        let compacted = post(port, "/v3/kv/compaction", &json!({"revision": newest, "physical": true}));
        assert!(compacted["header"].is_object(), "{compacted}");
    }
}

/// Sends a request to etcd's JSON gateway, and returns the response.
fn post(port: u16, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let head = format!("POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[test]
#[ignore = "takes a minute: make faults"]
fn reads_everything_again_after_a_compaction() {
    run_test("compaction", async |world| {
        let active = world.operator().pod("first").start().await;
        world.apply(&services(&KEYSTONE)).await;
        world.until_ready().await;
        let mut keys = Vec::new();
        for secret in KEYS {
            keys.push(fill(world, secret).await);
        }
        let (credentials, runs) = (world.all_credentials().await, world.helm_runs().len());
        let logged = "info,osdpl_operator::tasks::watch=debug";
        let standby = world.operator().pod("second").environment("RUST_LOG", logged).start().await;
        standby.freeze();
        active.kill();

        let records = ListParams::default().labels("owner=helm,name in (keystone, memcached)");
        world.api::<Secret>().delete_collection(&DeleteParams::default(), &records).await.unwrap();
        world.allow_errors();
        world.cluster().kill(Component::Apiserver).await.unwrap();
        world.cluster().restart(Component::Apiserver).await.unwrap();
        world.compact();
        let began = now();
        standby.signal(Signal::CONT);

        let is_installed = |cloud: &osdpl_core::api::OpenStackDeployment| {
            (cloud.is_ready() && world.helm_runs().len() >= runs + 2).then(|| cloud.clone())
        };
        let cloud = world.until("the lost releases are installed again", is_installed).await;
        let log = world.operator_log();
        assert!(log.contains("too old resource version"), "the compaction must interrupt the standby's watches: {log}");
        let revisions = KEYSTONE.map(|release| cloud.child(release).revision);
        assert_eq!(revisions, [Some(1); 4]);
        let again = world.helm_runs().split_off(runs);
        assert!(again.len() == 2 && again.iter().all(|run| run.verb() == "upgrade"), "{again:#?}");
        for (secret, (uid, data)) in KEYS.iter().zip(keys) {
            let found = world.api::<Secret>().get(secret).await.unwrap();
            assert_eq!((found.metadata.uid, found.data), (uid, data), "{secret}");
        }
        assert_eq!(world.all_credentials().await, credentials);
        let writes = world.status_writes_since(began);
        println!("{writes} writes of the status");
        assert!(writes <= 25, "{writes} writes of the status");
    });
}
