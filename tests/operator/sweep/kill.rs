//! Kills the operator and its helm processes at a chosen write to the API server.

use std::fmt;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::{oneshot, watch};

use crate::lease::until_ended;
use crate::operator::Operator;
use crate::proxy::{Answer, Proxy, Request};

/// Parts of the paths of requests at which the test does not kill. The operator renews its Lease all the time, nothing
/// depends on events, and reviews of tokens and of rights change nothing.
const IGNORED: [&str; 4] = ["/leases", "/events", "/authentication.k8s.io/", "/authorization.k8s.io/"];

/// A kill point: the write of a phase at which the test kills the processes.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// The write with this number. The first write of a phase has the number 1.
    Number(usize),
    /// The first write with this text, see [`general_text`].
    Text(String),
}

impl Point {
    /// A kill point that no run reaches.
    pub const NEVER: Self = Self::Number(usize::MAX);

    /// Whether the kill point is this write. `text` is the write's text, and `number` its number.
    fn is(&self, text: &str, number: usize) -> bool {
        match self {
            Self::Number(point) => *point == number,
            Self::Text(point) => point == text,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            &Self::NEVER => formatter.write_str("without a kill"),
            Self::Number(number) => write!(formatter, "write {number}"),
            Self::Text(_) => formatter.write_str("missed write"),
        }
    }
}

/// Returns the text of a request without what differs between runs: the run's namespace, and the revision in the name
/// of a release record.
pub fn general_text(request: &Request, namespace: &str) -> String {
    let text = request.to_string().replace(namespace, "NAMESPACE");
    match text.rsplit_once(".v") {
        Some((record, _)) if record.contains("/sh.helm.release.v1.") => format!("{record}.vN"),
        _ => text,
    }
}

/// Whether the request is a write at which the test may kill the processes.
fn is_counted(request: &Request) -> bool {
    request.is_write() && !IGNORED.iter().any(|part| request.uri.path().contains(part))
}

/// The writes that the proxy has forwarded in a phase, in their order.
#[derive(Clone, Default)]
pub struct Writes(Arc<Mutex<Vec<Request>>>);

impl Writes {
    /// Returns the number of writes so far.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Skips the first `count` writes, and returns the texts of all later writes.
    pub fn after(&self, count: usize) -> Vec<String> {
        self.0.lock().unwrap()[count..].iter().map(ToString::to_string).collect()
    }

    /// Returns the [`general_text`] of each write.
    pub fn general_texts(&self, namespace: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|write| general_text(write, namespace)).collect()
    }
}

/// Reports when the write at the kill point of a phase arrives at the proxy, and when the API server has done it.
pub struct KillPoint {
    hit: oneshot::Receiver<Request>,
    is_reached: watch::Receiver<bool>,
}

impl KillPoint {
    /// Makes the proxy record all writes, and block at `point`. The proxy adds each write to `writes`. It forwards the
    /// write at `point`, but never delivers the response, and forwards no later request. So nothing changes in the
    /// cluster until the test has killed the processes.
    pub fn set(proxy: &Proxy, point: Point, writes: &Writes, namespace: &str) -> Self {
        let ((sender, hit), (reached, is_reached)) = (oneshot::channel(), watch::channel(false));
        let (writes, namespace, mut sender) = (writes.clone(), namespace.to_owned(), Some(sender));
        proxy.set_rule(move |request| {
            if *reached.borrow() {
                return Answer::Stall;
            }
            if !is_counted(request) {
                return Answer::Forward;
            }
            let mut writes = writes.0.lock().unwrap();
            writes.push(request.clone());
            if !point.is(&general_text(request, &namespace), writes.len()) {
                return Answer::Forward;
            }
            reached.send_replace(true);
            let (sender, request) = (sender.take().unwrap(), request.clone());
            Answer::Lose(Box::new(move || drop(sender.send(request))))
        });
        Self { hit, is_reached }
    }

    /// Whether the write at which the test kills the processes has arrived at the proxy.
    pub fn is_reached(&self) -> bool {
        *self.is_reached.borrow()
    }

    /// Waits until the API server has responded to the write at which the test kills the processes. Returns the write.
    pub async fn hit(&mut self) -> Request {
        (&mut self.hit).await.unwrap()
    }
}

/// Kills the operator, its helm processes and its guard process with SIGKILL, so that no process can react to the end
/// of another process. Waits until all of these processes have ended.
pub async fn kill_all(operator: Operator) {
    operator.freeze();
    let children = children(operator.pid());
    for child in &children {
        kill_process(Pid::from_raw(*child).unwrap(), Signal::KILL).unwrap();
    }
    operator.kill();
    until_ended("the killed processes have ended", &children).await;
}

/// Returns the ids of the child processes of the process `parent`.
pub fn children(parent: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

/// Returns the id of a process's parent. In `/proc/PID/stat`, this id is the second field after the program's name
/// (`proc_pid_stat(5)`).
fn parent_of(process: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
