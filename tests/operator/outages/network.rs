//! A firewall, a load balancer or a node drops the packets of all open connections to the API server without closing
//! them. New connections work.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::config::Kubeconfig;
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::Pod;
use crate::cloud::{StatusAccess, services, with_values};
use crate::interrupted::{hang_job, until_hook};
use crate::world::{World, now, run_test};

/// The hook Job of rabbitmq for which helm waits in these tests.
const HOOK: &str = "rabbitmq-cluster-wait";

/// Simulates the network between the API server and its clients, which are the operator and its helm processes:
/// forwards the bytes of each TCP connection unchanged, so the clients use the same protocols as without it. When this
/// value is dropped, all connections are closed.
struct Network {
    /// The path of a kubeconfig with the operator's identity, and with this network's address as the server.
    kubeconfig: PathBuf,
    drops: watch::Sender<()>,
    counts: Arc<Counts>,
    server: JoinHandle<()>,
}

/// The numbers of connections that a [`Network`] has accepted, and whose packets it has dropped.
#[derive(Default)]
struct Counts {
    accepted: AtomicUsize,
    dropped: AtomicUsize,
}

impl Counts {
    fn read(&self) -> [usize; 2] {
        [&self.accepted, &self.dropped].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Network {
    async fn new(world: &World) -> Self {
        let mut kubeconfig = Kubeconfig::read_from(&world.plane().operator).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let api_server = cluster.server.replace(address).unwrap();
        let api_server = api_server.strip_prefix("https://").unwrap().parse().unwrap();
        let path = world.folder.path().join("network.kubeconfig");
        std::fs::write(&path, json!(kubeconfig).to_string()).unwrap();
        let drops = watch::Sender::new(());
        let counts = Arc::<Counts>::default();
        let server = tokio::spawn(accept(listener, api_server, drops.clone(), Arc::clone(&counts)));
        Self { kubeconfig: path, drops, counts, server }
    }

    /// Drops the packets of all connections that are open now. Returns the counts of connections before that, for
    /// [`Self::check_reconnected`].
    fn drop_open_connections(&self) -> [usize; 2] {
        let before = self.counts.read();
        self.drops.send_replace(());
        before
    }

    /// Checks that [`Self::drop_open_connections`] has dropped packets of at least one connection, and that a client
    /// has opened a new connection since then. Otherwise the test would pass without the fault.
    fn check_reconnected(&self, before: [usize; 2]) {
        let after = self.counts.read();
        let [accepted, dropped] = [0, 1].map(|index| after[index] - before[index]);
        assert!(accepted > 0 && dropped > 0, "{accepted} new connections, packets of {dropped} connections dropped");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn accept(listener: TcpListener, api_server: SocketAddr, drops: watch::Sender<()>, counts: Arc<Counts>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        counts.accepted.fetch_add(1, Ordering::Relaxed);
        connections.spawn(forward(client, api_server, drops.subscribe(), Arc::clone(&counts)));
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(mut client: TcpStream, api_server: SocketAddr, mut drops: watch::Receiver<()>, counts: Arc<Counts>) {
    let Ok(mut server) = TcpStream::connect(api_server).await else { return };
    tokio::select! {
        // Ignore errors: either side may close the connection at any time, for example when a helm process is killed.
        _ = copy_bidirectional(&mut client, &mut server) => {}
        // Both connections stay open, but nothing is forwarded any more.
        Ok(()) = drops.changed() => {
            counts.dropped.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
    }
}

#[test]
#[ignore = "takes four minutes: the operator notices lost watches after more than a minute: make faults"]
fn cloud_converges_after_packets_of_open_connections_were_dropped() {
    run_test("packets", async |world| {
        let began = now();
        let network = Network::new(world).await;
        hang_job(world, HOOK).await;
        let pod = Pod::new(world, || world.operator().environment("KUBECONFIG", &network.kubeconfig));
        let scenario = async {
            let spec = services(&["mariadb", "rabbitmq"]);
            world.apply(&spec).await;
            // Wait until helm has installed mariadb: an install fails if helm loses the response to a request. helm's
            // install of rabbitmq only waits for a hook when the test drops the connections.
            world.until("mariadb is ready", |cloud| cloud.child("mariadb").ready.then_some(())).await;
            until_hook(world, "rabbitmq", HOOK).await;
            let before = network.drop_open_connections();
            world.cluster().remove_rule(HOOK).await.unwrap();
            // helm's client notices the lost connections after 45 s, and the operator's watches notice them after 75 s.
            let is_installed = |cloud: &OpenStackDeployment| cloud.child("rabbitmq").ready.then_some(());
            world.until("rabbitmq is ready", is_installed).await;
            world.until_ready().await;
            network.check_reconnected(before);
            // Lose the connections again, this time before a change of the spec.
            let before = network.drop_open_connections();
            let changed = json!({"conf": {"database": {"my": "# changed"}}});
            world.apply(&with_values(spec, "mariadb", changed)).await;
            assert_eq!(world.until_ready().await.child("mariadb").revision, Some(2));
            network.check_reconnected(before);
        };
        Box::pin(pod.during(scenario)).await;
        pod.check_bounds(began, 2, 1);
        assert_eq!(pod.restarts.get(), 0, "the operator must renew its Lease over a new connection");
    });
}

#[test]
fn keeps_the_lease_over_a_new_connection() {
    run_test("packets-lease", async |world| {
        let network = Network::new(world).await;
        hang_job(world, HOOK).await;
        let mut operator = world.operator().environment("KUBECONFIG", &network.kubeconfig).start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq", HOOK).await;
        for _ in 0..2 {
            let before = network.drop_open_connections();
            // Wait for two renewals of the Lease. After the first one, the operator may not have received the response
            // yet. If it lost its connections again at that moment, it would regard its Lease as expired, and exit. The
            // second renewal proves that it has received the first response.
            let renewals = async {
                for _ in 0..2 {
                    let renewed = world.until_lease("the Lease exists", |_| true).await.renew_time;
                    world.until_lease("the Lease is renewed", |lease| lease.renew_time != renewed).await;
                }
            };
            tokio::select! {
                () = renewals => {}
                () = operator.until_exited() => panic!("the operator must continue over a new connection"),
            }
            network.check_reconnected(before);
        }
        assert!(operator.check_liveness().await && !operator.has_ended());
        assert_eq!(world.helm_runs().len(), 1);
    });
}
