//! The journal of a soak test: the changes that the test made, and the writes that each change explains.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use cluster::AuditEntry;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::world::{World, now, with_timeout};

/// The time for which the operator and helm must write nothing before a change counts as settled. The change does not
/// explain later writes.
const QUIET: SignedDuration = SignedDuration::from_secs(5);

/// A change that the test makes.
pub struct Cause {
    /// The description of the change, such as `rotate Glance's key`.
    pub what: String,
    /// The release that helm must upgrade exactly once; `None` if the change must start no helm process.
    pub upgrades: Option<&'static str>,
    /// The objects that the operator itself may write, besides the cloud's status and events. Each entry is a plural
    /// kind and the beginning of a name.
    pub writes: Vec<(&'static str, String)>,
    /// The maximum number of writes of the operator and helm after this change.
    pub most: usize,
}

/// The maximum number of writes after a CronJob has run: writes of the status and of an event.
const MOST_OF_CRON_RUN: usize = 4;

/// The beginning of [`Cause::what`] for the changes in which a pod dies.
pub const POD: &str = "pod ";

/// A cause that has settled. It can explain writes between `began` and `settled`; `writes` is the number of writes that
/// it has explained.
struct Entry {
    cause: Cause,
    began: Timestamp,
    settled: Timestamp,
    writes: usize,
}

/// The changes that the test has made, oldest first.
#[derive(Default)]
pub struct Journal(Mutex<Vec<Entry>>);

impl Journal {
    /// Makes a change, and waits until it has settled: `change` returns when its effect is visible, and then the
    /// operator and helm must write nothing for [`QUIET`]. Checks which releases helm has upgraded because of the
    /// change.
    pub async fn record(&self, world: &World, cause: Cause, change: impl Future<Output = ()>) {
        let (began, runs) = (now(), world.helm_runs().len());
        Box::pin(change).await;
        let what = format!("no write follows, after this change: {}", cause.what);
        let settled = with_timeout(&what, quiet(world, began)).await;
        let upgraded: Vec<String> = world.upgraded_since(runs);
        let expected: Vec<&str> = cause.upgrades.into_iter().collect();
        assert_eq!(upgraded, expected, "this change must upgrade exactly the expected releases: {}", cause.what);
        println!("{began:.0} {} settled after {:.1} s", cause.what, seconds(began, settled));
        self.0.lock().unwrap().push(Entry { cause, began, settled, writes: 0 });
    }

    /// Returns how many pods have died since this time.
    pub fn pods_died_since(&self, since: Timestamp) -> usize {
        let entries = self.0.lock().unwrap();
        entries.iter().filter(|entry| entry.began >= since && entry.cause.what.starts_with(POD)).count()
    }

    /// Checks that a cause in the journal explains each write of the operator and its helm processes after `since`, and
    /// that no cause explains more writes than its maximum. Prints how many writes followed each kind of change, and
    /// for how long no change was in progress.
    pub fn check_writes(&self, world: &World, since: Timestamp) {
        let mut entries = self.0.lock().unwrap();
        entries.extend(cron_runs(&world.cluster().audit(since).unwrap()));
        let mut unexplained = Vec::new();
        for write in world.writes_since(since) {
            match entries.iter_mut().find(|entry| entry.explains(&write)) {
                Some(entry) => entry.writes += 1,
                None => unexplained.push(write),
            }
        }
        let busy: f64 = entries.iter().map(|entry| seconds(entry.began, entry.settled)).sum();
        let all = seconds(since, now());
        println!("{:.0} s without a cause, of {all:.0} s", all - busy);
        let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for entry in entries.iter() {
            let kind = entry.cause.what.split(':').next().unwrap_or_default();
            kinds.entry(kind).or_default().push(entry.writes);
        }
        for (kind, writes) in kinds {
            let (least, most) = (writes.iter().min().unwrap(), writes.iter().max().unwrap());
            println!("{:>4} × {kind}: {} writes, {least} to {most} each", writes.len(), writes.iter().sum::<usize>());
        }
        assert!(unexplained.is_empty(), "a change must explain each write: {unexplained:#?}");
        let excessive: Vec<String> = entries.iter().filter_map(Entry::excess).collect();
        assert!(excessive.is_empty(), "a change must not cause more writes than its maximum: {excessive:#?}");
    }
}

impl Entry {
    /// Returns a message if the cause has led to more writes than its maximum.
    fn excess(&self) -> Option<String> {
        let Cause { what, most, .. } = &self.cause;
        (self.writes > *most).then(|| format!("{what}: {} writes, at most {most}", self.writes))
    }

    /// Whether this cause explains the write: the write came after the change began and before it settled, and the
    /// cause allows it.
    fn explains(&self, write: &AuditEntry) -> bool {
        if write.received < self.began || write.received > self.settled {
            return false;
        }
        if write.user_agent.starts_with("Helm") {
            return self.cause.upgrades.is_some();
        }
        let is_report = write.resource == "events" || write.subresource == "status";
        let is_named = |(kind, name): &(&str, String)| write.resource == *kind && write.name.starts_with(name);
        is_report || self.cause.writes.iter().any(is_named)
    }
}

/// Returns each run of a CronJob as a cause. The operator writes the status after a CronJob's first run, because the
/// status shows whether the CronJob has ever run.
fn cron_runs(audit: &[AuditEntry]) -> impl Iterator<Item = Entry> {
    let is_run = |entry: &&AuditEntry| {
        entry.user.ends_with(":cronjob-controller") && entry.resource == "jobs" && entry.verb == "create"
    };
    audit.iter().filter(is_run).map(|run| Entry {
        cause: Cause {
            what: format!("CronJob runs: {}", run.name),
            upgrades: None,
            writes: Vec::new(),
            most: MOST_OF_CRON_RUN,
        },
        began: run.received,
        settled: run.received + QUIET,
        writes: 0,
    })
}

/// Waits until the operator and helm have written nothing for [`QUIET`], and returns the current time.
///
/// Nothing reports the absence of writes, so this function reads the audit log each second.
async fn quiet(world: &World, since: Timestamp) -> Timestamp {
    loop {
        let last = world.writes_since(since).last().map_or(since, |write| write.answered);
        let now = now();
        if now.duration_since(last) >= QUIET && now.duration_since(since) >= QUIET {
            return now;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

#[test]
fn explains_only_listed_writes_in_time() {
    let at = |second: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
    let write = |agent: &str, resource: &str, name: &str, second: i64| AuditEntry {
        verb: "patch".into(),
        user: "operator".into(),
        user_agent: agent.into(),
        group: String::new(),
        resource: resource.into(),
        subresource: String::new(),
        namespace: "test".into(),
        name: name.into(),
        code: 200,
        received: at(second),
        answered: at(second),
    };
    let entry = |upgrades| Entry {
        cause: Cause { what: "node".into(), upgrades, writes: vec![("nodes", "extra".into())], most: 2 },
        began: at(10),
        settled: at(20),
        writes: 0,
    };
    let after = |writes: usize| Entry { writes, ..entry(None) };
    assert_eq!(after(2).excess(), None);
    assert_eq!(after(3).excess().as_deref(), Some("node: 3 writes, at most 2"));
    let (idle, upgrade) = (entry(None), entry(Some("glance")));
    assert!(idle.explains(&write("osdpl", "nodes", "extra-1", 15)));
    assert!(idle.explains(&write("osdpl", "events", "any", 20)));
    assert!(!idle.explains(&write("osdpl", "nodes", "node-1", 15)), "must not explain a write of another node");
    assert!(!idle.explains(&write("osdpl", "nodes", "extra-1", 9)), "must not explain a write before the change");
    assert!(!idle.explains(&write("osdpl", "events", "any", 21)), "must not explain a write after the change settled");
    assert!(!idle.explains(&write("Helm/4.3.1", "events", "any", 15)), "must not explain a helm run without upgrade");
    assert!(upgrade.explains(&write("Helm/4.3.1", "deployments", "any", 15)));
}
