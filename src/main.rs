//! osdpl: a Kubernetes operator that runs OpenStack from the upstream, unmodified OpenStack-Helm charts.
//!
//! This page describes the structure of the workspace. The binary only calls `osdpl-cli`; all code is in the crates
//! below `src/`. A crate uses only crates that are above it in this table.
//!
//! | crate | contents | I/O |
//! |---|---|---|
//! | `osdpl-values` | trees of values and helm's merge, YAML, CEL expressions | no |
//! | `osdpl-core` | the custom resources, the catalogue, the desired and the observed state, the plan of each release, the status | only to load the files of the catalogue |
//! | `osdpl-lint` | checks of a resource: errors make osdpl refuse it, warnings name likely mistakes. Findings from computing the desired state are in `osdpl-core`, findings about the cluster in `osdpl-decide` | no |
//! | `osdpl-decide` | a function from a snapshot of the cluster to a plan: every action of a reconcile pass | no |
//! | `osdpl-client` | code that all controllers share: limits and errors of API requests, a function that runs a controller, an HTTP client | yes |
//! | `osdpl-maintenance` | the controller of NodeMaintenance resources, and the client of the OpenStack APIs | yes, except for the module `decide` |
//! | `osdpl-operator` | watches, requests to the API server, the helm runner, charts, the webhook, metrics | yes |
//! | `osdpl-cli` | the subcommands, and the reference documentation of the catalogue | yes |
//!
//! # A reconcile pass
//!
//! ```text
//! watches, responses to reads ─► read ─► Snapshot ─► decide ─► Plan ─► apply ─► report ─► status, events, metrics
//!                                  ▲                            │         └─► objects, helm, events of actions
//!                                  └─ subscribe: requests, kept ┘
//! ```
//!
//! * `read` (`osdpl_operator::controller`) collects a `Snapshot`: the objects that the watches have cached, running helm
//!   processes, the results of helm processes that have ended (`controller::outcomes`), fetched charts, `kept`, and the
//!   responses to the reads that the last plan requested. For these reads, the operator uses a `Reader`, which has no
//!   write methods. If the plan requests the CRDs of a chart, `read` waits for `helm template`, at most 20 s per chart.
//!   Before `read`, the pass adds the additions to the catalogue (`Context::update_catalog`). It ends if the watches
//!   have not read them yet.
//! * `decide` (`osdpl_decide`) is a pure function. It resolves the spec, the catalogue and the facts (see the glossary)
//!   into the desired releases, by means of `osdpl_lint::Input`: all code that computes the desired state
//!   (`osdpl_core::desired`) from a spec goes through this type. There is one exception: `osdpl_core::adopt` searches
//!   for the spec that describes running releases. It resolves the specs that it tries without the checks of
//!   `osdpl-lint`. `decide` takes the next step of each release from a state table (`osdpl_core::plan`). The plan lists
//!   every action with its reason: writes of osdpl's own objects, namespaces, CRDs of charts, node labels, Jobs to
//!   delete, helm runs, adoptions, evictions in rollouts, hosts to delete from Nova and Neutron, and annotations to
//!   remove.
//! * If `decide` needs more data, the plan requests the data, and the snapshot of a later pass contains them. A `Hold`
//!   in the plan says why the pass ends early. It ends before `apply` if the snapshot lacks requested objects
//!   (`Hold::Objects`) or responses (`Hold::Reads`). It ends after `apply`, without `report`, if the rest of the
//!   decision depends on the result of the actions (`Hold::Actions`), if the actions change the finalizer, so that the
//!   watch triggers the next pass (`Hold::Watch`), or if the operator still fetches charts and a new status would
//!   contain less than the stored one (`Hold::Charts`).
//! * `subscribe` passes the plan's requests to the watches and tasks, so that the next snapshot contains the requested
//!   data. It passes the plan's maintenance settings to the controller of NodeMaintenance resources. It stores `kept`,
//!   the part of the plan that the next decision needs, in memory.
//! * `apply` executes the actions and starts helm, but never waits for helm. Before the first action of a release
//!   or of its CRDs, it writes to the status what later passes must trust: the cloud's releases, and the digests of
//!   charts and additions (`record_trusted`). If someone has changed the resource since the read, or the API server
//!   refuses an eviction, the pass ends without `report` (`Outcome::skip_report`). A separate task deletes hosts in Nova
//!   and Neutron, because a deletion may need many attempts. The next snapshot contains the result of that task.
//! * `report` computes the status (`osdpl_core::status`) and writes it (`Context::publish`). A pass that fails does not
//!   report; if passes keep failing, `controller::pass_failures` writes the error to the status.
//!
//! For a cloud, the operator writes only through `apply`, `report`, helm, the task that deletes hosts, and
//! `controller::pass_failures`. In addition, the controller of NodeMaintenance resources and the commands of `osdpl`
//! write outside of passes.
//!
//! `osdpl plan` prints the plan of the next pass: it repeats `read` and `decide` until the snapshot contains all
//! data that the plan requests. Where a decision depends on the result of actions, the command assumes that they are
//! done.
//!
//! In these cases, a pass differs from the pass of a running cloud:
//!
//! * The resource is being deleted: nothing is desired, and `spec.deletionPolicy` decides what happens to the releases.
//!   The rest of the spec need not be valid.
//! * The cloud is paused: the operator only adds its finalizer, and adopts the releases that a person asks it to adopt.
//!   The plan also lists the actions that wait for approval, but the operator does not execute them. A deletion waits,
//!   unless it only detaches the releases. A pause does not affect the controller of NodeMaintenance resources.
//! * An older `OpenStackDeployment` exists: the pass writes only the status. If the resource is being deleted, the pass
//!   removes the finalizer instead.
//! * The operator has no rights in the resource's namespace: the pass writes only the status.
//! * The spec is refused: the pass writes only the finalizer, the Endpoints of external hosts and the status.
//!
//! A pass is short, and depends only on the snapshot, not on the event that triggered it. Passes run one at a time. A
//! pass that takes longer than `--pass-timeout` fails, and the operator starts another one after a few seconds. These
//! events trigger a pass:
//! a helm process ends; a release record, a workload, a Secret, a node or the resource itself changes; requested data
//! arrive; a task has a new result, for example of the probes of APIs (`tasks::endpoints`); or the delay is over after
//! which the last pass wanted another one. Helm's release records store the progress: their labels name the inputs, the
//! catalogue and the attempt of each revision. So a new operator process continues where its predecessor stopped.
//!
//! Several operator processes can run. The holder of a Lease is the active one, and the others are standbys: they have
//! the same watches, but run no passes and write nothing (`osdpl_operator::lease`).
//!
//! # Where a change belongs
//!
//! * A service, preset, feature or OpenStack release: YAML in `values/` and `presets/`; no Rust, except for lists in
//!   tests. CONTRIBUTING lists the files. For an OpenStack release, copy the newest file in `values/openstack/`. If a
//!   service's chart grants rights that the operator does not have, the operator needs these rights, too: add a file in
//!   `deploy/osdpl/rbac/`.
//! * The data about the options of services, such as `conf.nova.DEFAULT.debug`: `make options` generates
//!   `values/options`, the check is in `osdpl-lint`, module `overrides::options`.
//! * A field of the spec: `src/core/api/spec.rs`, its limits in `src/core/api/rules.rs`, then `sh crds/generate`.
//!   Anything that the field allows or forbids in a pass belongs in `Policy` (`osdpl_core::plan`), which
//!   `resource::policy` in `osdpl-decide` fills.
//! * A check of user input: search the code for the field first, because a check may exist already. Then add the check
//!   to the first of these places that can express it. A CEL rule can only refuse a resource, not warn.
//!     * `checks:` in the catalogue's file of a preset or feature; services have none. osdpl evaluates the checks of a
//!       preset if the spec names the preset, and those of a feature always. A check can read the whole spec, so it can
//!       compare features and services;
//!     * `values/couplings.yaml`, if a setting must be equal in several charts, and `values/rules.yaml` for any other
//!       condition on values of releases;
//!     * a CEL rule of the CRD (`osdpl_core::api`), if the API server can check it;
//!     * `osdpl-lint`: a function that `rule::check` calls, and an entry in `rule::RULES`. Checks of overrides are in
//!       its module `overrides` (with an entry in `overrides::KINDS`), checks of files in `validate`.
//! * A new fact from the cluster: a field of `Snapshot`. `read` fills it from a watch in `src/operator/tasks`,
//!   from the watches of objects that the spec names (`src/operator/cluster/object_watches.rs`), or from a `Read` that
//!   `src/operator/cluster/reads.rs` executes. `controller::preview` must fill it for `osdpl plan`, too. If the data
//!   depends on the spec, the plan requests it with a field of `Requests`, which `subscribe` passes on. A new kind of
//!   object needs rights in `deploy/osdpl/templates/clusterrole.yaml` and a check in `controller/preview/rights.rs`. A
//!   task in `src/operator/tasks` triggers the pass with `tasks::publish`.
//! * An object that belongs to a release and whose content follows from the spec, such as a `PodDisruptionBudget` or an
//!   `HTTPRoute`: a value of the chart, such as `pod.lifecycle.disruption_budget`, if the chart has one. Otherwise a
//!   value below `extraObjects` in a fragment of the catalogue, if the chart has this key; no Rust. helm writes and
//!   deletes the object. A new kind also needs an entry in `osdpl_core::drift` (`kind.rs`) and rights in
//!   `deploy/osdpl/templates/clusterrole.yaml`.
//! * A new step of a release: the state table in `osdpl_core::plan`. Any other new write: an `Action` in `osdpl-decide`
//!   (with `Display`, `object` and `id`), executed in `Context::execute`, with rights in
//!   `deploy/osdpl/templates/clusterrole.yaml`. The compiler does not find these places:
//!     * `uses_chart`, `changes_decision` and `is_read_back` (`controller::apply`): whether the status must name the
//!       chart first, whether the next pass follows at once, and whether it repeats reads;
//!       `namespaces::missing_namespace`: whether osdpl creates the object's namespace;
//!     * the method of `Draft` that adds the action: `add`, or `change_for_spec` and `attempt_for_spec` if
//!       `approval: Always` delays it. Then the target hash must cover it: `object_settings` (`osdpl_core::desired`). If
//!       the API server may refuse the action (`ActionResult::Refused`), add it with `attempt` or `attempt_for_spec`:
//!       with `add`, passes would repeat the request at once;
//!     * the deletion of obsolete objects: a `Read` that lists them, `Kind`, `Cluster::delete` and
//!       `deletion::clean_up`; `leftovers` and `needed` decide which objects unmanaged releases still need.
//!
//!   `tests/operator/audit.rs` compares writes with plans. Run `make sweep`, too.
//! * A new reason to wait: `Wait` in `osdpl_core::plan` with its message, `is_open` in `osdpl_decide`'s
//!   `annotations.rs` (whether the wait can end without a decision of the user), `osdpl_core::status` (the condition),
//!   and the runbook.
//! * A new reason of the condition Ready: a constant in `reason` (`src/core/api/status.rs`), a check in `CHECKS` and, if
//!   a person must act, an entry in `stalled` (`src/core/status/assessment.rs`), `event_reason`
//!   (`src/core/status/events.rs`), and the runbook.
//! * Upgrades between OpenStack releases do not exist yet: `rule::release` in `osdpl-lint` refuses them. Their stages
//!   will be data in the catalogue. A release that waits for a stage needs a new `Wait` in `osdpl_core::plan`.
//! * A metric: `CloudState` in `src/operator/telemetry.rs`, filled in `controller::publish`, and the table in
//!   `deploy/docs/guide/install.md`.
//! * A step of a node's maintenance: `decide` in `osdpl-maintenance`, and `MaintenanceStep` in `osdpl_core::api` (then
//!   `sh crds/generate`). A request to Nova or Neutron: `osdpl_core::openstack`, sent by the client in
//!   `osdpl-maintenance`. Anything else that the maintenance needs from the operator: a method of the
//!   trait `osdpl_maintenance::Operator`.
//! * A subcommand: a module of `osdpl-cli`, a variant of `Command` and an arm of `run` in its `lib.rs`. If the command
//!   uses OpenStack's APIs: `read_access` (`src/cli/keystone.rs`) reads the administrator's login from helm's record, and
//!   `osdpl_maintenance::OpenStackClient` sends requests. `Api` and `Access` (`osdpl_core::openstack`) know only the
//!   internal URLs of Nova and Neutron.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | action | one write; the plan adds the reason, and whether the action needs approval (`Planned`) |
//! | active operator | the operator process that holds the Lease; only it runs passes and helm, and writes |
//! | addition | a ConfigMap that `spec.catalog` names, with services, presets or features for the catalogue |
//! | adoption | taking over a helm release that someone else installed, by labelling its record |
//! | approval | the annotation with which a person agrees to a target hash |
//! | attempt | one run of helm by one operator process; a label on the release record names the attempt |
//! | catalogue | the YAML files in `values/` and `presets/` |
//! | cleanup | deleting the objects that only failed revisions of a release contain |
//! | component | the workloads with the same labels `application` and `component`, such as `keystone/api` |
//! | credential | a password or key that osdpl generates once, or that the user provides in a Secret |
//! | desired state | the releases that osdpl computes from a spec, each with its values and needs |
//! | detach | removing osdpl's labels from all releases, so that the cloud continues without osdpl |
//! | drift | a change that someone made to an object of a release outside of helm |
//! | external service | a service outside of the cluster; osdpl creates a Kubernetes Service that leads to it |
//! | fact | data besides spec and catalogue from which osdpl computes values: credentials, Ceph, charts, Secrets |
//! | feature | a switch in the spec, with a schema for its settings; it sets values in many releases |
//! | finding | an error, warning or note about a resource, with its location and remedy |
//! | fragment | a set of values in the catalogue; an optional condition decides whether osdpl uses the values |
//! | group | `infra` or `openstack`; values can be set for all releases of a group |
//! | inputs | the chart, values and flags of a release; their digest is a label on the record |
//! | layer | one of the sources from which osdpl merges a release's values; later layers override earlier ones |
//! | lock | `values/lock.yaml`: the version of each chart, and its digest if known |
//! | need | a component that must be available before a release is installed |
//! | observed state | the release records, workloads, Jobs, root causes and helm processes that a pass reads |
//! | override | a value that the user sets in the spec, in an object of `valuesFrom`, or for some nodes |
//! | pass | one run of read, decide, apply and report for one OpenStackDeployment |
//! | placeholder | a value that osdpl uses in place of a fact that it does not know, for example offline |
//! | plan | every action of a pass, the step of each release, and requests for the next pass |
//! | policy | the rules for a pass that the resource's spec and annotations set: approval, pause, adoption, deletion |
//! | preset | a named set of services, features and sizes |
//! | record | the Secret in which helm stores one revision of a release |
//! | release | one helm release; a service has one or more |
//! | request | an object, chart or record that a plan asks for, so that the next snapshot contains it |
//! | rollout | the replacement of data plane pods (Open vSwitch, OVN, libvirt, nova-compute) in batches, after approval |
//! | root cause | the last object in the chain of objects for which a component waits |
//! | service | an OpenStack or infrastructure service of the catalogue |
//! | snapshot | all data from which a pass makes its decision, read before the decision |
//! | step | the decision about one release: run helm, wait, settle (helm is done, pods are not ready yet), or nothing |
//! | target hash | a hash of the desired inputs of all releases; an approval names the hash |
//! | unmanage | removing osdpl's labels from one release (`managed: false`) |

fn main() -> std::process::ExitCode {
    osdpl_cli::main()
}
