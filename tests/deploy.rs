//! Checks the files that osdpl ships: the CRDs, the operator's own chart with its rights, and the samples.

#![allow(clippy::disallowed_methods, reason = "tests start programs and read files")]

#[path = "deploy/ceph.rs"]
mod ceph;
#[path = "deploy/chart.rs"]
mod chart;
#[path = "catalogue/clouds.rs"]
#[allow(dead_code, reason = "tests/catalogue.rs uses the remaining functions")]
mod clouds;
#[path = "deploy/consistency.rs"]
mod consistency;
#[path = "deploy/crd.rs"]
mod crd;
#[path = "deploy/docs.rs"]
mod docs;
#[path = "deploy/explain.rs"]
mod explain;
#[path = "deploy/image.rs"]
mod image;
#[path = "deploy/invalid_resources.rs"]
mod invalid_resources;
#[path = "deploy/offline.rs"]
mod offline;
#[path = "deploy/operator.rs"]
mod operator;
#[path = "deploy/placeholders.rs"]
mod placeholders;
#[path = "deploy/rbac.rs"]
mod rbac;
#[path = "deploy/reference.rs"]
mod reference;
#[path = "deploy/render.rs"]
mod render;
#[path = "deploy/render_out.rs"]
mod render_out;
#[path = "deploy/rules.rs"]
mod rules;
#[path = "deploy/runbook.rs"]
mod runbook;
#[path = "deploy/samples.rs"]
mod samples;
#[path = "deploy/server.rs"]
mod server;
#[path = "deploy/silent_server.rs"]
mod silent_server;
#[path = "deploy/test_command.rs"]
mod test_command;
#[path = "deploy/upstream.rs"]
mod upstream;
#[path = "deploy/validation.rs"]
mod validation;

use std::path::{Path, PathBuf};

use osdpl_core::catalog::Catalog;
use osdpl_values::yaml;
use serde_json::{Value, json};

fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn read(below: &str) -> String {
    std::fs::read_to_string(path(below)).unwrap_or_default()
}

fn shipped() -> Catalog {
    osdpl_core::files::load_catalog(None).unwrap()
}

/// Returns an `OpenStackDeployment` with this spec.
fn resource(spec: &str) -> Value {
    let spec: Value = yaml::parse("spec", spec).unwrap();
    json!({ "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": { "name": "cloud" }, "spec": spec })
}
