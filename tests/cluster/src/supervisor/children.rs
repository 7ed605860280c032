//! Starts, kills and freezes the programs of a cluster, which are child processes of the supervisor.

use std::collections::BTreeMap;
use std::process::Stdio;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::process::{Child, Command};

use super::log_file;
use crate::Error;
use crate::components::Component;
use crate::folder::{Folder, tail};
use crate::ports::Ports;
use crate::process::Process;
use crate::spec::Spec;

/// The running programs of a cluster, and the settings with which the supervisor starts programs.
pub(crate) struct Children {
    pub folder: Folder,
    pub spec: Spec,
    pub ports: Ports,
    running: BTreeMap<Component, (Child, Process)>,
    me: std::path::PathBuf,
}

impl Children {
    pub fn new(folder: Folder, spec: Spec, ports: Ports) -> Result<Self, Error> {
        let me = std::env::current_exe().map_err(Error::file("find", &folder.path().join("cluster")))?;
        Ok(Self { folder, spec, ports, running: BTreeMap::new(), me })
    }

    /// Returns the process of each running component.
    pub fn processes(&self) -> BTreeMap<Component, Process> {
        self.running.iter().map(|(component, (_, process))| (*component, *process)).collect()
    }

    /// Starts a component in its own process group. Does nothing if the component is running.
    pub fn start(&mut self, component: Component) -> Result<(), Error> {
        if self.died(component).is_none() && self.running.contains_key(&component) {
            return Ok(());
        }
        let program = self.spec.programs.path(component.program())?;
        let log = self.folder.log(component.name());
        let output = log_file(&log)?;
        let errors = output.try_clone().map_err(Error::file("open", &log))?;
        let mut command = Command::new(&self.me);
        command.arg("exec").arg(std::process::id().to_string()).arg(program).arg("--");
        command.args(component.arguments(&self.folder, &self.spec, self.ports)?);
        // Do not pass on the caller's environment, because variables for proxies, kubeconfigs and feature gates would
        // change how the programs behave.
        command.env_clear().env("HOME", self.folder.path()).env("PATH", "/usr/bin:/bin");
        command.envs(&self.spec.environment);
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let child = command.spawn().map_err(|error| self.boot_error(component, &error.to_string()))?;
        let process = child.id().and_then(Process::find);
        let process = process.ok_or_else(|| self.boot_error(component, "it ended at once"))?;
        self.running.insert(component, (child, process));
        Ok(())
    }

    /// Returns the exit status of a component that has exited by itself. Returns `None` if the component is running, or
    /// if the supervisor has killed it or has not started it yet.
    pub fn died(&mut self, component: Component) -> Option<String> {
        let (child, _) = self.running.get_mut(&component)?;
        child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Sends a signal to a component's process group.
    pub fn signal(&self, component: Component, signal: Signal) {
        if let Some((_, process)) = self.running.get(&component) {
            process.signal_group(signal);
        }
    }

    /// Freezes a component with SIGSTOP, and waits until all of its threads are stopped and none can respond.
    pub async fn freeze(&self, component: Component) {
        let Some((_, process)) = self.running.get(&component) else { return };
        process.signal_group(Signal::STOP);
        let Some(pid) = Pid::from_raw(process.pid) else { return };
        let stands = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Ignore an error: it means that the component has already exited.
        let _ = tokio::task::spawn_blocking(move || waitid(WaitId::Pid(pid), stands)).await;
    }

    /// Kills a component and waits until it has exited.
    pub async fn kill(&mut self, component: Component) {
        if let Some((mut child, process)) = self.running.remove(&component) {
            process.signal_group(Signal::KILL);
            // Ignore an error: it means that the component has already exited.
            let _ = child.wait().await;
        }
    }

    /// Kills all components at once, and waits until they have exited. SIGKILL is safe, because no data needs to
    /// survive.
    pub async fn end(&mut self) {
        for (_, process) in self.running.values() {
            process.signal_group(Signal::KILL);
        }
        for (child, _) in self.running.values_mut() {
            let _ = child.wait().await;
        }
        self.running.clear();
    }

    /// Returns the error for a component that did not start. The error contains `reason` and the last lines of the
    /// component's log.
    pub fn boot_error(&self, component: Component, reason: &str) -> Error {
        let tail = tail(&self.folder.log(component.name()), 15);
        Error::Boot { component: component.name().into(), reason: reason.into(), tail }
    }
}
