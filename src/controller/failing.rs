//! Passes that fail, told where people look.

use std::sync::atomic::Ordering;

use super::{Context, now};
use crate::api::OpenStackDeployment;
use crate::cluster::Error;

impl Context {
    /// Has the status say that passes fail, from the second in a row on: a pass that fails ends before it writes what it found, and the status of
    /// the one before, green or not, would stand for ever. The next that does not fail writes its own.
    pub(super) async fn tell_failure(&self, deployment: &OpenStackDeployment, error: Option<&Error>) {
        let Some(error) = error else {
            self.failed.store(0, Ordering::Relaxed);
            return;
        };
        // One is nothing yet: an object was changed meanwhile, or the API server restarts.
        if self.failed.fetch_add(1, Ordering::Relaxed) == 0 {
            return;
        }
        let problem = self.scrubber.borrow().scrub(&error.to_string());
        let generation = deployment.metadata.generation.unwrap_or_default();
        let (status, events) = crate::status::failing(deployment.status.as_ref(), generation, &problem, now());
        if let Err(error) = self.cluster.publish(deployment, status, events).await {
            tracing::warn!(%error, "the status can't tell that passes fail");
        }
    }
}
