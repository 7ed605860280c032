//! A real Kubernetes control plane on this machine, without containers, for tests and the demo.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real programs, built from their
//! published Go modules ([`programs`]). kwok simulates the kubelets. This crate simulates what kwok lacks: the waits
//! before a pod starts, and logs. All programs listen on 127.0.0.1. Several clusters can run at once. All files of a
//! cluster are in one folder ([`Folder`]).
//!
//! ```no_run
//! # async fn example() -> Result<(), cluster::Error> {
//! use cluster::{Audit, Cluster, Options, Program, Rule};
//!
//! let options = Options::default().with_programs(&[Program::Helm4]).with_audit(Audit::default());
//! let cluster = Cluster::start(options).await?;
//! cluster.behaviour("sync", &Rule::new("openstack", "glance-db-sync-", "fail-once")).await?;
//! let kubeconfig = cluster.kubeconfig_for("osdpl", "operator").await?;
//! # drop(kubeconfig);
//! # Ok(())
//! # }
//! ```
//!
//! One supervisor process starts and stops all programs of a cluster. Its standard input is a pipe from its caller.
//! When the pipe closes, the supervisor stops all programs. The kernel closes the pipe even if the caller is killed. If
//! the supervisor is killed, the kernel kills the programs. The supervisor that [`Cluster::up`] (`cluster up`) starts
//! has no such pipe, so its cluster keeps running when the caller exits.
//!
//! # Waits
//!
//! Before a pod starts, a real kubelet and OpenStack-Helm's `kubernetes-entrypoint` wait for objects that the pod
//! needs. The supervisor blocks a scheduled pod until the same objects are available. The supervisor checks the objects
//! in this order: the Secrets and ConfigMaps of the pod's volumes, the dependencies in the `DEPENDENCY_*` variables of
//! the pod's init containers, and the Secrets and ConfigMaps of the pod's environment variables.
//!
//! A blocked pod has the same status as a real waiting pod, and two annotations: `kwok.osdpl.dev/waits-in` (`volumes`,
//! `init` or `config`) and `kwok.osdpl.dev/waits-for` (such as `service openstack/mariadb; job
//! openstack/keystone-db-sync`). When all objects are available, the supervisor releases the pod: it sets the
//! annotation `kwok.osdpl.dev/released=true`.
//!
//! # Controlling pods
//!
//! Settings control the behaviour of a pod. A setting is an annotation or label `kwok.osdpl.dev/SETTING`. A pod
//! template can contain settings, and a test can change the settings of a running pod at any time. An annotation takes
//! precedence over a label. Durations are in Go's format (`1.5s`).
//!
//! | setting | value | effect |
//! |---|---|---|
//! | `behaviour` | not set | the pod works: it is Ready after 0.2 s, or completed if the restart policy is not Always |
//! | | `hang` | the pod runs, but never becomes Ready and never completes |
//! | | `creating` | the pod stays in `ContainerCreating` |
//! | | `image-pull-error` | the pod stays in `ImagePullBackOff` |
//! | | `crash-loop`, `fail` | a container fails: with restart policy Never the pod is `Failed`, otherwise it restarts in `CrashLoopBackOff` with an increasing count |
//! | | `fail-once` | a container fails once and works after its restart; with restart policy Never, the Job's next pod works |
//! | `delay` | duration | the pod runs this long before it is Ready or completes |
//! | `ready` | `false` | the pod runs, but is not Ready. When the setting is removed, the pod is Ready again |
//! | `restart-delay` | duration | time from failure to restart; the default is 2 s, or 0.5 s if the next run works |
//! | `termination-delay` | duration | time between the deletion request and the end of the pod; the default is 0 s |
//! | `digest` | `sha256:…` (annotation) | digest of the images that a starting pod runs; the default is a digest of the image's name |
//! | `exit-code` | number | exit code of a failing container; the default is 1 |
//! | `message` | text (annotation) | termination message of a failing container |
//! | `log` | text (annotation) | log of every container of the pod |
//!
//! The label `kwok.osdpl.dev/ready=false` on a node makes the node and its pods `NotReady`.
//!
//! Fault rules ([`Rule`], [`Cluster::behaviour`]) control pods that a test can't label in advance, such as the pods of
//! a chart's hook Jobs. The ConfigMap `kwok-faults` in `kube-system` contains the rules. The value of each key is a
//! rule in YAML with `namespace`, `name` (a prefix), `labels`, and the settings of the table in camel case. The
//! supervisor applies the rules to a pod before it releases the pod.
//!
//! Tests can also kill, freeze and restart the programs of the control plane: see [`Cluster::kill`],
//! [`Cluster::freeze`], [`Cluster::thaw`] and [`Cluster::restart`].

mod audit;
mod client;
mod cluster;
mod components;
mod digest;
mod error;
mod faults;
mod folder;
mod input;
mod kubeconfig;
mod kubelet;
mod launch;
mod options;
mod pki;
mod ports;
mod process;
pub mod programs;
pub mod real;
mod spec;
mod stages;
pub mod supervisor;
mod waits;

pub use audit::AuditEntry;
pub use cluster::Cluster;
pub use components::Component;
pub use error::Error;
pub use folder::Folder;
pub use input::output_with_input;
pub use options::{Audit, Node, OPENSTACK_LABELS, Options};
pub use ports::Ports;
pub use process::Process;
pub use programs::{Program, Programs};
pub use waits::rules::Rule;
