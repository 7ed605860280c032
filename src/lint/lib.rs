//! Checks an `OpenStackDeployment`. Rules refuse a spec or warn about it. Other checks warn about overrides that likely
//! do not have the intended effect.
//!
//! For files that are not applied yet, the module `validate` also checks the schema and the CEL rules of the CRD, as
//! the API server would do.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod cloud;
mod evaluate;
mod facts;
mod field;
mod manifests;
mod overrides;
pub mod rule;
pub mod validate;

pub use evaluate::{Evaluation, Input};
pub use overrides::{OptionProblem, find_option_problems};
