//! The command line program `cluster`: starts, stops and breaks local control planes, and starts and stops real nodes.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use cluster::{Audit, Cluster, Component, Folder, Node, Options, Program, programs, real, supervisor};

/// Prints a line to standard output. Unlike `println!`, it does not panic if the reader has closed the pipe.
macro_rules! say {
    ($($argument:tt)*) => {
        drop(writeln!(std::io::stdout(), $($argument)*))
    };
}

/// A real Kubernetes control plane on this machine, without containers.
#[derive(Parser)]
#[command(name = "cluster", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster in a folder. The cluster runs until `cluster down`. Does nothing if a cluster is already running
    /// in the folder.
    Up(Up),
    /// Stop the cluster whose files are in the folder, and delete these files.
    Down {
        /// The cluster's folder.
        folder: PathBuf,
    },
    /// Print shell commands that set KUBECONFIG and add kubectl and helm to PATH. Run them with `eval`.
    Env {
        /// The cluster's folder.
        folder: PathBuf,
    },
    /// Write a kubeconfig for a service account, and print the kubeconfig's path. With `--bare`, print a token instead.
    Token {
        /// The cluster's folder.
        folder: PathBuf,
        /// `NAMESPACE/NAME` of the service account.
        account: String,
        /// Print a token of the service account, and write no kubeconfig.
        #[arg(long)]
        bare: bool,
    },
    /// Find or build programs, and print the path of each program.
    Programs {
        /// The programs to find or build; by default the programs of the control plane and kubectl.
        names: Vec<Program>,
    },
    /// Find or create the Python environment in which tests run the catalogue's Python programs. Print the path of the
    /// environment's interpreter.
    Python,
    /// Kill, freeze, continue or restart a program of the control plane.
    Fault {
        /// The cluster's folder.
        folder: PathBuf,
        /// Whether to kill, freeze, continue or restart the program.
        action: Action,
        /// The program to kill, freeze, continue or restart.
        component: Component,
    },
    /// Start or stop real nodes with kubelets, containerd and real images.
    #[command(subcommand)]
    Real(real::Command),
    /// Run the supervisor of a cluster until the caller closes standard input or a signal arrives.
    #[command(hide = true)]
    Supervise { folder: PathBuf },
    /// Replace this process with a program. The kernel kills the program when the process PARENT exits.
    #[command(hide = true)]
    Exec {
        parent: i32,
        program: PathBuf,
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

#[derive(clap::Args)]
struct Up {
    /// The folder of the cluster; created if it does not exist.
    folder: PathBuf,
    /// Provide an additional program, such as `helm4`; can be repeated. The programs of the control plane and kubectl
    /// are always provided.
    #[arg(long = "with", value_name = "PROGRAM")]
    programs: Vec<Program>,
    /// The number of simulated nodes. Each has the labels of every OpenStack role.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Write an audit log of every mutating request.
    #[arg(long)]
    audit: bool,
    /// Record reads of Secrets in the audit log, in addition to mutating requests.
    #[arg(long, requires = "audit")]
    audit_secret_reads: bool,
    /// Use the existing cluster of this kubeconfig instead of starting one. `cluster down` does not change the existing
    /// cluster.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// The Kubernetes minor version that the control plane emulates, such as 1.34.
    #[arg(long, value_name = "VERSION")]
    emulated_version: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Action {
    /// Kill a program with SIGKILL.
    Kill,
    /// Stop a program with SIGSTOP: its connections stay open, but it does not respond.
    Freeze,
    /// Continue a frozen program with SIGCONT.
    Thaw,
    /// Start a killed program again with the same command line.
    Start,
}

// The kernel kills a program of the supervisor when the thread that started the program exits. So tokio runs everything
// on the main thread, which lives as long as the supervisor.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Arguments::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cluster: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(up) => up_and_report(up).await?,
        Command::Down { folder } => {
            let ran = Cluster::down(&folder)?;
            say!("{}", if ran { "down" } else { "no cluster was running" });
        }
        Command::Env { folder } => env(&Cluster::attach(&folder).await?),
        Command::Token { folder, account, bare } => token(&folder, &account, bare).await?,
        Command::Programs { names } => print_programs(names)?,
        Command::Python => say!("{}", programs::python::ensure(&mut programs::print_progress)?.display()),
        Command::Fault { folder, action, component } => fault(&folder, action, component).await?,
        Command::Real(command) => real::run(command).await?,
        Command::Supervise { folder } => {
            return Ok(ExitCode::from(supervisor::run(&Folder::new(&folder)?).await));
        }
        Command::Exec { parent, program, arguments } => {
            let error = supervisor::exec(parent, &program, &arguments);
            return Err(error).with_context(|| format!("cannot run {}", program.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn up_and_report(up: Up) -> anyhow::Result<()> {
    let started = std::time::Instant::now();
    let options = Options {
        folder: Some(up.folder),
        programs: up.programs,
        nodes: Node::all_in_one(up.nodes),
        audit: up.audit.then_some(Audit { secret_reads: up.audit_secret_reads }),
        emulated_version: up.emulated_version,
        environment: std::collections::BTreeMap::new(),
        existing: up.kubeconfig,
    };
    let cluster = Cluster::up(options).await?;
    say!("up after {:.1} s: {}", started.elapsed().as_secs_f32(), cluster.folder().path().display());
    env(&cluster);
    Ok(())
}

fn env(cluster: &Cluster) {
    say!("export KUBECONFIG={}", cluster.kubeconfig().display());
    say!("export PATH={}:$PATH", cluster.folder().bin().display());
}

async fn token(folder: &std::path::Path, account: &str, bare: bool) -> anyhow::Result<()> {
    let (namespace, name) = account.split_once('/').context("the service account must be given as NAMESPACE/NAME")?;
    let cluster = Cluster::attach(folder).await?;
    if bare {
        say!("{}", cluster.token(namespace, name).await?);
    } else {
        say!("{}", cluster.kubeconfig_for(namespace, name).await?.display());
    }
    Ok(())
}

fn print_programs(names: Vec<Program>) -> anyhow::Result<()> {
    let wanted = if names.is_empty() { Program::CONTROL_PLANE.to_vec() } else { names };
    for (program, path) in programs::ensure(&wanted, &mut programs::print_progress)?.iter() {
        say!("{program}\t{}", path.display());
    }
    Ok(())
}

async fn fault(folder: &std::path::Path, action: Action, component: Component) -> anyhow::Result<()> {
    let cluster = Cluster::attach(folder).await?;
    match action {
        Action::Kill => cluster.kill(component).await?,
        Action::Freeze => cluster.freeze(component).await?,
        Action::Thaw => cluster.thaw(component).await?,
        Action::Start => cluster.restart(component).await?,
    }
    Ok(())
}
