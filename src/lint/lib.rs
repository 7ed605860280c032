//! Checks of an `OpenStackDeployment` beyond the schema of its CRD: rules that refuse, and warnings about values that likely do not do what is meant.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod evaluate;
mod facts;
pub mod hazard;
pub mod rule;

pub use evaluate::{Evaluation, Input};
