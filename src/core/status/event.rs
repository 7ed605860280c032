//! Defines the Kubernetes Events about an `OpenStackDeployment`.

use crate::credentials::RestoredSecret;
use crate::nodes::format_names;
use crate::openstack::DeletedHost;

/// A Kubernetes Event about the `OpenStackDeployment`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether the type of the event is `Warning`; if false, it is `Normal`.
    pub warning: bool,
    /// The field `reason` of the event. osdpl uses only a fixed set of reasons.
    pub reason: &'static str,
    /// The message of the event: one line of at most 1,000 bytes.
    pub note: String,
    /// The object or field that the event is about. Without a subject, Kubernetes would merge events with the same
    /// reason into one.
    pub subject: Option<Subject>,
}

/// The object or field that an event is about, in addition to the `OpenStackDeployment`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A release, by its name in the catalogue.
    Release(String),
    /// A Secret in the namespace of the `OpenStackDeployment`, by name.
    Secret(String),
    /// A field of the `OpenStackDeployment`, by path.
    Field(String),
    /// An object in the cluster.
    Object {
        /// The kind of the object, such as `Deployment`.
        kind: String,
        /// The name of the object.
        name: String,
    },
}

/// Returns the event that reports restored credentials in a Secret. The operator publishes the event after it has
/// written the Secret.
pub fn credential_restored_event(restored: &RestoredSecret) -> Event {
    let about = Some(Subject::Secret(restored.secret.clone()));
    Event { subject: about, ..event(true, "CredentialRestored", restored.to_string()) }
}

/// Returns the event that reports new compute hosts in Nova, and the Job `job` that maps them to a cell. `count` is the
/// number of hosts.
pub fn mapping_hosts_event<'a>(hosts: impl Iterator<Item = &'a str>, count: usize, job: &str) -> Event {
    let names = format_names(hosts, count);
    let about = Some(Subject::Object { kind: "Job".into(), name: job.into() });
    Event {
        subject: about,
        ..event(false, "MappingHosts", format!("Job {job} maps new compute hosts into their cell: {names}"))
    }
}

/// Returns the event about a host that osdpl deleted from Nova and Neutron. The host's node had left the cluster.
pub fn host_deleted_event(node: &str, found: &DeletedHost) -> Event {
    let DeletedHost { host, agents } = found;
    let message = format!("osdpl deleted host {host}: its nova-compute service and {agents} Neutron agents");
    Event {
        subject: Some(Subject::Object { kind: "Node".into(), name: node.into() }),
        ..event(false, "HostForgotten", message)
    }
}

/// Returns the event about a host that osdpl could not delete from Nova and Neutron. The host's node had left the
/// cluster.
pub fn host_not_deleted_event(node: &str, why: &str) -> Event {
    let message = format!("osdpl did not delete the host of node {node} from Nova and Neutron: {why}");
    Event {
        subject: Some(Subject::Object { kind: "Node".into(), name: node.into() }),
        ..event(true, "HostNotForgotten", message)
    }
}

/// Returns the event about the node labels and objects in `kept`. osdpl kept them when it deleted a cloud, because pods
/// of `releases`, which osdpl does not manage, may need them.
pub fn retained_event(releases: &[String], kept: &[String]) -> Event {
    let (releases, kept) = (releases.join(", "), kept.join(", "));
    let note = format!(
        "osdpl kept the unmanaged releases {releases} and everything that their pods may need: {kept}; to remove these labels and objects later, see \"Delete a cloud\" in the guide's page on day 2"
    );
    event(false, "Retained", note)
}

/// Creates an event without a subject, and cuts off the end of a note that is too long.
pub(super) fn event(warning: bool, reason: &'static str, mut note: String) -> Event {
    // The API server (`events.k8s.io`) refuses notes longer than 1 kB.
    if note.len() > 1000 {
        let end = (0..=997).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
        note.truncate(end);
        note.push('…');
    }
    Event { warning, reason, note, subject: None }
}
