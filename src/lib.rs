//! osdpl: a Kubernetes operator that runs OpenStack from the upstream, unmodified OpenStack-Helm charts. This page is the map of the house.
//!
//! ```text
//!  OpenStackDeployment ─┐                                     ┌─ release records (metadata watch on helm's Secrets)
//!  presets/  values/  ──┤ select, resolve           observe ──┤─ workloads, Jobs, pods that are not ready
//!  facts (credentials, ─┘   │                          │      ├─ running helm children (the Runner's own table)
//!   charts, values from)    ▼                          ▼      └─ namespaces, objects that the spec names
//!                    Desired{release → values,    Observed{release → record,
//!                     needs, digests}              workloads, Jobs, children}
//!                            └────────► plan ◄──────────┘
//!                                        │   Plan: a step for every release: do this now, or wait, and why
//!                                        ▼
//!                      Runner starts helm children (bounded), returns at once
//!                                        ▼
//!                      report(previous, …, now) ─► status, events, metrics
//! ```
//!
//! A pass ([`controller::reconcile`]) is short and level-triggered and never waits for helm. The end of a child, a record, a workload, a
//! Secret, the resource itself: each pokes the next pass, so there are no waves and no barriers. Deletion is the same pipe with nothing
//! wanted. Helm's own records are the journal: labels on them say with which inputs ([`release::INPUTS_LABEL`]), by which catalogue
//! ([`release::CATALOG_LABEL`]) and in which attempt, for which revision ([`release::ATTEMPT_LABEL`]) each was made, of which release of the
//! catalogue it is ([`release::RELEASE_LABEL`]), with which images ([`release::IMAGES_LABEL`]), and whether what a failed one left is gone
//! ([`release::SWEPT_LABEL`]).
//!
//! # Rooms
//!
//! | pure: values in, values out; no client, no tokio, no clock, no files | |
//! |---|---|
//! | [`api`] | the custom resource: spec, status, conditions |
//! | [`values`], [`yaml`], [`expr`] | a values tree and helm's merge; YAML; CEL in YAML |
//! | [`catalog`] | services, presets, features, OpenStack releases: YAML parsed into types that cannot be wrong |
//! | [`reference`] | the catalogue told to people: lists, descriptions, the reference documentation |
//! | [`desired`] | `select` and `resolve`: what is wanted; `facts` that releases' own Jobs have written down reach values here |
//! | [`observed`], [`release`], [`health`] | what is: plain data; helm's records; verdicts on workloads |
//! | [`endpoint`] | whether services' APIs answer: who is asked, what an answer is worth |
//! | [`openstack`] | what is said to Nova and Neutron, and what their answers mean |
//! | [`maintenance`] | nodes taken out of the cloud for a while: the next step there or back |
//! | [`cause`] | why: from a victim along what it waits for to the root |
//! | [`adopt`] | releases that someone else made: how they stand to what is wanted |
//! | [`difference`] | two manifests of a release: objects that change, pods that restart, what must be recreated |
//! | [`drift`] | what others did to a release's objects, by the objects' own word |
//! | [`plan`] | the table from state to step |
//! | [`hazard`] | overrides that most likely do not do what they are meant for |
//! | [`rule`] | what a resource is judged by, everything at once |
//! | [`credentials`], [`scrub`] | which must exist; how they never show |
//! | [`ceph`] | a Secret that describes a Ceph, what expressions see of it, and the objects that the charts mount |
//! | [`nodes`] | roles of nodes: which labels each is to have |
//! | [`rollout`] | the data plane's pods: which are made anew now, or why none |
//! | [`status`] | the truth for people and programs |
//!
//! | shell: what touches the world, each thing through one gate | |
//! |---|---|
//! | [`cluster`] | the API server: reads, and every write that is not helm's |
//! | [`tasks`] | the API server: watches, each with a store that pokes |
//! | [`http`] | HTTP: the APIs of services, and the cloud's own as its administrator |
//! | [`helm`] | processes: the only room that starts one |
//! | [`charts`], [`files`] | files: charts; the catalogue |
//! | [`controller`] | reconcile, and its memory |
//! | [`maintaining`] | nodes taken out of the cloud for a while, and given back |
//! | [`telemetry`], [`web`], [`webhook`], [`cli`] | logs and metrics; probes; what the API server asks before it takes a resource; the command line |
//!
//! Arrows point one way: pure rooms never import shell rooms, and within them
//! `values, yaml → expr → catalog → desired, observed → plan → status`. `tests/house.rs` holds the house to this.
//!
//! # Where this differs from the first design
//!
//! * The approval hash names the target (every release's inputs), not the set of steps, so that it stays valid while the steps are taken.
//! * "Nothing rolls because we changed" compares what the catalogue could say about a release, whatever the spec, with the digest on its
//!   record; a spec's own changes never touch that digest.
//! * Repositories are pulled with `helm pull`; the only other HTTP that is spoken is with the cloud's own services ([`http`]).
//! * What has to be made inside of the cloud before a service can run (a network, a flavor, certificates) no code of the operator's makes: a
//!   Job of the release does, writes the IDs into a `ConfigMap` (`facts` of the release), and expressions see them there.
//! * The catalogue's files are built into the program, read already (`src/files/compile.rs`); `--catalog` names a folder instead.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod adopt;
pub mod api;
pub mod catalog;
pub mod cause;
pub mod ceph;
pub mod charts;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod credentials;
pub mod desired;
pub mod difference;
pub mod drift;
pub mod endpoint;
pub mod expr;
pub mod files;
pub mod hazard;
pub mod health;
pub mod helm;
pub mod http;
pub mod maintaining;
pub mod maintenance;
pub mod nodes;
pub mod observed;
pub mod openstack;
pub mod plan;
pub mod reference;
pub mod release;
pub mod rollout;
pub mod rule;
pub mod scrub;
pub mod status;
pub mod tasks;
pub mod telemetry;
pub mod values;
pub mod web;
pub mod webhook;
pub mod yaml;
