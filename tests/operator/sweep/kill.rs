//! Kills the operator and its helm processes at a chosen write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use crate::lease::is_running;
use crate::operator::Operator;
use crate::proxy::{Answer, Proxy, Request};

/// The resources whose writes are no kill points: the operator renews its Lease all the time, nothing depends on
/// events, and reviews change nothing.
const IGNORED: [&str; 4] = ["/leases", "/events", "/authentication.k8s.io/", "/authorization.k8s.io/"];

/// Whether the request is a write of a phase.
pub fn is_counted(request: &Request) -> bool {
    request.is_write() && !IGNORED.iter().any(|part| request.uri.path().contains(part))
}

/// The kill point of a phase.
pub struct KillPoint {
    number: usize,
    writes: Arc<AtomicUsize>,
    hit: oneshot::Receiver<Request>,
}

impl KillPoint {
    /// Makes the proxy count writes from now on. The proxy forwards write `number`, and never delivers its response. It
    /// forwards no request that arrives after this write, so nothing happens until the test has killed the processes.
    pub fn set(proxy: &Proxy, number: usize) -> Self {
        let writes = Arc::<AtomicUsize>::default();
        let (sender, hit) = oneshot::channel();
        let (count, mut sender) = (Arc::clone(&writes), Some(sender));
        proxy.set_rule(move |request| {
            if count.load(Ordering::SeqCst) >= number {
                return Answer::Stall;
            }
            if is_counted(request) && count.fetch_add(1, Ordering::SeqCst) + 1 == number {
                let (sender, request) = (sender.take().unwrap(), request.clone());
                return Answer::Lose(Box::new(move || drop(sender.send(request))));
            }
            Answer::Forward
        });
        Self { number, writes, hit }
    }

    /// Returns the number of writes so far.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Whether the write at which the test kills the processes has arrived at the proxy.
    pub fn is_reached(&self) -> bool {
        self.writes() >= self.number
    }

    /// Waits until the API server has responded to the write at which the test kills the processes. Returns the write.
    pub async fn hit(&mut self) -> Request {
        (&mut self.hit).await.unwrap()
    }
}

/// Kills the operator, its helm processes and its guard process with SIGKILL, so that none of them notices the end of
/// another one. Waits until all have ended.
pub async fn kill_all(operator: Operator) {
    operator.freeze();
    let children = children(operator.pid());
    for child in &children {
        kill_process(Pid::from_raw(*child).unwrap(), Signal::KILL).unwrap();
    }
    operator.kill();
    while children.iter().any(|child| is_running(*child)) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the ids of the processes whose parent is this process.
pub fn children(parent: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

/// Returns the parent of a process: the second field after the program's name (`proc_pid_stat(5)`).
fn parent_of(process: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
