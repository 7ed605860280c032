//! A control plane in the hands of a test, the demo, or the command line.

use std::fmt;
use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use kube::Client;

use crate::components::Component;
use crate::folder::{Folder, write_private};
use crate::launch::Attached;
use crate::options::Options;
use crate::spec::{Spec, State};
use crate::supervisor::control::{Request, ask};
use crate::{AuditEntry, Error, Program, Programs, Rule, audit, client, faults, kubeconfig, launch, programs};

/// A running control plane.
///
/// One that was started by [`Cluster::start`] ends when this value is dropped, when the process ends, and
/// when it is killed; one that was brought up by [`Cluster::up`] stays until [`Cluster::down`].
pub struct Cluster {
    folder: Folder,
    kubeconfig: PathBuf,
    programs: Programs,
    client: Client,
    ours: bool,
    /// What ends when this ends: the supervisor, or a temporary folder.
    _life: Option<Life>,
}

type Life = Box<dyn Send + Sync>;

impl Cluster {
    /// Starts a control plane that lives as long as the returned value and this process, or uses the
    /// existing one that the options name. Missing programs are built first, which takes minutes once.
    ///
    /// # Errors
    /// When a program is missing and cannot be built, or a component does not come up.
    pub async fn start(options: Options) -> Result<Self, Error> {
        Self::bring_up(options, true).await
    }

    /// Brings a control plane up that stays when this process ends. Does nothing but return it when it is
    /// up already. Needs [`Options::folder`].
    ///
    /// # Errors
    /// As [`Cluster::start`], and without a folder.
    pub async fn up(options: Options) -> Result<Self, Error> {
        if let Some(path) = &options.folder
            && let Ok(mut cluster) = Self::attach(path).await
            && (!cluster.ours || State::read(&cluster.folder)?.ready)
        {
            cluster.add_programs(&options.programs).await?;
            return Ok(cluster);
        }
        Self::bring_up(options, false).await
    }

    /// A control plane that [`Cluster::up`] brought up earlier.
    ///
    /// # Errors
    /// When none runs there.
    pub async fn attach(folder: &Path) -> Result<Self, Error> {
        let folder = Folder::new(folder)?;
        let spec = Spec::read(&folder)?;
        if let Some(kubeconfig) = spec.existing {
            return Self::new(kubeconfig, folder, spec.programs, false, None).await;
        }
        State::of_running(&folder)?;
        Self::new(folder.kubeconfig(), folder, spec.programs, true, None).await
    }

    /// Ends the control plane in a folder and removes what it left; one that is only used is left alone.
    /// `false` when none ran.
    ///
    /// # Errors
    /// When it does not end.
    pub fn down(folder: &Path) -> Result<bool, Error> {
        launch::end(&Folder::new(folder)?)
    }

    /// Puts programs into the folder that an earlier `up` was not asked for.
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
            let life = temporary.map(|folder| -> Life { Box::new(folder) });
            return Self::new(kubeconfig, folder, spec.programs, false, life).await;
        }
        // From here on the supervisor removes it, which it also does when this process is killed.
        drop(temporary.map(tempfile::TempDir::keep));
        let (place, programs) = (folder.clone(), spec.programs.clone());
        let child = blocking(move || launch::start(&place, &spec)).await?;
        let life = attached.then(|| -> Life { Box::new(Attached(child)) });
        Self::new(folder.kubeconfig(), folder, programs, true, life).await
    }

    async fn new(
        kubeconfig: PathBuf,
        folder: Folder,
        programs: Programs,
        ours: bool,
        life: Option<Life>,
    ) -> Result<Self, Error> {
        let client = client::for_kubeconfig(&kubeconfig).await?;
        Ok(Self { folder, kubeconfig, programs, client, ours, _life: life })
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A token of a service account, good for a week.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn token(&self, namespace: &str, service_account: &str) -> Result<String, Error> {
        kubeconfig::token(&self.client, namespace, service_account).await
    }

    /// A kubeconfig for a process that is to run under a service account's own rights. It names a file that
    /// holds the token, as the one in a pod would.
    ///
    /// # Errors
    /// When the API server refuses the token, or a file cannot be written.
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str) -> Result<PathBuf, Error> {
        let token = self.token(namespace, service_account).await?;
        let file = |ending: &str| self.folder.identities().join(format!("{namespace}.{service_account}.{ending}"));
        write_private(&file("token"), token)?;
        kubeconfig::write_for_token(&self.kubeconfig, &file("kubeconfig"), &file("token"))?;
        Ok(file("kubeconfig"))
    }

    /// Where everything of this cluster lies.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The path of a program that was asked for in the options (kubectl always is).
    ///
    /// # Errors
    /// When it was not asked for.
    pub fn program(&self, program: Program) -> Result<&Path, Error> {
        self.programs.path(program)
    }

    /// The path of helm 3 or 4, which must have been asked for in the options.
    ///
    /// # Errors
    /// When it was not asked for.
    pub fn helm(&self, major: u8) -> Result<&Path, Error> {
        self.program(if major == 3 { Program::Helm3 } else { Program::Helm4 })
    }

    /// The path of kubectl.
    ///
    /// # Errors
    /// When there is none.
    pub fn kubectl(&self) -> Result<&Path, Error> {
        self.program(Program::Kubectl)
    }

    /// Every request in the audit log so far that arrived at `since` or later, oldest first. Needs [`Options::audit`].
    ///
    /// # Errors
    /// When the log is not switched on, or cannot be read.
    pub fn audit(&self, since: Timestamp) -> Result<Vec<AuditEntry>, Error> {
        self.only_ours("reading the audit log")?;
        audit::read(&self.folder.audit_log(), since)
    }

    /// Makes pods misbehave, by a rule under a name of the caller's choosing; in force on return. Replaces an
    /// earlier rule of that name.
    ///
    /// # Errors
    /// When the API server refuses, or the rule is not in force in time.
    pub async fn behaviour(&self, name: &str, rule: &Rule) -> Result<(), Error> {
        self.only_ours("making pods misbehave")?;
        faults::set(&self.client, name, Some(rule)).await
    }

    /// Takes a rule back; pods that suffer from it recover.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn mend(&self, name: &str) -> Result<(), Error> {
        self.only_ours("mending pods")?;
        faults::set(&self.client, name, None).await
    }

    /// Kills a component (SIGKILL) and returns when it is gone.
    ///
    /// # Errors
    /// When the supervisor does not answer, or does not run it.
    pub async fn kill(&self, component: Component) -> Result<(), Error> {
        self.ask(Request::Kill(component)).await
    }

    /// Freezes a component (SIGSTOP): its connections stay, and nothing is answered.
    ///
    /// # Errors
    /// When the supervisor does not answer, or does not run it.
    pub async fn freeze(&self, component: Component) -> Result<(), Error> {
        self.ask(Request::Freeze(component)).await
    }

    /// Lets a frozen component go on (SIGCONT).
    ///
    /// # Errors
    /// When the supervisor does not answer, or does not run it.
    pub async fn thaw(&self, component: Component) -> Result<(), Error> {
        self.ask(Request::Thaw(component)).await
    }

    /// Starts a killed component again with the same command line; the API server is ready on return.
    ///
    /// # Errors
    /// When the supervisor does not answer, or it does not come up.
    pub async fn restart(&self, component: Component) -> Result<(), Error> {
        self.ask(Request::Start(component)).await
    }

    /// Ends the control plane; the same as dropping it.
    pub fn stop(self) {
        drop(self);
    }

    async fn ask(&self, request: Request) -> Result<(), Error> {
        self.only_ours("killing or freezing its programs")?;
        ask(&self.folder, request).await
    }

    fn only_ours(&self, what: &'static str) -> Result<(), Error> {
        if self.ours { Ok(()) } else { Err(Error::NotOurs { what }) }
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

/// Runs something that blocks for long off the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(lost) => Err(Error::Supervisor { reason: lost.to_string() }),
    }
}
