//! Fetches the Kubernetes events in which controllers explain why an object is not ready.
//!
//! A cluster has too many events to watch them all. So the health task queries events only about objects that wait
//! although no watched object shows a reason.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::watch;

use osdpl_core::scrub::Scrubber;

/// The maximum number of events per query. Each query asks for the events about one object with a certain `reason`. An
/// object has few of these events, because Kubernetes stores equal events as one Event object with a counter.
const LIMIT: u32 = 50;

/// An object that waits although no watched object shows a reason. The health task fetches events about the object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    /// The kind of the object, such as `Job`. Events contain the kind in `involvedObject.kind`.
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Subject {
    /// Returns the value of the field `reason` in the events that explain why the object waits.
    ///
    /// The provisioner creates the events about a volume claim. A controller of Kubernetes creates the events about any
    /// other object.
    fn reason(&self) -> &'static str {
        if self.kind == CLAIM { "ProvisioningFailed" } else { "FailedCreate" }
    }
}

/// The value of `involvedObject.kind` in events about volume claims.
pub(super) const CLAIM: &str = "PersistentVolumeClaim";

/// The message, without secrets, of the latest event that explains why an object waits.
///
/// `message` is `None` if the object has no such event, or the operator could not read the events.
pub(super) struct EventMessage {
    pub(super) subject: Subject,
    pub(super) message: Option<String>,
}

/// Fetches the message of the latest event that explains why an object waits.
///
/// If the request fails, the function only logs the error: the health task can report the object without this message.
pub(super) async fn fetch_event(
    client: Client,
    scrubber: watch::Receiver<Arc<Scrubber>>,
    subject: Subject,
) -> EventMessage {
    let api: Api<Event> = Api::namespaced(client, &subject.namespace);
    let Subject { kind, name, .. } = &subject;
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name},reason={}", subject.reason());
    let message = match api.list(&ListParams::default().fields(&fields).limit(LIMIT)).await {
        Ok(events) => {
            let newest = events.items.into_iter().max_by_key(|event| {
                let last = event.last_timestamp.as_ref().map(|time| time.0);
                last.or_else(|| event.event_time.as_ref().map(|time| time.0))
            });
            newest.and_then(|event| event.message).map(|message| scrubber.borrow().scrub_output(&message))
        }
        Err(error) => {
            tracing::debug!(name, %error, "cannot read the events of an object");
            None
        }
    };
    EventMessage { subject, message }
}
