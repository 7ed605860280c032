//! osdpl: a Kubernetes operator that runs OpenStack from the upstream, unmodified OpenStack-Helm charts.
//!
//! This page is the map of the workspace. The binary parses the command line and exits; everything else is in crates
//! below `src/`. Cargo enforces that a crate uses only the crates before it.
//!
//! | crate | contents | I/O |
//! |---|---|---|
//! | `osdpl-values` | trees of values and helm's merge, YAML, CEL expressions | no |
//! | `osdpl-core` | the custom resources, the catalogue, the desired and the observed state, the plan of each release, the status | only the loader of the catalogue's files |
//! | `osdpl-lint` | checks of a resource: refusals, and warnings about values that likely have no effect | no |
//! | `osdpl-decide` | one reconcile pass as a pure function: a snapshot of the cluster in, a plan out | no |
//! | `osdpl-operator` | watches, reads and writes of the API server, the helm runner, charts, the webhook, metrics, node maintenance | yes |
//! | `osdpl-cli` | the subcommands, and the reference documentation of the catalogue | yes |
//!
//! # A reconcile pass
//!
//! ```text
//! read(requests) ─► Snapshot ─► decide ─► Plan ─► apply(actions) ─► Outcome ─► report ─► status, events, metrics
//!        ▲                                 │
//!        └──── requests of the last plan ──┘
//! ```
//!
//! * `read` collects what the watches have cached and what the last plan requested. It cannot write.
//! * `decide` is pure. Within it, `select` and `resolve` turn the spec, the catalogue and the facts into the desired
//!   releases; the state table in `osdpl_core::plan` turns each release's state into its next step; the same plan
//!   contains every other write: credentials, external Services, Ceph objects, node labels, evictions, annotations.
//! * `apply` executes the actions in a fixed order. It starts helm and returns; it never waits for helm.
//! * `report` computes the status from the snapshot, the plan and the outcome.
//!
//! A pass is short and level-triggered. The end of a helm process, a release record, a workload, a Secret, a node or the
//! resource itself triggers the next one. Deletion is the same pipeline with an empty desired state. Helm's release
//! records are the journal: their labels name the inputs, the catalogue and the attempt of each revision, so that a
//! restarted operator continues where the last one stopped.
//!
//! # Where a change belongs
//!
//! * A service, preset, feature or OpenStack release: YAML in `values/` and `presets/`; no Rust.
//! * A check of user input: `osdpl-lint`. A new fact from the cluster: a field of the snapshot, filled by `read`.
//! * A new kind of write: an action in `osdpl-decide`, executed by `apply` in `osdpl-operator`.
//! * A subcommand: a file in `osdpl-cli`.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | action | a write that a plan contains, with its reason and whether it needs approval |
//! | addition | a ConfigMap that adds services, presets or features to the catalogue |
//! | adoption | taking over a helm release that someone else installed, by labelling its record |
//! | approval | the annotation with which a person agrees to a target hash |
//! | attempt | one run of helm by one operator process; a label on the release record names it |
//! | catalogue | the YAML files in `values/` and `presets/` |
//! | cleanup | removing the objects that failed revisions of a release left behind |
//! | component | an application and component label pair of workloads, such as `keystone/api` |
//! | credential | a password or key that osdpl generates once, or that the user provides in a Secret |
//! | desired state | the releases that a spec resolves to, each with its values and needs |
//! | detach | removing osdpl's labels from all releases, so that the cloud continues without osdpl |
//! | drift | a change that someone made to an object of a release outside of helm |
//! | external service | a service that runs outside of the cluster, published under a Service of osdpl |
//! | fact | information from outside that values depend on: credentials, Ceph, charts, Secrets |
//! | feature | a switch of the spec with a schema; it sets values in many releases |
//! | finding | an error, warning or note about a resource, with its location and remedy |
//! | fragment | a set of values in the catalogue with an optional condition |
//! | group | `infra` or `openstack`; values can be set for all releases of a group |
//! | inputs | the chart, values and flags of a release; their digest is a label on the record |
//! | layer | one source of values; later layers override earlier ones |
//! | need | a component that must be available before a release is installed |
//! | observed state | the release records, workloads, Jobs, nodes and helm processes of a snapshot |
//! | outcome | the result of each action that was applied |
//! | placeholder | a value that stands for a fact that is not available offline |
//! | plan | the result of `decide`: actions, the step of each release, findings, requests |
//! | policy | what the spec and its annotations allow in a pass: approval, pause, adoption, deletion |
//! | preset | a named set of services, features and sizes |
//! | provenance | the layer, file and line that a value comes from |
//! | record | the Secret in which helm stores one revision of a release |
//! | release | one helm release; a service has one or more |
//! | request | information that a plan needs and that the next snapshot contains |
//! | rollout | the replacement of data plane pods in batches, after approval |
//! | root cause | the object at the end of the chain that a component waits for |
//! | service | an OpenStack or infrastructure service of the catalogue |
//! | snapshot | everything that one pass has read |
//! | step | the decision about one release: run helm, wait, settle, or nothing |
//! | target hash | identifies the desired inputs of all releases; an approval names it |
//! | unmanage | removing osdpl's labels from one release (`managed: false`) |

fn main() -> std::process::ExitCode {
    osdpl_cli::main()
}
