//! A real Kubernetes control plane on this machine, without containers, for tests and the demo.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real programs, built from their
//! published Go modules ([`programs`]); kwok plays the kubelets; what it leaves out of their work, the waits before
//! a pod starts and its logs, is played by this crate. Everything listens on 127.0.0.1, several clusters run side by
//! side, and all of one cluster lies in one folder ([`Folder`]).
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
//! One supervisor process owns all programs of a cluster. It holds a pipe from its caller and ends everything when
//! that closes, which the kernel sees to even when the caller is killed; should the supervisor be killed, the kernel
//! kills the programs. A cluster that was brought up with [`Cluster::up`] (`cluster up`) has no such pipe and stays.
//!
//! # Waits
//!
//! A pod on a node is held until what a kubelet and OpenStack-Helm's `kubernetes-entrypoint` would wait for is there:
//! first its Secret and ConfigMap volumes, then every `DEPENDENCY_*` entry of its init containers, then the Secrets and
//! ConfigMaps of its environment. While it is held, two annotations say so: `kwok.osdpl.dev/waits-in` (`volumes`, `init`
//! or `config`) and `kwok.osdpl.dev/waits-for` (such as `service openstack/mariadb; job openstack/keystone-db-sync`),
//! and its status is what a real one's would be. `kwok.osdpl.dev/released=true` marks a pod that was let go.
//!
//! # Steering
//!
//! Pods behave by words: annotations or labels `kwok.osdpl.dev/WORD`, in a template (that is, through a chart's values)
//! or set on live pods, at any time. An annotation wins over a label. Durations are Go's (`1.5s`).
//!
//! | word | value | effect |
//! |---|---|---|
//! | `behaviour` | – | works: Ready, or (restart policy other than Always) completed, after 0.2 s |
//! | | `hang` | runs, and is never Ready or never ends |
//! | | `creating` | stays in `ContainerCreating` |
//! | | `image-pull-error` | stays in `ImagePullBackOff` |
//! | | `crash-loop`, `fail` | fails: with restart policy Never the pod is `Failed`, else it restarts in `CrashLoopBackOff`, the count going up |
//! | | `fail-once` | fails once, then works; by restart in place or, with restart policy Never, in the Job's next pod |
//! | `delay` | duration | runs this long before it is Ready or has ended |
//! | `ready` | `false` | runs and is not Ready; without the word it is Ready again |
//! | `restart-delay` | duration | between restarts; 2 s |
//! | `termination-delay` | duration | between deletion and end; none |
//! | `exit-code` | number | of a failing container; 1 |
//! | `message` | text (annotation) | termination message of a failing container |
//! | `log` | text (annotation) | what every container of the pod logs |
//!
//! On a node, `kwok.osdpl.dev/ready=false` makes it `NotReady`, and its pods with it.
//!
//! Pods that nobody can label beforehand, such as those of a chart's hook Jobs, are reached by fault rules ([`Rule`],
//! [`Cluster::behaviour`]): a ConfigMap `kwok-faults` in `kube-system` whose every key is a rule in YAML with
//! `namespace`, `name` (a prefix), `labels`, and the words above in camel case. Rules are on a pod before it is let go.
//!
//! Whole programs are killed, frozen and started again with [`Cluster::kill`], [`Cluster::freeze`],
//! [`Cluster::thaw`] and [`Cluster::restart`].

mod audit;
mod client;
mod cluster;
mod components;
mod digest;
mod error;
mod faults;
mod folder;
mod kubeconfig;
mod kubelet;
mod launch;
mod options;
mod pki;
mod ports;
mod process;
pub mod programs;
mod spec;
mod stages;
pub mod supervisor;
mod waits;

pub use audit::AuditEntry;
pub use cluster::Cluster;
pub use components::Component;
pub use error::Error;
pub use folder::Folder;
pub use options::{Audit, Node, OPENSTACK_LABELS, Options};
pub use ports::Ports;
pub use process::Process;
pub use programs::{Program, Programs};
pub use waits::rules::Rule;
