//! What amphorae need, made by the catalogue's own program: the one of the resolved values, with OpenStack's own libraries, before a real API
//! server under the rights that come with it. OpenStack is played.

mod api;
mod openstack;
mod program;
mod stories;
