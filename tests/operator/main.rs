//! The operator as a process with a real API server and the real helm.
//!
//! Each test has a control plane of its own while it runs (there may be one cloud per cluster), its own namespace, and
//! an operator with the rights that its chart ships. A failing test prints its state.

mod added;
mod adopt;
mod approval;
mod audit;
mod causes;
mod ceph;
mod certificates;
mod charts;
mod client;
mod cloud;
mod commands;
mod credentials;
mod deletion;
mod doubts;
mod drift;
mod dump;
mod endpoints;
mod facts;
mod faults;
mod feature_secrets;
mod foreign;
mod helm;
mod history;
mod hooks;
mod hosts;
mod images;
mod install;
mod interrupted;
mod leftovers;
mod maintenance;
mod moved;
mod nodes;
mod nova;
mod octavia;
mod operator;
mod overrides;
mod periodic;
mod policy;
mod pool;
mod rgw;
mod rollout;
mod rook;
mod secrets;
mod spec;
mod standin;
mod steady;
mod tempest;
mod trouble;
mod two;
mod unmade;
mod webhook;
mod whole;
mod world;
