//! Prints the state of a failed test, so that a developer can find the cause without another run.

use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use kube::ResourceExt;
use kube::api::ListParams;

use crate::cloud::StatusAccess;
use crate::world::World;

/// The number of lines of the operator's log to print.
const LINES: usize = 60;

/// Prints to standard error: statuses, helm records, pods, events, the operator's writes, helm runs, and the end of the
/// operator's log.
pub async fn print(world: &World) {
    eprintln!("=== status of each OpenStackDeployment");
    for deployment in world.deployments().list(&ListParams::default()).await.into_iter().flatten() {
        let status = serde_json::to_value(deployment.status()).unwrap_or_default();
        eprintln!(
            "{} generation {:?}\n{}",
            deployment.name_any(),
            deployment.metadata.generation,
            osdpl_values::yaml::write(&status)
        );
    }
    eprintln!("=== release records");
    for secret in world.api::<Secret>().list(&ListParams::default().labels("owner=helm")).await.into_iter().flatten() {
        eprintln!("{} {:?}", secret.name_any(), secret.labels());
    }
    eprintln!("=== pods");
    for pod in world.api::<Pod>().list(&ListParams::default()).await.into_iter().flatten() {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let waits = pod.annotations().get("kwok.osdpl.dev/waits-for").cloned().unwrap_or_default();
        eprintln!("{} {phase} {waits}", pod.name_any());
    }
    eprintln!("=== events of OpenStackDeployments");
    for event in world.api::<Event>().list(&ListParams::default()).await.into_iter().flatten() {
        if event.involved_object.kind.as_deref() == Some("OpenStackDeployment") {
            eprintln!("{:?} {:?}", event.reason, event.message);
        }
    }
    eprintln!("=== writes of the operator and its helm processes");
    let writes = world.writes_since(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    for entry in writes.iter().filter(|entry| entry.namespace == world.namespace) {
        let agent = entry.user_agent.split('/').next().unwrap_or_default();
        let (verb, resource, subresource) = (&entry.verb, &entry.resource, &entry.subresource);
        eprintln!("{} {agent} {verb} {resource}/{subresource} {} {}", entry.received, entry.name, entry.code);
    }
    eprintln!("=== helm processes that operators of this test started");
    for run in world.helm_runs() {
        eprintln!("{} {}", run.pid, run.arguments.join(" "));
    }
    eprintln!("=== last {LINES} lines of the operator's log");
    let log = world.operator_log();
    let lines: Vec<&str> = log.lines().collect();
    eprintln!("{}", lines[lines.len().saturating_sub(LINES)..].join("\n"));
}
