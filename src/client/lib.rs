//! Contains the code that all controllers share:
//!
//! * a function that runs a controller, and a function that builds the runtimes of threads
//! * time limits and retries for requests to the API server, and the errors of these requests
//! * the namespaces in which the operator has rights
//! * a wrapper for resources that osdpl may be unable to parse
//! * a function that lists metadata page by page
//! * an HTTP client, a resolver of host names, and requests to Services through the API server

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod controller;
mod error;
mod http;
mod pages;
mod requests;
mod resolve;
mod runtime;
mod scope;
mod service;
mod stored;

pub use controller::run_controller;
pub use error::{Error, ErrorContext, api_message, describe_failure, explain, explain_as_operator, refusal};
pub use http::{Http, HttpConfig, Permit, TOKEN_HEADER, method};
pub use pages::list_metadata;
pub use requests::{Bounds, Buffers, Check, REQUEST_TIMEOUT, bounded, connect};
pub use resolve::resolve;
pub use runtime::runtime;
pub use scope::Scope;
pub use service::send_to_service;
pub use stored::Stored;
