//! Reads and writes two files in a cluster's folder: `cluster.json` with the cluster's settings, and `state.json` with
//! the cluster's running processes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::components::Component;
use crate::folder::{Folder, write_private};
use crate::options::{Audit, Node};
use crate::ports::Ports;
use crate::process::Process;
use crate::{Error, Programs};

/// The settings of a cluster. The process that starts the supervisor writes these settings into `cluster.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub programs: Programs,
    pub nodes: Vec<Node>,
    pub audit: Option<Audit>,
    pub emulated_version: Option<String>,
    pub environment: BTreeMap<String, String>,
    /// Whether the supervisor stops when its standard input is closed, which happens when the caller exits.
    pub attached: bool,
    /// Whether the supervisor removes the folder when it stops.
    pub temporary: bool,
    /// The kubeconfig of an existing cluster to use instead of starting one. With an existing cluster, no supervisor
    /// runs, so the folder has no `state.json`.
    pub existing: Option<PathBuf>,
}

/// The running processes of a cluster. The supervisor writes this state into `state.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub supervisor: Process,
    pub ports: Ports,
    /// Whether the cluster has started completely: its nodes are Ready and pods can be created.
    pub ready: bool,
    pub components: BTreeMap<Component, Process>,
}

impl Spec {
    pub fn read(folder: &Folder) -> Result<Self, Error> {
        read(folder, &folder.spec())
    }

    pub fn write(&self, folder: &Folder) -> Result<(), Error> {
        write_private(&folder.spec(), format!("{:#}\n", serde_json::json!(self)))
    }
}

impl State {
    pub fn read(folder: &Folder) -> Result<Self, Error> {
        read(folder, &folder.state())
    }

    /// Writes `state.json`. Writes a temporary file first and renames it, so that readers never see an incomplete file.
    pub fn write(&self, folder: &Folder) -> Result<(), Error> {
        let new = folder.path().join("state.json.new");
        write_private(&new, format!("{:#}\n", serde_json::json!(self)))?;
        std::fs::rename(&new, folder.state()).map_err(Error::file("write", &folder.state()))
    }

    /// Reads the state of a cluster. Returns an error if the cluster's supervisor is not running.
    pub fn of_running(folder: &Folder) -> Result<Self, Error> {
        let state = Self::read(folder)?;
        if state.supervisor.is_alive() { Ok(state) } else { Err(Error::NotRunning { path: folder.path().into() }) }
    }
}

fn read<T: DeserializeOwned>(folder: &Folder, path: &std::path::Path) -> Result<T, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NotRunning { path: folder.path().into() },
        _ => Error::file("read", path)(error),
    })?;
    serde_json::from_str(&text).map_err(|error| Error::Malformed { path: path.into(), reason: error.to_string() })
}
