//! The operator as a process, before a real API server, with the real helm: what issue and manual promise, told as stories.
//!
//! Each story has a control plane for itself while it lasts (there may be one cloud per cluster), a namespace that no
//! other story has, and an operator under the rights that its chart ships. A story that fails prints what it left.

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
