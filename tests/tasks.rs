//! Tests of the operator's tasks (`osdpl_operator::tasks`), which watch a real control plane.

#![allow(clippy::disallowed_methods, reason = "tests start programs and write files")]

#[path = "tasks/records.rs"]
mod records;
#[path = "tasks/workloads.rs"]
mod workloads;
#[path = "tasks/world.rs"]
mod world;
