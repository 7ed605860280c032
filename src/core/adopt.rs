//! Releases that someone else made: how they stand to what is wanted, and the spec that describes a cloud of them.
//!
//! Pure room. A revision that was made by hand, by Ansible or by another operator is as good as one of ours when an upgrade of ours would change
//! nothing: the same chart, and the same values once the chart's defaults are below them. How the values are spelt, and which of them are the chart's
//! own defaults, makes no difference to a template.

mod candidates;
mod ceph;
mod compare;
mod describe;
mod fit;
mod found;
mod openstack;
mod owner;
mod residue;
mod shipped;

pub use ceph::{Answers, Storage, Use, Uses, uses};
pub use compare::{Compared, compare};
pub use describe::{Cloud, Content, Description, Invent, Secrets};
pub use found::{Found, Known, home, known};
pub use owner::owner;
pub use residue::{Residue, residue};
pub use shipped::{Shipped, shipped};

#[cfg(test)]
mod tests;
