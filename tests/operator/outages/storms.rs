//! The API server refuses many requests: it is overloaded (429), not available (503), or reports conflicts (409).

use hyper::Method;
use serde_json::json;
use tokio::sync::watch;

use super::Pod;
use crate::cloud::{StatusAccess, services, with_values};
use crate::proxy::{Answer, Proxy, Request};
use crate::world::{World, now, run_test, with_timeout};

/// The kinds of requests, each with its own limit of refusals ([`Self::limit`]). With one limit for all kinds, the
/// dozens of reads at the operator's start would use it up, and no other request would be refused.
#[derive(Clone, Copy, Debug)]
enum Kind {
    HelmRead,
    HelmWrite,
    /// A write of the status of an `OpenStackDeployment`.
    Status,
    /// A renewal of the operator's Lease.
    Lease,
    /// Any other request of the operator.
    Other,
}

impl Kind {
    fn of(request: &Request) -> Self {
        let (path, is_write) = (request.uri.path(), request.is_write());
        if request.agent.starts_with("Helm/") {
            if is_write { Self::HelmWrite } else { Self::HelmRead }
        } else if request.is_status_write() {
            Self::Status
        } else if request.method == Method::PUT && path.ends_with("/leases/osdpl") {
            Self::Lease
        } else {
            Self::Other
        }
    }

    /// Returns the maximum number of requests of this kind that the API server refuses in each phase.
    ///
    /// The limits of helm's requests are the smallest: helm gives up at the first refusal that it does not retry, and
    /// after each failure of helm, the operator waits longer before it starts helm again.
    fn limit(self) -> usize {
        match self {
            Self::HelmRead | Self::HelmWrite => 1,
            Self::Status | Self::Lease => 4,
            Self::Other => 40,
        }
    }
}

/// The numbers of requests of one kind in a phase: `seen` is the number that the storm's `is_selected` has selected,
/// and `refused` the number that the API server has refused.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    seen: usize,
    refused: usize,
}

/// The counts of a phase, one for each [`Kind`].
type Counts = [Count; 5];

/// A storm of refusals in two phases: the install, and a change of the spec. In each phase, the API server refuses
/// every second request of each kind, until the kind's limit is reached.
struct Storm {
    counts: watch::Sender<Counts>,
    /// The number of helm's requests that the API server has refused in the phases that have ended.
    of_helm: usize,
}

impl Storm {
    /// Begins the storm: of the requests that `is_selected` selects, the proxy refuses every second one of each kind
    /// with the status `code`.
    fn begin(proxy: &Proxy, code: u16, is_selected: fn(&Request) -> bool) -> Self {
        let counts = watch::Sender::new(Counts::default());
        let counter = counts.clone();
        proxy.set_rule(move |request| {
            let (kind, mut is_refused) = (Kind::of(request), false);
            if is_selected(request) {
                counter.send_modify(|counts| {
                    let count = &mut counts[kind as usize];
                    count.seen += 1;
                    is_refused = count.seen % 2 == 0 && count.refused < kind.limit();
                    count.refused += usize::from(is_refused);
                });
            }
            if is_refused { Answer::Refuse(code) } else { Answer::Forward }
        });
        Self { counts, of_helm: 0 }
    }

    /// Ends a phase, and begins the next one. Checks that, in the phase that ends, the API server has refused requests
    /// of each of `kinds` and a renewal of the Lease.
    async fn end_phase(&mut self, kinds: &[Kind]) {
        // The API server refuses only every second renewal of the Lease, and the operator renews the Lease every two
        // seconds. So the cloud may be Ready before the first refusal. Wait for this refusal.
        let mut counts = self.counts.subscribe();
        let refused = counts.wait_for(|counts| counts[Kind::Lease as usize].refused > 0);
        drop(with_timeout("the API server refuses a renewal of the Lease", refused).await.unwrap());
        let ended = self.counts.send_replace(Counts::default());
        println!("the API server has refused {ended:?}");
        for kind in kinds {
            assert!(ended[*kind as usize].refused > 0, "the storm must hit requests of the kind {kind:?}: {ended:?}");
        }
        self.of_helm +=
            [Kind::HelmRead, Kind::HelmWrite].map(|kind| ended[kind as usize].refused).iter().sum::<usize>();
    }
}

/// The maximum number of writes of the status during a storm. Without a storm, the two phases need about 10.
const STATUS_WRITES: usize = 40;

/// Installs and changes a cloud while the API server refuses requests that `is_selected` selects. In both phases, the
/// API server must refuse requests of each of `kinds`.
fn check_storm(name: &str, code: u16, is_selected: fn(&Request) -> bool, kinds: &[Kind]) {
    run_test(name, async |world| {
        let began = now();
        world.allow_errors();
        let proxy = Proxy::start(world).await;
        let mut storm = Storm::begin(&proxy, code, is_selected);
        let pod = Pod::new(world, || world.operator().through(&proxy));
        let scenario = async {
            let spec = services(&["mariadb", "rabbitmq"]);
            world.apply(&spec).await;
            world.until_ready().await;
            storm.end_phase(&[kinds, &[Kind::Other]].concat()).await;
            let changed = json!({"conf": {"database": {"my": "# changed"}}});
            world.apply(&with_values(spec, "mariadb", changed)).await;
            world.until_ready().await;
            storm.end_phase(kinds).await;
        };
        Box::pin(pod.during(scenario)).await;
        assert_eq!(pod.restarts.get(), 0, "refused requests must not end the operator");
        let (runs, writes) = (world.helm_runs(), world.status_writes_since(began));
        println!("{} helm runs after {} refusals, {writes} writes of the status", runs.len(), storm.of_helm);
        // The test needs three helm runs: two installs and an upgrade. Each further run must have a cause: a refused
        // request of helm.
        assert!(runs.len() <= 3 + storm.of_helm, "{runs:#?}");
        assert!(writes <= STATUS_WRITES, "{writes} writes of the status");
        check_converged(world).await;
    });
}

/// Checks that the newest release record of each release is deployed and not pending.
async fn check_converged(world: &World) {
    let cloud = world.until_ready().await;
    for release in ["mariadb", "rabbitmq"] {
        let revision = u32::try_from(cloud.child(release).revision.unwrap()).unwrap();
        let status = crate::interrupted::record_status(world, release, revision).await;
        assert_eq!(status.as_deref(), Some("deployed"), "revision {revision} of {release}");
    }
}

#[test]
fn cloud_converges_while_the_api_server_is_overloaded() {
    check_storm("storm-429", 429, |_| true, &[Kind::HelmRead, Kind::HelmWrite, Kind::Status]);
}

#[test]
#[ignore = "takes a minute: make faults"]
fn cloud_converges_while_the_api_server_is_unavailable() {
    check_storm("storm-503", 503, |_| true, &[Kind::HelmRead, Kind::HelmWrite, Kind::Status]);
}

#[test]
#[ignore = "takes a minute: make faults"]
fn cloud_converges_while_the_api_server_reports_conflicts() {
    check_storm("storm-409", 409, Request::is_write, &[Kind::HelmWrite, Kind::Status]);
}
