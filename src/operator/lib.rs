//! The operator: its passes, its watches and writes, the helm runner, the chart store, the webhook and the metrics.
//!
//! Terms in the comments of this crate:
//!
//! * A *pass* is one reconcile of an `OpenStackDeployment` (the *resource*). It reads a *snapshot*, makes a *plan*,
//!   applies the plan and reports.
//! * An *addition* is a `ConfigMap` that adds files to the catalogue.
//! * The *facts* are the data from the cluster that the values of releases depend on, such as credentials.
//! * The *inputs* of a release are everything that its upgrade depends on. A label of the release record contains their
//!   digest.
//! * An *attempt* is one run of helm. A label of the release record names the attempt and its operator process.
//! * A *standby* is an operator process that does not hold the Lease. It writes nothing.
//! * The *scrubber* removes secrets from logs and messages.

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
