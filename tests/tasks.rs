//! The tasks on a real control plane.

#![allow(clippy::disallowed_methods, reason = "tests start programs and write files")]

#[path = "tasks/fence.rs"]
mod fence;
#[path = "tasks/records.rs"]
mod records;
#[path = "tasks/workloads.rs"]
mod workloads;
#[path = "tasks/world.rs"]
mod world;
