//! The type [`Cluster`], with which tests and the command line start, use, break and stop a control plane.

use std::fmt;
use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use kube::Client;

use crate::components::Component;
use crate::folder::{Folder, write_private};
use crate::launch::Attached;
use crate::options::Options;
use crate::spec::{Spec, State};
use crate::supervisor::control::{self, Request};
use crate::{AuditEntry, Error, Program, Programs, Rule, audit, client, faults, kubeconfig, launch, programs};

/// A running control plane.
///
/// A control plane that [`Cluster::start`] started is stopped when this value is dropped or the process exits, even if
/// the process is killed. A control plane that [`Cluster::up`] started runs until a call of [`Cluster::down`].
pub struct Cluster {
    folder: Folder,
    kubeconfig: PathBuf,
    programs: Programs,
    client: Client,
    is_owned: bool,
    /// Stops the supervisor when the cluster is dropped. With [`Options::existing`], there is no supervisor, so this
    /// value only removes the temporary folder.
    _guard: Option<Guard>,
}

type Guard = Box<dyn Send + Sync>;

impl Cluster {
    /// Starts a control plane that runs until the returned value is dropped or this process exits. If the options name
    /// an existing cluster, uses that cluster instead. If programs are missing, builds them first, which takes minutes.
    /// Later starts take these programs from the cache.
    ///
    /// # Errors
    /// Returns an error if a program is missing and cannot be built, or a component does not start.
    pub async fn start(options: Options) -> Result<Self, Error> {
        Self::bring_up(options, true).await
    }

    /// Starts a control plane that keeps running after this process exits. If a control plane is already running in the
    /// folder, returns this control plane. The options should set [`Options::folder`]. Otherwise, later processes can't
    /// find the control plane, because its files are in a temporary folder.
    ///
    /// # Errors
    /// Returns an error if a program is missing and cannot be built, or a component does not start.
    pub async fn up(options: Options) -> Result<Self, Error> {
        if let Some(path) = &options.folder
            && let Ok(mut cluster) = Self::attach(path).await
            && (!cluster.is_owned || State::read(&cluster.folder)?.ready)
        {
            cluster.add_programs(&options.programs).await?;
            return Ok(cluster);
        }
        Self::bring_up(options, false).await
    }

    /// Returns the control plane that runs in this folder, or the existing cluster that the folder's `cluster.json`
    /// names ([`Options::existing`]).
    ///
    /// # Errors
    /// Returns an error if no control plane is running in the folder.
    pub async fn attach(folder: &Path) -> Result<Self, Error> {
        let folder = Folder::new(folder)?;
        let spec = Spec::read(&folder)?;
        if let Some(kubeconfig) = spec.existing {
            return Self::new(kubeconfig, folder, spec.programs, false, None).await;
        }
        State::of_running(&folder)?;
        Self::new(folder.kubeconfig(), folder, spec.programs, true, None).await
    }

    /// Stops the control plane of a folder and removes the folder's files. Does not change an existing cluster that the
    /// folder's `cluster.json` names ([`Options::existing`]). Returns whether a control plane was running.
    ///
    /// # Errors
    /// Returns an error if a file of the folder cannot be read or removed.
    pub fn down(folder: &Path) -> Result<bool, Error> {
        launch::end(&Folder::new(folder)?)
    }

    /// Finds or builds the programs in `wanted` that an earlier call of [`Self::up`] did not request, and adds links to
    /// them in the cluster's folder.
    async fn add_programs(&mut self, wanted: &[Program]) -> Result<(), Error> {
        let had = self.programs.iter().map(|(program, _)| program);
        let all: Vec<Program> = had.chain(wanted.iter().copied()).collect();
        let programs = blocking(move || programs::ensure(&all, &mut programs::print_progress)).await?;
        if programs != self.programs {
            let mut spec = Spec::read(&self.folder)?;
            spec.programs = programs.clone();
            spec.write(&self.folder)?;
            programs.link(&self.folder)?;
            self.programs = programs;
        }
        Ok(())
    }

    async fn bring_up(options: Options, attached: bool) -> Result<Self, Error> {
        let temporary = options.folder.is_none().then(temporary_folder).transpose()?;
        let path = temporary.as_ref().map(tempfile::TempDir::path);
        let folder = Folder::new(path.or(options.folder.as_deref()).unwrap_or(Path::new(".")))?;
        let mut wanted = options.programs.clone();
        match options.existing {
            Some(_) => wanted.push(Program::Kubectl),
            None => wanted.extend(Program::CONTROL_PLANE),
        }
        let mut spec = Spec {
            programs: blocking(move || programs::ensure(&wanted, &mut programs::print_progress)).await?,
            nodes: options.nodes,
            audit: options.audit,
            emulated_version: options.emulated_version,
            environment: options.environment,
            attached,
            temporary: temporary.is_some(),
            existing: None,
        };
        if let Some(kubeconfig) = options.existing {
            let kubeconfig = std::path::absolute(&kubeconfig).map_err(Error::file("resolve", &kubeconfig))?;
            spec.existing = Some(kubeconfig.clone());
            folder.create()?;
            spec.write(&folder)?;
            spec.programs.link(&folder)?;
            let guard = temporary.map(|folder| -> Guard { Box::new(folder) });
            return Self::new(kubeconfig, folder, spec.programs, false, guard).await;
        }
        // Do not remove the temporary folder here: from now on the supervisor removes it, even if this process is
        // killed.
        drop(temporary.map(tempfile::TempDir::keep));
        let (cluster_folder, programs) = (folder.clone(), spec.programs.clone());
        let child = blocking(move || launch::start(&cluster_folder, &spec)).await?;
        let guard = attached.then(|| -> Guard { Box::new(Attached(child)) });
        Self::new(folder.kubeconfig(), folder, programs, true, guard).await
    }

    async fn new(
        kubeconfig: PathBuf,
        folder: Folder,
        programs: Programs,
        is_owned: bool,
        guard: Option<Guard>,
    ) -> Result<Self, Error> {
        let client = client::for_kubeconfig(&kubeconfig).await?;
        Ok(Self { folder, kubeconfig, programs, client, is_owned, _guard: guard })
    }

    /// Returns a client that has all rights on the API server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns a new token of a service account. The token is valid for a week.
    ///
    /// # Errors
    /// Returns an error if the API server refuses the request.
    pub async fn token(&self, namespace: &str, service_account: &str) -> Result<String, Error> {
        kubeconfig::token(&self.client, namespace, service_account).await
    }

    /// Writes a kubeconfig with the rights of a service account, and returns the path of the kubeconfig. The
    /// kubeconfig refers to a file with the token.
    ///
    /// # Errors
    /// Returns an error if the API server refuses to create the token, or a file cannot be written.
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str) -> Result<PathBuf, Error> {
        let token = self.token(namespace, service_account).await?;
        let file = |ending: &str| self.folder.identities().join(format!("{namespace}.{service_account}.{ending}"));
        write_private(&file("token"), token)?;
        kubeconfig::write_for_token(&self.kubeconfig, &file("kubeconfig"), &file("token"))?;
        Ok(file("kubeconfig"))
    }

    /// Returns the folder that contains the files of this cluster.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the path of a program that the options requested. kubectl is always available.
    ///
    /// # Errors
    /// Returns an error if the options did not request the program.
    pub fn program(&self, program: Program) -> Result<&Path, Error> {
        self.programs.path(program)
    }

    /// Returns the path of helm 3 or 4. The options must have requested this version of helm.
    ///
    /// # Errors
    /// Returns an error if the options did not request this version of helm.
    pub fn helm(&self, major: u8) -> Result<&Path, Error> {
        self.program(if major == 3 { Program::Helm3 } else { Program::Helm4 })
    }

    /// Returns the path of kubectl, which every cluster has.
    ///
    /// # Errors
    /// Returns an error if the list of programs in the cluster's folder does not contain kubectl.
    pub fn kubectl(&self) -> Result<&Path, Error> {
        self.program(Program::Kubectl)
    }

    /// Returns every request in the audit log that arrived at `since` or later, oldest first. Needs [`Options::audit`].
    ///
    /// # Errors
    /// Returns an error if the log is disabled or cannot be read.
    pub fn audit(&self, since: Timestamp) -> Result<Vec<AuditEntry>, Error> {
        self.require_owned("reading the audit log")?;
        audit::read(&self.folder.audit_log(), since)
    }

    /// Stores a fault rule with the name `name`. The rule makes the pods that it matches misbehave. Waits until the
    /// supervisor applies the rule to new pods.
    ///
    /// # Errors
    /// Returns an error if the API server refuses to store the rule.
    pub async fn behaviour(&self, name: &str, rule: &Rule) -> Result<(), Error> {
        self.require_owned("making pods misbehave")?;
        faults::set(&self.client, name, Some(rule)).await
    }

    /// Removes the fault rule with this name. The running pods that matched the rule recover.
    ///
    /// # Errors
    /// Returns an error if the API server refuses to remove the rule.
    pub async fn remove_rule(&self, name: &str) -> Result<(), Error> {
        self.require_owned("removing a fault rule")?;
        faults::set(&self.client, name, None).await
    }

    /// Kills a component with SIGKILL and waits until it has exited. Does nothing if the component is not running.
    ///
    /// # Errors
    /// Returns an error if the supervisor does not respond, or if this crate did not start the cluster.
    pub async fn kill(&self, component: Component) -> Result<(), Error> {
        self.send(Request::Kill(component)).await
    }

    /// Freezes a component with SIGSTOP: its connections stay open, but it does not respond. Does nothing if the
    /// component is not running.
    ///
    /// # Errors
    /// Returns an error if the supervisor does not respond, or if this crate did not start the cluster.
    pub async fn freeze(&self, component: Component) -> Result<(), Error> {
        self.send(Request::Freeze(component)).await
    }

    /// Continues a frozen component with SIGCONT. Does nothing if the component is not running.
    ///
    /// # Errors
    /// Returns an error if the supervisor does not respond, or if this crate did not start the cluster.
    pub async fn thaw(&self, component: Component) -> Result<(), Error> {
        self.send(Request::Thaw(component)).await
    }

    /// Starts a killed component again with the same command line. If the component is the API server, waits until it
    /// is ready.
    ///
    /// # Errors
    /// Returns an error if the supervisor does not respond, or the component does not start.
    pub async fn restart(&self, component: Component) -> Result<(), Error> {
        self.send(Request::Start(component)).await
    }

    /// Stops the control plane if [`Cluster::start`] started it. A control plane that [`Cluster::up`] started keeps
    /// running, and so does an existing cluster ([`Options::existing`]).
    pub fn stop(self) {
        drop(self);
    }

    async fn send(&self, request: Request) -> Result<(), Error> {
        self.require_owned("killing, freezing or restarting its programs")?;
        control::send(&self.folder, request).await
    }

    fn require_owned(&self, action: &'static str) -> Result<(), Error> {
        if self.is_owned { Ok(()) } else { Err(Error::NotOwned { what: action }) }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cluster").field("kubeconfig", &self.kubeconfig).finish_non_exhaustive()
    }
}

fn temporary_folder() -> Result<tempfile::TempDir, Error> {
    let prefix = "local-control-plane-";
    tempfile::Builder::new().prefix(prefix).tempdir().map_err(Error::file("create", &std::env::temp_dir()))
}

/// Runs `work`, which may block for minutes, on a separate thread, so that it does not block other async tasks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(lost) => Err(Error::Supervisor { reason: lost.to_string() }),
    }
}
