//! Writes each version of the status of each OpenStackDeployment and NodeMaintenance into a file, so that the check at
//! the end of a test can also search the messages that the operator has overwritten.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher as watch};
use kube::{Api, Client, ResourceExt};
use osdpl_core::api::{NodeMaintenance, OpenStackDeployment};
use tokio::task::JoinHandle;

use super::places::is_kind_gone;
use crate::world::{is_of, with_timeout};

/// The newest resource version of each object of one kind. The key is the object's namespace and name.
type Versions = BTreeMap<(Option<String>, String), Option<String>>;

/// Watches the OpenStackDeployments and NodeMaintenances of a test until this value is dropped.
pub struct Statuses {
    namespace: String,
    kinds: Vec<(Api<DynamicObject>, Arc<Mutex<Versions>>)>,
    tasks: Vec<JoinHandle<()>>,
}

impl Statuses {
    /// Starts to write the statuses of the test with this namespace into a file.
    pub fn watch(client: &Client, namespace: &str, file: &Path) -> Self {
        let resources = [ApiResource::erase::<OpenStackDeployment>(&()), ApiResource::erase::<NodeMaintenance>(&())];
        let (mut kinds, mut tasks) = (Vec::new(), Vec::new());
        for resource in resources {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let seen = Arc::<Mutex<Versions>>::default();
            let recorder = Recorder { namespace: namespace.to_owned(), file: file.to_owned(), seen: Arc::clone(&seen) };
            tasks.push(tokio::spawn(recorder.run(api.clone())));
            kinds.push((api, seen));
        }
        Self { namespace: namespace.to_owned(), kinds, tasks }
    }

    /// Waits until the file contains the statuses of all versions so far.
    pub async fn until_complete(&self) {
        for (api, seen) in &self.kinds {
            // A watch does not report that it has returned all versions. But it returns them in order, so wait for the
            // newest version of each object.
            let complete = async {
                while self.versions(api).await.is_some_and(|present| present != *seen.lock().unwrap()) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            with_timeout("the collector has seen all statuses", complete).await;
        }
    }

    /// Returns the present version of each object of the test; `None` if the test has deleted the CRD of the kind.
    async fn versions(&self, api: &Api<DynamicObject>) -> Option<Versions> {
        let objects = match api.list_metadata(&ListParams::default()).await {
            Err(error) if is_kind_gone(&error) => return None,
            objects => objects.unwrap(),
        };
        let objects = objects.items.into_iter().filter(|object| is_searched(&self.namespace, object.namespace()));
        Some(objects.map(|object| ((object.namespace(), object.name_any()), object.resource_version())).collect())
    }
}

impl Drop for Statuses {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Whether an object belongs to the test with the namespace `own`. Only one test at a time uses a cluster, so every
/// cluster-scoped object belongs to this test.
fn is_searched(own: &str, namespace: Option<String>) -> bool {
    namespace.is_none_or(|namespace| is_of(own, &namespace))
}

/// Records the statuses of all objects of one kind.
struct Recorder {
    namespace: String,
    file: PathBuf,
    seen: Arc<Mutex<Versions>>,
}

impl Recorder {
    /// Watches the objects of the kind. The watch continues after an error, such as a restart of the API server.
    async fn run(self, api: Api<DynamicObject>) {
        let mut events = pin!(watch(api, watcher::Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.seen.lock().unwrap().clear(),
                Ok(Event::InitApply(object) | Event::Apply(object)) => self.note(&object, false),
                Ok(Event::Delete(object)) => self.note(&object, true),
                Ok(Event::InitDone) | Err(_) => {}
            }
        }
    }

    fn note(&self, object: &DynamicObject, is_deleted: bool) {
        if !is_searched(&self.namespace, object.namespace()) {
            return;
        }
        append(&self.file, &format!("{} {}\n", object.name_any(), object.data["status"]));
        let (id, mut seen) = ((object.namespace(), object.name_any()), self.seen.lock().unwrap());
        if is_deleted {
            seen.remove(&id);
        } else {
            seen.insert(id, object.resource_version());
        }
    }
}

fn append(file: &Path, text: &str) {
    let file = File::options().create(true).append(true).open(file);
    // Ignore errors: the folder of a test that has ended may be deleted.
    drop(file.and_then(|mut file| file.write_all(text.as_bytes())));
}
