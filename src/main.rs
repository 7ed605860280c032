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
//! | `osdpl-decide` | the decision of a pass: from a snapshot of the cluster to a plan of every action | no |
//! | `osdpl-client` | what all controllers share: errors of the API server, the run of a controller, an HTTP client | yes |
//! | `osdpl-maintenance` | the controller of NodeMaintenance resources, and the client of the OpenStack APIs; its module `decide` is pure | yes |
//! | `osdpl-operator` | watches, reads and writes of the API server, the helm runner, charts, the webhook, metrics | yes |
//! | `osdpl-cli` | the subcommands, and the reference documentation of the catalogue | yes |
//!
//! # A reconcile pass
//!
//! ```text
//! watches, responses to reads ─► read ─► Snapshot ─► decide ─► Plan ─► apply ─► report ─► status, events, metrics
//!                                  ▲                            │
//!                                  └─ subscribe: requests, kept ┘
//! ```
//!
//! * `read` (`osdpl_operator::controller`) collects a `Snapshot`: the objects that the watches have cached, and the
//!   responses to the reads that the last plan requested. One-off reads go through a `Reader`, which has no write
//!   methods.
//! * `decide` (`osdpl_decide`) is a pure function. It resolves the spec, the catalogue and the facts into desired
//!   releases (`osdpl_core::desired`), takes the next step of each release from a state table (`osdpl_core::plan`), and
//!   lists every action with its reason: our objects, namespaces, CRDs of charts, node labels, Jobs to delete, helm
//!   runs, adoptions, rollouts, hosts to forget, annotations to consume. If it needs more data, the plan requests it
//!   and the next pass has it.
//! * `subscribe` hands the plan's requests to the watches and tasks, so that the next snapshot has the data.
//! * `apply` executes the actions and starts helm; it never waits for helm. It hands the deletion of hosts in Nova and
//!   Neutron to a task, because it takes many attempts; the next snapshot has the result. Within the passes of a cloud
//!   nothing else writes, except for helm, the report and the hosts task; maintenance and the command line write on
//!   their own.
//! * `report` computes the status (`osdpl_core::status`) and writes it (`Context::publish`). A pass that failed has no
//!   plan; if passes keep failing, the status reports the error instead (`controller::pass_failures`).
//!
//! `osdpl plan` prints the same plan: it repeats `read` and `decide` until nothing is requested. The deletion of the
//! resource is the same pass with nothing desired. The plan of a paused cloud has no actions, except for the finalizer
//! and for adoptions that a person requested. The plan for a refused spec has no actions except for the finalizer and
//! the Endpoints of external hosts; a deletion does not depend on the spec being valid.
//!
//! A pass is short and level-triggered. The end of a helm process, a release record, a workload, a Secret, a node or
//! the resource itself triggers the next one. Helm's release records are the journal: their labels name the inputs, the
//! catalogue and the attempt of each revision, so that a restarted operator continues where the last one stopped.
//!
//! # Where a change belongs
//!
//! * A service, preset, feature or OpenStack release: YAML in `values/` and `presets/`; no Rust. CONTRIBUTING lists the
//!   files. A service whose chart grants rights also needs `deploy/osdpl/rbac/`.
//! * A check of user input: the catalogue's own `checks:` if it concerns one service, preset or feature;
//!   `values/rules.yaml` and `values/couplings.yaml` for values of releases, without Rust; CEL rules of the CRD
//!   (`osdpl_core::api`) if the API server can check it; else `osdpl-lint`: a function called from `rule::check` and an
//!   entry in `RULES`; checks of overrides in `lint/overrides`, of files in `lint/validate`.
//! * A new fact from the cluster: a field of `Snapshot`, filled by `read` from a watch in `operator/tasks`, or from a
//!   `Read` that `cluster/reads.rs` executes; and `controller::preview` for `osdpl plan`.
//! * A new step of a release: the state table in `osdpl_core::plan`. Any other new write: an `Action` in `osdpl-decide`
//!   (with `Display`, `object` and `id`), executed in `Context::execute`, with rights in
//!   `deploy/osdpl/templates/clusterrole.yaml`.
//! * A step of a node's maintenance: `decide` in `osdpl-maintenance`, and `MaintenanceStep` in `osdpl_core::api` (then
//!   `sh crds/generate`). A request to Nova or Neutron: `osdpl_core::openstack`, sent by the client in
//!   `osdpl-maintenance`. If the maintenance needs something else from the operator: a method of the trait
//!   `osdpl_maintenance::Operator`.
//! * A subcommand: a module of `osdpl-cli`, a variant of `Command` and an arm of `run` in its `lib.rs`.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | addition | a ConfigMap that adds services, presets or features to the catalogue |
//! | action | one write; the plan adds its reason and whether it needs approval (`Planned`) |
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
//! | observed state | the release records, workloads, Jobs, root causes and helm processes of a pass |
//! | placeholder | a value that stands for a fact that is not available offline |
//! | plan | every action of a pass, the step of each release, and requests for the next pass |
//! | policy | what the spec and its annotations allow in a pass: approval, pause, adoption, deletion |
//! | preset | a named set of services, features and sizes |
//! | provenance | the layer, file and line that a value comes from |
//! | record | the Secret in which helm stores one revision of a release |
//! | release | one helm release; a service has one or more |
//! | request | an object, chart or record that a plan needs and the next snapshot has |
//! | rollout | the replacement of data plane pods in batches, after approval |
//! | root cause | the object at the end of the chain that a component waits for |
//! | service | an OpenStack or infrastructure service of the catalogue |
//! | snapshot | everything that a decision is made from, read before it |
//! | step | the decision about one release: run helm, wait, settle, or nothing |
//! | target hash | identifies the desired inputs of all releases; an approval names it |
//! | unmanage | removing osdpl's labels from one release (`managed: false`) |

fn main() -> std::process::ExitCode {
    osdpl_cli::main()
}
