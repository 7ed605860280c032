//! Checks of an `OpenStackDeployment` beyond the schema of its CRD: rules, which refuse or warn, and warnings about
//! overrides that likely do not have the intended effect.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod cloud;
mod evaluate;
mod facts;
mod field;
mod manifests;
mod overrides;
pub mod rule;
pub mod validate;

pub use evaluate::{Evaluation, Input};
