//! Elects the active operator: the process that holds the Lease `osdpl` in the operator's namespace.
//!
//! All other operator processes are standbys. Their watches run, and they serve the webhook, probes and metrics, but
//! they run no pass and write nothing.
//!
//! The rules are those of client-go (`tools/leaderelection`): the holder renews the Lease every 2 s. A standby measures
//! by its own monotonic clock how long the Lease has not changed, and never compares clocks of two machines. Each write
//! names the resourceVersion of the Lease that it replaces. A clean shutdown releases the Lease after helm has ended.
//! All times are client-go's defaults, except the 13 s and 17 s in this table. osdpl adds these two, so that helm
//! processes of two operators do not run at the same time:
//!
//! | time since the last renewal | event |
//! |---|---|
//! | 10 s ([`RENEW_DEADLINE`]) | the holder writes nothing more and ends; its helm processes get SIGTERM |
//! | 13 s (10 s + [`guard::GRACE`](crate::helm::guard)) | the guard kills helm, even if the holder is frozen |
//! | 15 s ([`DURATION`]) | a standby takes the Lease |
//! | 17 s (15 s + [`TAKEOVER_GRACE`](decide)) | the new holder starts its first pass |
//!
//! If a standby can see that the holder's process has ended, the standby takes the Lease at once. A standby can see
//! this only if the holder ran on the same machine, or in an earlier container of the same pod.
//!
//! # Why a new holder lists no pods
//!
//! An operator must not unlock the release record of a running helm process. It does not look for the pods of earlier
//! operators to find out which helm processes still run: the pod object of a dead node stays for a long time, and a
//! frozen process continues after its pod object was deleted. The table above is sufficient. Only a holder starts helm,
//! and the guard kills the helm processes of an earlier holder 13 s after its last renewal, so before the new holder
//! takes the Lease. Decision record 14 (`deploy/docs/decisions`) has the details.
//!
//! # What the Lease can't prevent
//!
//! If a process sent a request before it lost or released the Lease, the request can take effect afterwards, because it
//! may wait in the network or in the API server. A clean shutdown waits only some seconds for the responses to its last
//! requests.
//!
//! If a whole machine is frozen, its guard and helm are frozen, too. When the machine continues, each helm process may
//! send a last request before the guard kills it. The operator itself may send one more request, too, if it checked the
//! Lease just before the freeze. If a virtual machine was paused, its clocks were paused, too, and the operator notices
//! the loss of the Lease only with its next renewal.
//!
//! Optimistic concurrency limits the effect of such requests: osdpl writes the status, the finalizer, annotations and
//! release records with their resourceVersion, and names the uid of each pod and each object of a failed revision that
//! it deletes.

#![allow(clippy::disallowed_methods, reason = "measures time")]

mod clients;
mod decide;
mod elsewhere;
mod inactive;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use osdpl_client::explain;
use osdpl_core::api::MANAGER;
use osdpl_values::CollectSorted;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use clients::Clients;
pub use elsewhere::CHART_LABEL;
pub use inactive::describe_inactivity;

use crate::helm::{Guard, Instance, ProcessState, guard};
use decide::{Seen, Step, next_step};
use elsewhere::Others;

/// The name of the Lease.
pub const NAME: &str = "osdpl";

/// The time for which the Lease is valid after its last renewal. After this time, a standby may take the Lease.
const DURATION: Duration = Duration::from_secs(15);

/// The time after the last renewal in which the holder still tries to renew the Lease. Then it gives up and ends.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// The time between the beginnings of two renewals, and the delay until a standby reads the Lease again.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// The timeout of a request that reads or writes the Lease. After one request that timed out, the holder still has time
/// for a second one before [`RENEW_DEADLINE`].
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay between two checks whether the holder of the Lease has ended. A standby can check this only for a process
/// on the same machine. The delay is short, because the check sends no request to the API server.
const LOCAL_RECHECK: Duration = Duration::from_millis(250);

/// The state that says whether this process is the active operator, and until when it may write. Clones share their
/// state.
///
/// Kept so that each write can check the state without a request for the Lease. A restart loses the state: a new
/// process may not write before it has taken the Lease itself.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Sender<Option<Instant>>);

impl Default for Leadership {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Leadership {
    /// Whether this process may write to the cluster: it is the active operator, and less than `RENEW_DEADLINE` has
    /// passed since its last renewal of the Lease.
    pub fn may_write(&self) -> bool {
        self.0.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Whether this process is the active operator.
    pub fn is_active(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until this process is the active operator.
    pub async fn acquired(&self) {
        // Ignore an error: waiting fails only if the sender is dropped, and `self` keeps the sender.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// Makes this process the active operator, and lets it write until the given time.
    pub(crate) fn activate(&self, until: Instant) {
        self.0.send_replace(Some(until));
    }

    fn end(&self) {
        self.0.send_replace(None);
    }
}

/// Why this process can't be the active operator, or is not any more.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// This process could not renew the Lease in time. The field describes the last problem.
    #[error(
        "the operator could not renew its Lease for {limit} s: {0}; it ends, so that another operator can take over; \
         check the connection to the API server", limit = RENEW_DEADLINE.as_secs()
    )]
    Expired(String),
    /// Another process, which the field names, has taken the Lease.
    #[error("{0} has taken the Lease from this operator, which was frozen or disconnected; this operator ends")]
    Taken(String),
    /// Another operator is active in another namespace. The field names the process and the namespace of that operator.
    #[error(
        "another operator is active: {0}; this operator ends, because two operators would change the same cloud; stop \
         the other operator, or start this operator with the same --namespace as the other operator"
    )]
    Elsewhere(String),
    /// The guard process, without which helm must not run, has ended, reads no deadlines, or can't be started.
    #[error("{0}; the operator ends")]
    Guard(String),
}

impl Lost {
    /// Returns the loss because of a problem of the guard process.
    fn guard(problem: &str) -> Self {
        Self::Guard(format!("the guard process, which kills helm if the operator hangs, {problem}"))
    }
}

/// Takes and renews the Lease for this process.
pub struct Elector {
    api: Api<Lease>,
    /// The namespace of the Lease.
    namespace: String,
    instance: Instance,
    /// The name of this process in the Lease's `holderIdentity`: `<name of the pod>_<instance>` in a pod, else
    /// `<instance>`.
    identity: String,
    leadership: Leadership,
    /// The Lease as this process last read or wrote it; `None` if it did not exist. Kept because each write must replace
    /// exactly this version. A restart loses nothing: a new process reads the Lease before it writes.
    lease: Option<Lease>,
    /// The content of the Lease, and the time for which it has not changed. Kept to measure when the Lease expires. A
    /// restarted process measures from zero, so it may wait up to [`DURATION`] longer for the Lease.
    seen: Option<Seen>,
}

impl Elector {
    /// Creates an elector for the Lease in `namespace`; `pod` is the name of this pod.
    pub fn new(client: Client, namespace: &str, instance: Instance, pod: Option<&str>, leadership: Leadership) -> Self {
        let identity = pod.map_or_else(|| instance.to_string(), |pod| format!("{pod}_{instance}"));
        let api = Api::namespaced(client, namespace);
        let namespace = namespace.to_owned();
        Self { api, namespace, instance, identity, leadership, lease: None, seen: None }
    }

    /// Reads the Lease when the operator starts. From then on, the elector measures how long the Lease has not changed.
    ///
    /// The elector's own client does not retry a failed request. So this function uses `client`, which retries.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub async fn read_through(&mut self, client: &Client) -> Result<(), kube::Error> {
        self.read_from(&Api::namespaced(client.clone(), &self.namespace)).await
    }

    async fn read(&mut self) -> Result<(), kube::Error> {
        self.read_from(&self.api.clone()).await
    }

    async fn read_from(&mut self, api: &Api<Lease>) -> Result<(), kube::Error> {
        self.lease = api.get_opt(NAME).await?;
        self.seen = Seen::after_read(self.seen.take(), self.lease.as_ref(), Instant::now());
        Ok(())
    }

    /// Waits until the Lease is free, takes it, and renews it until `release` is cancelled. Then releases the Lease and
    /// returns.
    ///
    /// # Errors
    /// Returns an error if this process loses the Lease, if an operator is active in another namespace, or if the guard
    /// process of helm has ended or can't be started. The process must then end at once.
    pub async fn run(mut self, release: CancellationToken) -> Result<(), Lost> {
        let acquired = tokio::select! {
            acquired = self.acquire_alone() => acquired.map(Some),
            () = release.cancelled() => Ok(None),
        };
        let Ok(Some(renewed)) = acquired else {
            if self.is_own() {
                self.release().await;
            }
            return acquired.map(drop);
        };
        let mut guard = match Guard::start(&self.instance) {
            Ok(guard) => guard,
            Err(error) => {
                // Release the Lease at once: this process has not started helm yet, so no helm process has to end
                // first.
                self.release().await;
                return Err(Lost::guard(&format!("can't be started: {error}")));
            }
        };
        let lost = tokio::select! {
            lost = self.hold(renewed, &mut guard) => Some(lost),
            () = release.cancelled() => None,
        };
        self.leadership.end();
        if let Some(lost) = lost {
            return Err(lost);
        }
        self.release().await;
        Ok(())
    }

    /// Takes the Lease, unless an operator is active in another namespace.
    ///
    /// After taking the Lease, this function searches again for an active operator: an operator in another namespace
    /// may have taken its Lease since the first search. Of two operators that take their Leases at the same time, at
    /// least one finds the other.
    async fn acquire_alone(&mut self) -> Result<Instant, Lost> {
        let others = Others::read(&self.api, &self.namespace).await;
        if let Some(other) = others.find_active().await {
            return Err(Lost::Elsewhere(other));
        }
        let sent = self.acquire().await;
        match tokio::time::timeout_at((sent + RENEW_DEADLINE).into(), others.find_changed()).await {
            Ok(None) => Ok(sent),
            Ok(Some(other)) => Err(Lost::Elsewhere(other)),
            Err(_) => Err(Lost::Expired(Failure::Timeout.to_string())),
        }
    }

    /// Takes the Lease as soon as it is free. Then waits for the time in [`Step::Take`], so that helm processes of the
    /// previous holder end first.
    ///
    /// Returns the time at which this process sent the request that took the Lease.
    async fn acquire(&mut self) -> Instant {
        let (mut reported_holder, mut reported_error) = (None, String::new());
        loop {
            let holder = self.holder().map(str::to_owned);
            match self.try_acquire().await {
                Ok(Some(sent)) => return sent,
                Ok(None) if reported_holder != holder => {
                    tracing::info!(holder, "this operator is a standby until the Lease is free");
                    reported_holder = holder;
                }
                Ok(None) => {}
                Err(error) => {
                    let error = error.to_string();
                    if reported_error != error {
                        tracing::warn!(error, "the Lease can't be read or taken; retrying");
                        reported_error = error;
                    }
                    tokio::time::sleep(RETRY_PERIOD).await;
                }
            }
        }
    }

    /// Reads the Lease, and takes it if it is free or expired. If another process holds the Lease, waits until the
    /// caller should try again.
    ///
    /// Returns the time of the request that took the Lease; `None` if this process has not taken the Lease.
    async fn try_acquire(&mut self) -> Result<Option<Instant>, Failure> {
        request(self.read()).await?;
        match next_step(self.seen.as_ref(), &self.identity, self.holder_state(), Instant::now()) {
            Step::Take(grace) => {
                let sent = Instant::now();
                match request(self.write(self.identity.clone())).await {
                    Ok(()) => {}
                    // Try again later: another process took the Lease first.
                    Err(Failure::Conflict) => return Ok(None),
                    Err(error) => return Err(error),
                }
                tracing::info!(?grace, "this operator has taken the Lease");
                tokio::time::sleep(grace).await;
                Ok(Some(sent))
            }
            Step::Wait(pause) => {
                let holder_ends = async {
                    while self.holder_state() == ProcessState::Running {
                        tokio::time::sleep(LOCAL_RECHECK).await;
                    }
                    if self.holder_state() == ProcessState::Elsewhere {
                        std::future::pending::<()>().await;
                    }
                };
                // Ignore the result, which says whether the holder has ended or `pause` is over: in both cases, the
                // next call of `try_acquire` checks the holder.
                let _ = tokio::time::timeout(pause, holder_ends).await;
                Ok(None)
            }
        }
    }

    fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(Seen::holder)
    }

    fn is_own(&self) -> bool {
        self.holder() == Some(self.identity.as_str())
    }

    fn holder_state(&self) -> ProcessState {
        self.holder().map_or(ProcessState::Elsewhere, |holder| self.instance.state_of(instance_of(holder)))
    }

    /// Renews the Lease until this process loses it. Returns why this process lost it. `renewed` is the time of the
    /// request that took the Lease.
    async fn hold(&mut self, mut renewed: Instant, guard: &mut Guard) -> Lost {
        loop {
            let mut problem = "this process was frozen, or got no processor time".to_owned();
            let deadline = renewed + RENEW_DEADLINE;
            // While the guard is stopped, it reads no deadlines. When their pipe is full, `extend` waits.
            match tokio::time::timeout_at(deadline.into(), guard.extend(deadline + guard::GRACE)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Lost::Guard(error.to_string()),
                Err(_) => return Lost::guard("does not respond: it is frozen or gets no processor time"),
            }
            self.leadership.activate(deadline);
            let mut sent = renewed;
            loop {
                // A renewal that times out takes longer than `RETRY_PERIOD`. So the next renewal begins at once, and
                // has enough time before the deadline to open a new connection.
                let next = deadline.min(sent + RETRY_PERIOD);
                tokio::select! {
                    () = tokio::time::sleep_until(next.into()) => {}
                    () = guard.ended() => return Lost::guard("has ended"),
                }
                sent = Instant::now();
                if sent >= deadline {
                    return Lost::Expired(problem);
                }
                match tokio::time::timeout_at(deadline.into(), self.renew()).await {
                    Ok(Ok(())) => {
                        renewed = sent;
                        break;
                    }
                    Ok(Err(RenewError::Taken(holder))) => return Lost::Taken(holder),
                    Ok(Err(RenewError::Request(error))) => problem = error.to_string(),
                    Err(_) => problem = Failure::Timeout.to_string(),
                }
                tracing::warn!(error = problem, "the Lease can't be renewed; retrying");
            }
        }
    }

    async fn renew(&mut self) -> Result<(), RenewError> {
        match request(self.write(self.identity.clone())).await {
            Ok(()) => Ok(()),
            // The Lease is not the one that this process wrote last: someone has changed or deleted it. Read it to find
            // out who holds it now.
            Err(Failure::Conflict | Failure::Missing) => {
                request(self.read()).await?;
                // If nobody holds the Lease now, another process may have taken and released it. So this process must
                // not continue as if it had held the Lease all the time.
                if self.lease.is_some() && !self.is_own() {
                    return Err(RenewError::Taken(self.holder().unwrap_or("another process").to_owned()));
                }
                Ok(request(self.write(self.identity.clone())).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Releases the Lease, so that a standby can take it at once.
    async fn release(&mut self) {
        match self.try_release().await {
            Ok(true) => tracing::info!("this operator has released the Lease"),
            Ok(false) => tracing::info!("this operator does not hold the Lease any more, so it does not release it"),
            Err(error) => {
                tracing::warn!(%error, "osdpl can't release the Lease; the next operator waits until it expires");
            }
        }
    }

    /// Releases the Lease. Returns whether this process still held it.
    async fn try_release(&mut self) -> Result<bool, Failure> {
        match request(self.write(String::new())).await {
            Err(Failure::Conflict) => {}
            released => return released.map(|()| true),
        }
        // The API server may have executed this process's last renewal, although the process received no response. So
        // read the Lease again, and release it if this process still holds it.
        request(self.read()).await?;
        if !self.is_own() {
            return Ok(false);
        }
        request(self.write(String::new())).await.map(|()| true)
    }

    /// Writes the Lease with the holder `holder`, unless somebody has changed the Lease since this process read it.
    async fn write(&mut self, holder: String) -> Result<(), kube::Error> {
        let now = MicroTime(Timestamp::now());
        let before = self.lease.as_ref().and_then(|lease| lease.spec.clone());
        let before_holder = before.as_ref().and_then(|before| before.holder_identity.as_ref());
        let is_taken = !holder.is_empty() && before_holder != Some(&holder);
        let transitions =
            before.as_ref().map_or(0, |before| before.lease_transitions.unwrap_or(0) + i32::from(is_taken));
        let before = before.unwrap_or_default();
        let content = LeaseSpec {
            acquire_time: if is_taken { Some(now.clone()) } else { before.acquire_time.clone() },
            renew_time: Some(now),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            lease_transitions: Some(transitions),
            holder_identity: Some(holder),
            ..before
        };
        let metadata = self.lease.as_ref().map_or_else(
            || ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() },
            |lease| lease.metadata.clone(),
        );
        let lease = Lease { metadata, spec: Some(content) };
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        self.lease = Some(match self.lease {
            Some(_) => self.api.replace(NAME, &params, &lease).await?,
            None => self.api.create(&params, &lease).await?,
        });
        self.seen = Seen::after_read(self.seen.take(), self.lease.as_ref(), Instant::now());
        Ok(())
    }
}

/// Returns the identity ([`Instance`]) of each operator process that holds a Lease named [`NAME`], in any namespace.
pub(crate) async fn holders(client: &Client) -> Result<BTreeSet<String>, kube::Error> {
    let held = elsewhere::held_by_operators(client).await?;
    Ok(held.values().filter_map(|lease| Some(instance_of(lease.holder_identity.as_ref()?).to_owned())).collect_set())
}

/// Returns the [`Instance`] in `holder`, the `holderIdentity` of a Lease: `<instance>` or
/// `<name of the pod>_<instance>`.
fn instance_of(holder: &str) -> &str {
    holder.rsplit_once('_').map_or(holder, |(_, instance)| instance)
}

/// Why a request for the Lease failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// Someone else has changed, created or deleted the Lease since this process last read or wrote it.
    #[error("the Lease has changed since this process read it")]
    Conflict,
    #[error("the Lease's namespace does not exist; create it, or set the operator's namespace with --namespace")]
    Missing,
    #[error("the API server did not respond in time")]
    Timeout,
    #[error("{}", explain(.0))]
    Other(Box<kube::Error>),
}

/// Why a renewal failed.
#[derive(Debug)]
enum RenewError {
    /// Another process, which the field names, holds the Lease, or has held it since the last renewal.
    Taken(String),
    Request(Failure),
}

impl From<Failure> for RenewError {
    fn from(failure: Failure) -> Self {
        Self::Request(failure)
    }
}

async fn request<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Failure::Conflict),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Failure::Missing),
        Ok(Err(error)) => Err(Failure::Other(Box::new(error))),
        Err(_) => Err(Failure::Timeout),
    }
}
