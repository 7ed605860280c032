//! Asks Nova whether a cloud that is being deleted still has instances.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::problems::Problems;
use super::{Spawner, publish};
use osdpl_client::HttpConfig;
use osdpl_core::openstack::{Access, InstanceObservation};
use osdpl_maintenance::OpenStackClient;

/// The pause before the task repeats the query. The task must poll, because no watch reports that a user has deleted
/// the last instance.
const PAUSE: Duration = Duration::from_secs(5);

/// Starts the task that asks Nova for instances, unless access to the OpenStack APIs is disabled.
///
/// Returns the sender of the URL and credentials with which the task queries Nova, and the receiver of Nova's
/// responses.
pub(super) fn spawn(
    spawner: &mut Spawner,
    api_access: Option<&HttpConfig>,
    problems: &Problems,
    trigger: &Arc<Notify>,
) -> (watch::Sender<Option<Access>>, watch::Receiver<Option<Arc<InstanceObservation>>>) {
    let (access, queries) = watch::channel(None);
    let (sender, observations) = watch::channel(None);
    if let Some(config) = api_access.cloned() {
        let trigger = Arc::clone(trigger);
        spawner.spawn("instances", problems, move || {
            run(OpenStackClient::new(config.clone()), queries.clone(), sender.clone(), Arc::clone(&trigger))
        });
    }
    (access, observations)
}

async fn run(
    client: OpenStackClient,
    mut queries: watch::Receiver<Option<Access>>,
    sender: watch::Sender<Option<Arc<InstanceObservation>>>,
    trigger: Arc<Notify>,
) {
    loop {
        let access = queries.borrow_and_update().clone();
        let is_asking = access.is_some();
        let observation = match access {
            None => None,
            Some(access) => {
                let found = client.find_instance(&access).await.map_err(|error| error.to_string());
                Some(Arc::new(InstanceObservation { access, found }))
            }
        };
        publish(observation, &sender, &trigger);
        tokio::select! {
            changed = queries.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(PAUSE), if is_asking => {}
        }
    }
}
