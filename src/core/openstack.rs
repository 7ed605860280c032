//! What is said to the cloud's own APIs, and what their answers mean.
//!
//! ```text
//! access   where they are, and as whom they are asked: out of what is wanted
//! call     a request as data, with the way its answer is read
//! nova     compute services, instances, migrations, hypervisors (microversion 2.53)
//! neutron  agents
//! hosts    which of Nova's hosts are new, and which have lost their node
//! error    what can go wrong, with what to do about it
//! ```
//!
//! Pure room: [`osdpl_operator::http::Cloud`] carries the calls. Neither the password nor a token is part of a call, an error or anything's `Debug`.

mod access;
mod call;
mod error;
mod hosts;
pub mod neutron;
pub mod nova;
mod token;

pub use access::{Access, access, has_nova};
pub use call::{Api, Call, Verb};
pub use error::{Error, said};
pub use hosts::{Answer, Forgotten, Heard, Hosts, Mapping, Next, Question, next};
pub use token::expiry;

#[cfg(test)]
mod tests;
