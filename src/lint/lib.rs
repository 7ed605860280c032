//! Checks of an `OpenStackDeployment`: rules that refuse a spec or warn about it, and warnings about overrides that
//! likely do not have the intended effect.
//!
//! The module `validate` adds what the API server would check, the schema and the CEL rules of the CRD, for files that
//! are not applied yet.

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
