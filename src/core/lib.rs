//! Contains the domain logic of osdpl: the custom resources, the catalogue, the desired and the observed state, the
//! plan and the status.
//!
//! All functions of this crate are pure: they use no Kubernetes client, no async runtime and no clock. The only
//! exception is the module [`files`], which reads the catalogue's files.
//!
//! Terms in the comments of this crate, in addition to the glossary of the binary `osdpl`:
//!
//! * A *consumer* is an OpenStack service that stores data in Ceph.
//! * The *data plane* consists of the `DaemonSets` on which instances and their networks depend: Open vSwitch, OVN,
//!   libvirt and nova-compute.
//! * An *instance* is a virtual machine that Nova runs.
//! * The *key tree* of a chart contains the keys of its `values.yaml`, and the keys that its templates read.
//! * A *pending* record has helm's status `pending-install`, `pending-upgrade` or `pending-rollback`. If the helm
//!   process that wrote the record has died, osdpl *unlocks* the record, because helm would otherwise refuse every
//!   upgrade.
//! * A *plain* Job is a Job in a chart's manifest that is not a helm hook.
//! * A chart *splits* a `DaemonSet` if it creates several `DaemonSets` instead of one, because some values differ
//!   between nodes.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

pub mod adopt;
pub mod api;
pub mod catalog;
pub mod cause;
pub mod ceph;
pub mod credentials;
pub mod desired;
pub mod difference;
pub mod drift;
pub mod endpoint;
pub mod files;
pub mod finding;
pub mod health;
pub mod maintenance;
pub mod nodes;
pub mod observed;
pub mod openstack;
pub mod placeholder;
pub mod plan;
pub mod release;
pub mod rollout;
pub mod schema;
pub mod scrub;
pub mod status;
#[doc(hidden)]
pub mod testing;
