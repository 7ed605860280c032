//! What controllers say of an object in events: asked for where it waits without a word, as all events of a cluster are far too many to watch.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::watch;

use osdpl_core::scrub::Scrubber;

/// How many events are asked for; of one object and reason there are few, as equal ones are counted in one.
const MOST: u32 = 50;

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    /// The kind of object, as events call it.
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Subject {
    /// Why a claim waits is a provisioner's word, why pods are missing that of Kubernetes' own controllers.
    fn reason(&self) -> &'static str {
        if self.kind == CLAIM { "ProvisioningFailed" } else { "FailedCreate" }
    }
}

/// The kind of volume claims.
pub(super) const CLAIM: &str = "PersistentVolumeClaim";

/// What was said last, scrubbed; `None` where nothing was, or it may not be read.
pub(super) struct Heard {
    pub(super) subject: Subject,
    pub(super) said: Option<String>,
}

/// Asks. That it can't be had is no failure: it only tells more.
pub(super) async fn ask(client: Client, scrubber: watch::Receiver<Arc<Scrubber>>, subject: Subject) -> Heard {
    let api: Api<Event> = Api::namespaced(client, &subject.namespace);
    let Subject { kind, name, .. } = &subject;
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name},reason={}", subject.reason());
    let said = match api.list(&ListParams::default().fields(&fields).limit(MOST)).await {
        Ok(events) => {
            let newest = events.items.into_iter().max_by_key(|event| {
                let last = event.last_timestamp.as_ref().map(|time| time.0);
                last.or_else(|| event.event_time.as_ref().map(|time| time.0))
            });
            newest.and_then(|event| event.message).map(|message| scrubber.borrow().scrub(&message))
        }
        Err(error) => {
            tracing::debug!(name, %error, "what is said of an object cannot be read");
            None
        }
    };
    Heard { subject, said }
}
