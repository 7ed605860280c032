//! Adoption of releases that osdpl did not install: how they compare with the desired state, and the spec that
//! describes such a cloud.
//!
//! Pure module (no I/O). A revision made by hand, by Ansible or by another operator is as good as one made by osdpl if
//! an upgrade would change nothing: the same chart, and the same values once the chart's defaults are added. The
//! notation of values does not matter to templates, nor whether a default is written out.

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
