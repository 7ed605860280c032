//! The operator: its passes, its watches and writes, the helm runner, the chart store, the webhook and the metrics.
//!
//! The documentation of the binary `osdpl` contains the glossary.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

pub mod charts;
mod clock;
pub mod cluster;
pub mod controller;
pub mod helm;
pub mod lease;
mod maintenance;
pub mod probe_thread;
mod server;
pub mod tasks;
pub mod telemetry;
pub mod web;
pub mod webhook;
