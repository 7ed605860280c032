//! The two files by which a cluster's processes and its users find each other.

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

/// What was asked for; written by whoever starts the supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub programs: Programs,
    pub nodes: Vec<Node>,
    pub audit: Option<Audit>,
    pub emulated_version: Option<String>,
    /// End when standard input closes, that is, when the caller is gone.
    pub attached: bool,
    /// Remove the folder at the end.
    pub temporary: bool,
    /// The kubeconfig of a cluster that is only used; then there is no supervisor and no state.
    pub existing: Option<PathBuf>,
}

/// What runs; written by the supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub supervisor: Process,
    pub ports: Ports,
    /// Everything came up.
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

    /// Written beside and renamed, so that a reader never sees half of it.
    pub fn write(&self, folder: &Folder) -> Result<(), Error> {
        let new = folder.path().join("state.json.new");
        write_private(&new, format!("{:#}\n", serde_json::json!(self)))?;
        std::fs::rename(&new, folder.state()).map_err(Error::file("write", &folder.state()))
    }

    /// The state of a cluster whose supervisor runs.
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
