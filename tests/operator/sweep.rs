//! Kills the operator and its helm processes with SIGKILL at each write of a cloud's life, starts a new operator, and
//! checks that the cloud converges.
//!
//! A cloud's life has three phases: install, upgrade and deletion. A phase ends when the operator has nothing left to
//! do. A proxy counts the writes of the operator and helm in each phase. At write *n*, the kill point, the proxy waits
//! until the API server has done the write, and withholds the response. From then on, the proxy forwards no request.
//! Then the test kills all processes. A kill after write *n* − 1 would have the same effect as a kill *before* write
//! *n*, so the test covers both.
//!
//! The writes come from the proxy and not from the audit log of the API server, because the test must stop all requests
//! at a write. When an entry is in the audit log, the operator may already have received the response, and sent more
//! writes. `all_writes_of_the_operator_and_helm_pass_the_proxy` checks that the proxy sees the same writes as the audit
//! log.
//!
//! Three kinds of writes are no kill points (`kill::IGNORED`), because a kill there leaves the cloud in a state that
//! kills at other writes produce, too:
//!
//! * Leases. The operator renews its Lease every 2 s, so the renewals are between any other two writes, and the number
//!   of kill points would depend on the duration of a run. The tests of the module `lease` kill and freeze holders.
//! * Events. The operator never reads them.
//! * Reviews of tokens and of rights. They are requests for information, and change nothing.
//!
//! The operator installs releases in parallel, and helm writes objects in parallel. So the number and the order of the
//! writes differ between runs:
//!
//! * Because the number differs, one run with fewer than *n* writes does not end a sweep. The sweep increases *n* until
//!   several successive runs have fewer writes than their *n*, and *n* is greater than the number of writes in a run
//!   without a kill.
//! * Because the order differs, *n* does not identify a write, and the runs with increasing *n* may never kill at some
//!   of the writes. So the sweep finally kills at each write of the run without a kill at which no other run has
//!   killed. It finds such a write by its text.
//!
//! Each run has a new namespace. To save time, all phases of a run use this namespace. Each phase has its own kill, and
//! begins when the cloud has converged after the kill in the previous phase. With the deletion policy `Retain`, a sweep
//! kills in every phase. With the other policies, it kills only during the deletion.

mod cycle;
mod keys;
pub mod kill;
mod objects;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use osdpl_core::api::DeletionPolicy;
use serde_json::{Value, json};

use crate::cloud::{services, with_values};
use crate::interrupted::KEYS;
use crate::proxy::Request;
use crate::world::{World, run_test};
use cycle::{Phase, Points};
use kill::Point;

/// The Secret with the credentials of the external message broker.
const EXTERNAL: &str = "external-broker";

/// The Secrets into which osdpl copies the keys of Ceph's users in the cloud [`Cloud::full`].
const COPIES: [&str; 5] = [
    "cinder-backup-rbd-keyring",
    "cinder-volume-rbd-keyring",
    "images-rbd-keyring",
    "manila-keyring",
    "nova-rbd-keyring",
];

/// The number of control planes that a sweep uses at once, for each processor.
const PLANES_PER_PROCESSOR: usize = 3;

/// The number of successive misses that end the sweep of a phase. A run misses if the phase has fewer writes than the
/// number of its kill point.
const MISSES: usize = 3;

/// The tolerance of a sweep: for this number of writes in a phase, one kill may be missing. A sweep can't kill at each
/// write, because the number of writes differs between runs.
const TOLERANCE: usize = 12;

/// A cloud that a sweep installs, upgrades and deletes.
struct Cloud {
    spec: Value,
    upgraded: Value,
    policy: DeletionPolicy,
    /// The phases in which a sweep kills.
    swept: &'static [Phase],
    /// The number of the cloud's releases.
    releases: usize,
    /// The Secrets into which Jobs of the cloud write keys.
    keys: &'static [&'static str],
    /// The Secrets into which osdpl copies the keys of Ceph's users.
    copies: &'static [&'static str],
    /// The arguments of the operators that manage the cloud.
    arguments: Vec<String>,
}

impl Cloud {
    /// Returns a cloud with three releases: a database, a cache and Keystone. Keystone has hook Jobs that run before
    /// and after the install of its other objects, a pre-delete hook, and Secrets with keys. Its message broker is
    /// outside of the cluster. Jobs that only repeat what other Jobs do are disabled.
    fn keystone() -> Self {
        let mut spec = services(&["keystone", "mariadb", "memcached"]);
        let credentials = json!({"admin": {"name": EXTERNAL, "key": "admin"}});
        spec["services"]["rabbitmq"] =
            json!({"enabled": true, "external": {"host": "192.0.2.8"}, "credentials": credentials});
        let manifests = json!({
            "job_rabbit_init": false, "job_domain_manage": false, "job_bootstrap": false, "cron_fernet_rotate": false,
            "cron_credential_rotate": false,
        });
        let values = |expiration: u32| {
            let conf = json!({"keystone": {"token": {"expiration": expiration}}});
            json!({"manifests": manifests, "bootstrap": {"enabled": false}, "conf": conf})
        };
        let cloud = Self::new(with_values(spec.clone(), "keystone", values(3600)), |spec| {
            with_values(spec, "keystone", values(7200))
        });
        Self { keys: &KEYS, ..cloud }
    }

    /// Returns a cloud with three releases that install quickly. One of them, the broker, has a hook Job.
    fn small() -> Self {
        Self::new(services(&["mariadb", "memcached", "rabbitmq"]), |spec| {
            with_values(spec, "rabbitmq", json!({"conf": {"rabbitmq": {"heartbeat": 30}}}))
        })
    }

    /// Returns a cloud with all stand-ins for upstream's charts (`tests/charts`), except for the chart of the network
    /// backend that the cloud does not use.
    fn full() -> Self {
        let ceph = json!({"mode": "external", "secret": {"name": crate::ceph::SECRET}, "objectStore": {}});
        let spec = json!({
            "openstackRelease": "2026.1", "presets": ["compute", "storage"], "services": {"tempest": {"enabled": true}},
            "features": {"storage": {"ceph": ceph}, "network": {"backend": "ovs"}},
        });
        let debug = |name: &str| json!({"conf": {name: {"DEFAULT": {"debug": true}}}});
        let upgrade = |spec| {
            let names = ["keystone", "glance", "nova", "neutron"].into_iter();
            names.fold(spec, |spec, name| with_values(spec, name, debug(name)))
        };
        // Disable the probes of service APIs, because no program listens in simulated pods.
        let arguments = vec!["--probes".to_owned(), "false".to_owned()];
        Self { releases: 20, keys: &KEYS, copies: &COPIES, arguments, ..Self::new(spec, upgrade) }
    }

    fn new(mut spec: Value, upgrade: impl Fn(Value) -> Value) -> Self {
        let policy = DeletionPolicy::Retain;
        spec["deletionPolicy"] = json!(policy);
        let memory = json!({"conf": {"memcached": {"memory": 300}}});
        let upgraded = with_values(upgrade(spec.clone()), "memcached", memory);
        Self { spec, upgraded, policy, swept: &Phase::ALL, releases: 3, keys: &[], copies: &[], arguments: Vec::new() }
    }

    /// Returns the same cloud with this deletion policy. A sweep of the returned cloud kills only during the deletion.
    fn deleted_with(mut self, policy: DeletionPolicy) -> Self {
        for spec in [&mut self.spec, &mut self.upgraded] {
            spec["deletionPolicy"] = json!(policy);
        }
        Self { policy, swept: &[Phase::Deletion], ..self }
    }

    /// Creates the objects that the spec refers to.
    async fn prepare(&self, world: &World) {
        let secret = json!({"metadata": {"name": EXTERNAL}, "stringData": {"admin": "a-password-of-the-broker"}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        world.api().create(&PostParams::default(), &secret).await.unwrap();
        if self.spec.pointer("/features/storage").is_some() {
            let keys = json!({
                "manila.key": crate::ceph::SHARES, "manila.pool": "shares", "nova.pool": "vms",
                "rgw_internal": "http://rgw.example.org:7480",
            });
            world.describe_ceph(keys).await;
        }
    }
}

/// Prints and records what happens in one run.
#[derive(Default)]
struct Log(Mutex<Run>);

#[derive(Clone, Default)]
struct Run {
    /// The current phase, its kill point, and the write after which the test killed the processes, as text.
    now: String,
    passed: Vec<Passed>,
}

/// A completed phase. Its writes have the texts that [`kill::general_text`] returns.
#[derive(Clone, Debug)]
struct Passed {
    phase: Phase,
    /// The write at which the test killed the processes.
    hit: Option<String>,
    writes: Vec<String>,
}

impl Log {
    fn enter(&self, phase: Phase, point: &Point) {
        self.0.lock().unwrap().now = format!("{phase:?}, {point}");
    }

    fn hit(&self, write: &Request) {
        let now = &mut self.0.lock().unwrap().now;
        *now = format!("{now}: {write}");
    }

    fn leave(&self, phase: Phase, writes: Vec<String>, hit: Option<(String, Duration)>) {
        let mut run = self.0.lock().unwrap();
        let result = hit.as_ref().map_or(format!("not killed, {} writes", writes.len()), |(_, recovery)| {
            format!("converged after {:.1} s", recovery.as_secs_f64())
        });
        println!("{}: {result}", run.now);
        run.passed.push(Passed { phase, hit: hit.map(|(write, _)| write), writes });
    }
}

/// Installs, upgrades and deletes a cloud on a separate control plane, and kills the operator and helm at the writes in
/// `points`. Returns the log of the run, and the failure if a phase failed.
fn run(name: &str, cloud: &Cloud, points: Points) -> (Run, Option<String>) {
    let log = Log::default();
    let cycle = || run_test(name, async |world| Box::pin(cycle::run(world, cloud, points, &log)).await);
    let failure = catch_unwind(AssertUnwindSafe(cycle)).err().map(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        format!("{}: {text}", log.0.lock().unwrap().now)
    });
    (log.0.into_inner().unwrap(), failure)
}

/// The progress of a sweep.
#[derive(Default)]
struct Sweep {
    /// The number of writes of each phase in a run without a kill.
    reference: [usize; 3],
    /// For each phase: the writes that the run without a kill made, and at which no other run has killed the processes
    /// yet.
    missed: [BTreeSet<String>; 3],
    /// The writes in `missed` at which further runs kill; `None` while the kill points are numbers.
    targets: Option<[BTreeSet<String>; 3]>,
    runs: usize,
    /// For each phase: the number of successive runs that did not reach their kill point. Counts only runs whose kill
    /// point is greater than the phase's number in `reference`.
    misses: [usize; 3],
    /// The number of kills in each phase.
    kills: [usize; 3],
    failures: Vec<String>,
}

impl Sweep {
    fn new(undisturbed: Run, swept: &[Phase]) -> Self {
        let mut sweep = Self::default();
        for Passed { phase, writes, .. } in undisturbed.passed.into_iter().filter(|one| swept.contains(&one.phase)) {
            sweep.reference[phase as usize] = writes.len();
            sweep.missed[phase as usize] = writes.into_iter().collect();
        }
        sweep
    }

    /// Returns the kill points of the next run; `None` if the sweep of the phases `swept` is complete.
    fn next(&mut self, swept: &[Phase], samples: Option<usize>) -> Option<Points> {
        let points = if let Some(targets) = &mut self.targets {
            targets.each_mut().map(|texts| texts.pop_first().map(Point::Text))
        } else {
            self.runs += 1;
            let numbers = match samples {
                Some(samples) if self.runs > samples => [None; 3],
                // Divide the writes into sections of equal length, and kill in the middle of each section.
                Some(samples) => {
                    self.reference.map(|writes| Some((writes * (2 * self.runs - 1)).div_ceil(2 * samples)))
                }
                None => self.misses.map(|misses| (misses < MISSES).then_some(self.runs)),
            };
            numbers.map(|number| number.map(Point::Number))
        };
        let points = only(swept, points);
        points.iter().any(Option::is_some).then_some(points)
    }

    /// Makes the next runs kill at the writes at which no run has killed yet.
    fn target_missed(&mut self) {
        self.targets = Some(self.missed.clone());
    }

    fn note(&mut self, points: &Points, (run, failure): (Run, Option<String>)) {
        for Passed { phase, hit, .. } in run.passed {
            let phase = phase as usize;
            let Some(point) = &points[phase] else { continue };
            if let Some(write) = hit {
                self.kills[phase] += 1;
                self.misses[phase] = 0;
                self.missed[phase].remove(&write);
            } else if matches!(point, Point::Number(number) if *number > self.reference[phase]) {
                self.misses[phase] += 1;
            }
        }
        self.failures.extend(failure);
    }

    /// Checks that no run failed, and that the sweep has killed at enough writes of each phase (see [`TOLERANCE`]).
    /// Without `samples`, also checks that a run killed at each write of the run without a kill.
    fn check(&self, samples: Option<usize>) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
        for (kills, writes) in self.kills.iter().zip(self.reference) {
            let points = samples.unwrap_or(writes);
            let least = points - points / TOLERANCE;
            assert!(*kills >= least, "kills in the phases: {:?}, too few for {:?} writes", self.kills, self.reference);
        }
        let is_complete = samples.is_some() || self.missed.iter().all(BTreeSet::is_empty);
        assert!(is_complete, "no run killed at these writes: {:#?}", self.missed);
    }
}

/// Returns only the kill points of the phases in `phases`.
fn only(phases: &[Phase], points: Points) -> Points {
    let mut all = points.into_iter();
    Phase::ALL.map(|phase| all.next().flatten().filter(|_| phases.contains(&phase)))
}

/// Runs a cloud once without a kill. Then runs it repeatedly, until the test has killed at each write of the cloud's
/// swept phases. With `samples`, kills only at this number of writes of each phase.
fn sweep(name: &str, cloud: &Cloud, samples: Option<usize>) {
    let started = Instant::now();
    let (undisturbed, failure) = run(name, cloud, only(cloud.swept, [const { Some(Point::NEVER) }; 3]));
    assert_eq!(failure, None);
    let progress = Mutex::new(Sweep::new(undisturbed, cloud.swept));
    println!("without a kill, the phases have {:?} writes", progress.lock().unwrap().reference);
    let work = || {
        while let Some(points) = { progress.lock().unwrap().next(cloud.swept, samples) } {
            let result = run(name, cloud, points.clone());
            progress.lock().unwrap().note(&points, result);
        }
    };
    let workers = PLANES_PER_PROCESSOR * std::thread::available_parallelism().unwrap().get();
    let work_in_parallel = || std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    work_in_parallel();
    let print_missed = || {
        let missed = &progress.lock().unwrap().missed;
        println!("no run has killed at {} different writes", missed.iter().map(BTreeSet::len).sum::<usize>());
        missed.iter().flatten().filter(|_| samples.is_none()).for_each(|write| println!("    {write}"));
    };
    print_missed();
    if samples.is_none() {
        // Not every run has every write, so try more than once.
        for _ in 0..MISSES {
            progress.lock().unwrap().target_missed();
            work_in_parallel();
        }
        print_missed();
    }
    let sweep = progress.into_inner().unwrap();
    println!(
        "{} kill points (install, upgrade, deletion: {:?}) in {} s, {} failures",
        sweep.kills.iter().sum::<usize>() + sweep.failures.len(),
        sweep.kills,
        started.elapsed().as_secs(),
        sweep.failures.len()
    );
    sweep.check(samples);
}

/// Runs a cloud once with each deletion policy, and kills at one write in some of its phases. Together, the runs have a
/// kill in the install, in the upgrade, and in the deletion under each policy. In one run, Jobs write keys into Secrets
/// before the first kill.
#[test]
fn a_sample_of_kills_converges() {
    for (cloud, policy, points) in [
        (Cloud::keystone(), DeletionPolicy::Retain, [Some(90), Some(30), Some(40)]),
        (Cloud::small(), DeletionPolicy::Purge, [Some(50), None, Some(30)]),
        (Cloud::small(), DeletionPolicy::Detach, [None, None, Some(2)]),
    ] {
        let points = points.map(|number| number.map(Point::Number));
        let (run, failure) = run("sweep-sample", &cloud.deleted_with(policy), points.clone());
        assert_eq!(failure, None);
        let mut swept = run.passed.iter().filter(|one| points[one.phase as usize].is_some());
        assert!(swept.all(|one| one.hit.is_some()), "{:?}", run.passed);
    }
}

#[test]
#[ignore = "takes half an hour: make sweep"]
fn every_kill_converges() {
    sweep("sweep", &Cloud::keystone(), None);
}

#[test]
#[ignore = "takes a quarter of an hour: make sweep"]
fn every_kill_of_a_purge_converges() {
    sweep("sweep-purge", &Cloud::keystone().deleted_with(DeletionPolicy::Purge), None);
}

#[test]
#[ignore = "takes a minute: make sweep"]
fn every_kill_of_a_detachment_converges() {
    sweep("sweep-detach", &Cloud::keystone().deleted_with(DeletionPolicy::Detach), None);
}

#[test]
#[ignore = "takes ten minutes: make sweep"]
fn sampled_kills_of_a_full_cloud_converge() {
    sweep("sweep-full", &Cloud::full(), Some(4));
}

/// Returns the result of a run in which each phase has these writes, and its kill point in `points`.
fn run_with(writes: &[&str], points: &Points) -> (Run, Option<String>) {
    let writes: Vec<String> = writes.iter().copied().map(str::to_owned).collect();
    let passed = Phase::ALL.into_iter().zip(points).filter_map(|(phase, point)| {
        let hit = match point.as_ref()? {
            Point::Number(number) => writes.get(number - 1).cloned(),
            Point::Text(text) => writes.iter().find(|write| *write == text).cloned(),
        };
        Some(Passed { phase, hit, writes: writes.clone() })
    });
    (Run { passed: passed.collect(), ..Run::default() }, None)
}

#[test]
fn a_short_run_does_not_end_a_sweep() {
    let all = ["a", "b", "c", "d", "e", "f"];
    let mut sweep = Sweep { reference: [5; 3], ..Sweep::default() };
    // Run n kills at write n. Runs 2 and 7 to 9 have fewer than n writes, so they do not reach their kill points. Run 6
    // has one write more than the reference.
    for writes in [5, 1, 5, 5, 5, 6, 5, 5, 5] {
        let points = sweep.next(&Phase::ALL, None).expect("the sweep continues");
        sweep.note(&points, run_with(&all[..writes], &points));
    }
    assert_eq!((sweep.next(&Phase::ALL, None), sweep.kills), (None, [5; 3]));
    sweep.check(None);
    let ended = Sweep { reference: [98, 60, 74], kills: [98, 60, 67], ..Sweep::default() };
    assert!(
        catch_unwind(AssertUnwindSafe(|| ended.check(None))).is_err(),
        "the check must fail if too many writes of a phase had no kill: here 7 of 74"
    );
}

#[test]
fn a_sweep_kills_at_writes_whose_order_differs() {
    let never = [const { Some(Point::NEVER) }; 3];
    let mut sweep = Sweep::new(run_with(&["a", "b", "c"], &never).0, &Phase::ALL);
    // The second run has its writes in another order, so no run kills at `b`.
    for writes in [["a", "b", "c"], ["b", "a", "c"], ["a", "b", "c"], ["a"; 3], ["a"; 3], ["a"; 3]] {
        let points = sweep.next(&Phase::ALL, None).expect("the sweep continues");
        sweep.note(&points, run_with(&writes, &points));
    }
    assert_eq!(sweep.next(&Phase::ALL, None), None);
    assert!(sweep.missed.iter().all(|missed| missed.iter().eq(["b"])), "{:?}", sweep.missed);
    assert!(catch_unwind(AssertUnwindSafe(|| sweep.check(None))).is_err(), "no run has killed at `b`");
    sweep.target_missed();
    let points = sweep.next(&Phase::ALL, None).expect("the sweep kills at `b`");
    sweep.note(&points, run_with(&["c", "a", "b"], &points));
    assert_eq!(sweep.next(&Phase::ALL, None), None);
    sweep.check(None);
}
