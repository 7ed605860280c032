//! Tests of the control plane that this crate starts. The tests run its real processes: etcd, the API server and so on.

#[path = "real/help.rs"]
mod help;

#[path = "real/audit.rs"]
mod audit;
#[path = "real/existing.rs"]
mod existing;
#[path = "real/faults.rs"]
mod faults;
#[path = "real/lifecycle.rs"]
mod lifecycle;
#[path = "real/nodes.rs"]
mod nodes;
#[path = "real/programs.rs"]
mod programs;
#[path = "real/settings.rs"]
mod settings;
#[path = "real/waits.rs"]
mod waits;
