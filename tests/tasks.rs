//! What the tasks see on a real control plane.

#[path = "tasks/records.rs"]
mod records;
#[path = "tasks/workloads.rs"]
mod workloads;
#[path = "tasks/world.rs"]
mod world;
