//! Probes the APIs of OpenStack services: each API periodically, and also immediately after a pass has added or changed
//! the API.
//!
//! Each pass sets the APIs to probe ([`crate::tasks::Tasks::set_probe_targets`]) and never waits for a response. If no
//! connection to an API is possible, the task reports nothing about that API, because the operator may run outside of
//! the cluster's network.
//!
//! The task runs on the [`ProbeThread`](crate::probe_thread::ProbeThread), so that passes and probes do not delay each
//! other. Other threads resolve host names (`osdpl_client::resolve`), because a slow DNS server blocks the thread that
//! asks it.

#![allow(clippy::disallowed_methods, reason = "uses the clock to time the probes")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::probe_schedule::{DueProbe, FinishedProbe, Found, ProbeResult, ProbeSchedule, Wanted};
use super::problems::Problems;
use super::{Spawner, publish};

use osdpl_client::{Http, HttpConfig};
use osdpl_core::endpoint::{Login, ProbeResponse, Types, Url, find_fault, service_types};

/// The HTTP status code of Keystone's response to a request for a token (Identity API v3).
const CREATED: u16 = 201;

/// The maximum number of concurrent probes.
const MAX_PROBES: usize = 2;

/// The settings with which the endpoints task probes the APIs of OpenStack services.
#[derive(Clone, Debug)]
pub struct Probing {
    /// The timeout and the trusted certificates of the connections to the APIs.
    pub reach: HttpConfig,
    /// The period between probes of a healthy API.
    pub period: Duration,
    /// The tokio runtime on which the probes run.
    pub runtime: Handle,
}

/// The default period between probes of a healthy API.
///
/// The period is short enough to report a fault within a minute. The load of the probes is negligible compared to the
/// requests of users.
pub const PROBE_PERIOD: Duration = Duration::from_secs(45);

/// The default timeout of a probe. It is shorter than the timeouts of some readiness probes in OpenStack-Helm's charts
/// (up to 15 s), so osdpl also reports an API that responds slowly although its pods are ready.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts the endpoints task, unless probes are disabled. Returns the sender through which passes set the APIs to
/// probe, and the receiver of the results.
pub(super) fn spawn(
    spawner: &mut Spawner,
    probing: Option<&Probing>,
    problems: &Problems,
    trigger: &Arc<Notify>,
) -> (watch::Sender<Wanted>, watch::Receiver<Arc<Found>>) {
    let (targets, wanted) = watch::channel(Wanted::new());
    let (sender, found) = watch::channel(Arc::default());
    if let Some(probing) = probing.cloned() {
        let trigger = Arc::clone(trigger);
        spawner.spawn_on(&probing.runtime.clone(), "endpoints", problems, move || {
            run(probing.clone(), wanted.clone(), sender.clone(), Arc::clone(&trigger))
        });
    }
    (targets, found)
}

async fn run(
    probing: Probing,
    mut wanted: watch::Receiver<Wanted>,
    sender: watch::Sender<Arc<Found>>,
    trigger: Arc<Notify>,
) {
    let http = Arc::new(Http::new(probing.reach.clone()));
    let mut schedule = ProbeSchedule::new(probing.period);
    let mut probes = FuturesUnordered::new();
    loop {
        schedule.set_targets(&wanted.borrow_and_update(), Instant::now());
        let due = schedule.due(Instant::now(), MAX_PROBES.saturating_sub(probes.len()));
        probes.extend(due.into_iter().map(|due| probe(Arc::clone(&http), due)));
        publish(Arc::new(schedule.found()), &sender, &trigger);
        let next_due = schedule.next_due();
        let pause = next_due.map(|due| due.saturating_duration_since(Instant::now())).unwrap_or_default();
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            Some(done) = probes.next() => schedule.store_result(done, Instant::now()),
            () = tokio::time::sleep(pause), if next_due.is_some() && probes.len() < MAX_PROBES => {}
        }
    }
}

/// Probes one API. If `catalogue` is set and the API is Keystone, also requests a token, because the response contains
/// Keystone's service catalogue.
async fn probe(http: Arc<Http>, DueProbe { key, target, catalogue }: DueProbe) -> FinishedProbe {
    let (result, types) = match http.get(&target.url).await {
        None => (ProbeResult::Unreachable, None),
        Some(response) => match (find_fault(&target, &response), target.login.as_ref().filter(|_| catalogue)) {
            (Some(fault), _) => (ProbeResult::Bad(fault), None),
            (None, None) => (ProbeResult::Healthy, None),
            (None, Some(login)) => request_token(&http, &target.url, login).await,
        },
    };
    FinishedProbe { key, target, result, types }
}

/// Requests a token from Keystone; the response also contains Keystone's service catalogue.
async fn request_token(http: &Http, url: &Url, login: &Login) -> (ProbeResult, Option<Types>) {
    let url = Url { path: format!("{}/auth/tokens", url.path.trim_end_matches('/')), ..url.clone() };
    let Some(response) = http.post(&url, login.body()).await else { return (ProbeResult::Unreachable, None) };
    if let Some(fault) = response.problem(&[CREATED]) {
        return (ProbeResult::Bad(format!("POST {url}, as the administrator: {fault}")), None);
    }
    match &response {
        ProbeResponse::Status { body, .. } => (ProbeResult::Healthy, service_types(body)),
        ProbeResponse::Silence(_) | ProbeResponse::Certificate(_) | ProbeResponse::Broken(_) => {
            (ProbeResult::Healthy, None)
        }
    }
}
