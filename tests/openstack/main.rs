//! Tests of a real cloud: a real kubelet, real containers and real OpenStack (`make test-real`).
//!
//! The tests use the cloud of the current kubeconfig as its operators and users do: with osdpl, with kubectl, and with
//! OpenStack's client in the pod of `features.client`. So they run on any cluster with real images. They run one after
//! the other. Each test prints what it has seen and measured.
//!
//! ```text
//! usable      a cloud that is Ready can be used
//! day_2       changes of a running cloud, while users use its APIs and an instance
//! directory   users in an LDAP directory log in
//! failures    pods or the node die
//! tls         TLS inside the cloud
//! volume      volumes keep their data, and services use new Ceph keys
//! migration   a maintenance moves an instance to another node while the instance runs
//! life_cycle  adoption, deletion and a second installation
//!
//! cloud       runs osdpl, kubectl and OpenStack's client
//! instance    an instance that serves HTTP
//! probe       sends requests to the APIs and the instance, and counts failures
//! ```

mod cloud;
mod day_2;
mod directory;
mod failures;
mod instance;
mod life_cycle;
mod migration;
mod probe;
mod tls;
mod usable;
mod volume;
