//! The operator as a process, before a real API server, with the real helm: what issue and manual promise, told as stories.
//!
//! Each story has a control plane for itself while it lasts (there may be one cloud per cluster), a namespace that no
//! other story has, and an operator under the rights that its chart ships. A story that fails prints what it left.

#![allow(dead_code, reason = "the harness offers what stories may need")]

mod cloud;
mod deletion;
mod dump;
mod helm;
mod install;
mod interrupted;
mod operator;
mod pool;
mod secrets;
mod steady;
mod world;
