//! Tests the operator's tasks, which watch the cluster, on a real control plane.

#![allow(clippy::disallowed_methods, reason = "tests start programs and write files")]

#[path = "tasks/operator_pods.rs"]
mod operator_pods;
#[path = "tasks/records.rs"]
mod records;
#[path = "tasks/workloads.rs"]
mod workloads;
#[path = "tasks/world.rs"]
mod world;
