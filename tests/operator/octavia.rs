//! The resources for amphorae, created by the catalogue's own program: from the resolved values, with OpenStack's own
//! libraries, and with the rights of its release on a real API server. OpenStack is simulated.

mod api;
mod openstack;
mod program;
mod tests;
