//! The command line: the operator and its tools. Each subcommand has one module, a variant of `Command` and an arm of
//! `run`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod additions;
mod adopt;
mod approve;
mod catalog;
mod chart_options;
mod charts;
mod cluster_info_options;
mod common;
mod completions;
mod connect;
mod crd;
mod detach;
mod diff;
mod document;
mod duration;
mod explain;
mod forget;
mod input;
mod keystone;
mod kubeconfig;
mod limited_pull;
mod live;
mod manifests;
mod offline;
mod openrc;
mod operator;
mod output;
mod parent_effect;
mod plan;
mod preset;
mod preset_comparison;
pub mod reference;
mod render;
mod shell;
mod smoke;
mod status;
mod test;
mod validate;
mod value_change;
mod wait;
mod why;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use futures::future::LocalBoxFuture;

use osdpl_core::catalog::nearest_name;
use osdpl_operator::helm;

/// Runs OpenStack from the upstream OpenStack-Helm charts.
#[derive(Parser)]
#[command(
    name = "osdpl",
    version,
    about,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The exit code if osdpl can't read a file that the user named.
const UNREADABLE: u8 = 2;

#[derive(Subcommand)]
enum Command {
    /// Run the operator: watch the custom resource and run helm.
    Operator(operator::Arguments),
    /// Print the custom resource definitions.
    Crd(crd::Arguments),
    /// Print the values of each release, or write them to files, with the helm commands that use these files; no
    /// cluster needed.
    ///
    /// The folder of --out contains one values file per release, and install.sh, which runs the same helm commands as
    /// the operator, in dependency order. With --credentials the values contain the real credentials: the releases
    /// that install.sh installs then match the operator's desired state. Exits with code 1 if the resource is refused,
    /// 2 if a file can't be read.
    Render(render::Arguments),
    /// Explain where a value comes from: the layer that sets it, the layers that it overrides, and the chart's default.
    ///
    /// osdpl does not show secret values, only where they come from. With --file, the command needs no cluster.
    ///
    /// Exits with code 1 if neither a layer nor a chart has the path, or if the resource does not match its schema or
    /// uses unknown names, and with code 2 if a file can't be read. If the resource has other errors, osdpl still
    /// explains the value, and prints the number of errors.
    Explain(explain::Arguments),
    /// Show what the operator would do now, and why releases wait.
    ///
    /// osdpl reads the same objects as the operator, with your permissions: helm's records and the credentials
    /// (Secrets), workloads, Jobs and pods, and, where permitted, Services, volume claims, StorageClasses and nodes. It
    /// writes nothing and does not run helm. A plan depends on the catalogue: if the operator does not use the built-in
    /// catalogue, name the operator's catalogue with --catalog. Exits with code 1 if the resource is refused, 2 if a
    /// file can't be read.
    Plan(plan::Arguments),
    /// Compare the releases recorded by helm with the desired state: values and, with --manifests, objects. Secrets are
    /// not shown.
    ///
    /// osdpl reads the same objects as for `plan`, with your permissions. Exits with code 0 if nothing differs, 1 if
    /// something differs, 2 if something can't be compared.
    Diff(diff::Arguments),
    /// Validate files before they are applied; no cluster needed.
    ///
    /// Exits with code 0 if there are no errors, 1 if there are errors (with --strict also for warnings), 2 if a file
    /// or folder can't be read, or if the catalogue is invalid.
    Validate(validate::Arguments),
    /// Test clouds in your CI: compare their values with the expectations in test files; no cluster needed.
    ///
    /// Exits with code 0 if every case passes, 1 if one fails, 2 if a file or a case is invalid. deploy/tests.yaml has
    /// examples of cases.
    Test(test::Arguments),
    /// Describe a cloud that was installed by hand or by other tools; with release names or --all, adopt its releases.
    ///
    /// Without either, osdpl finds helm releases of the catalogue's charts, and writes the OpenStackDeployment that
    /// describes them, with their passwords. It then changes nothing in the cluster. With release names or --all, osdpl
    /// asks the operator to adopt the releases. The operator does not run helm for a release that matches the spec.
    Adopt(adopt::Arguments),
    /// List services, presets, features and OpenStack releases, or describe one; no cluster needed.
    Catalog(catalog::Arguments),
    /// Compare presets; no cluster needed.
    Preset(preset::Arguments),
    /// Approve the changes that wait for approval.
    Approve(approve::Arguments),
    /// Stop managing releases, or the whole cloud: everything keeps running, and you can manage it by hand with helm.
    Detach(detach::Arguments),
    /// Remove hosts of permanently deleted nodes from Nova and Neutron.
    Forget(forget::Arguments),
    /// Show the status of the cloud: its releases and components, and the causes of delays and failures.
    ///
    /// Exits with code 0 if the cloud is Ready, 2 if it is not. With --watch, the command waits until it is Ready.
    Status(status::Arguments),
    /// Explain why something is not ready: the complete chain to its root cause, and the objects to inspect.
    ///
    /// osdpl reads the same objects as for `plan`, with your permissions. Exits with code 2 if something is not ready.
    Why(why::Arguments),
    /// Print how to log in to the cloud as its administrator: eval "$(osdpl openrc)".
    ///
    /// osdpl reads Keystone's release record (a Secret) with your permissions. Without --show-secrets, the output does
    /// not contain the password: the shell that evaluates the output runs osdpl again to get it.
    Openrc(openrc::Arguments),
    /// Test the cloud as its users would: upload an image, start an instance, and so on; then delete these objects.
    ///
    /// The steps and the services that they need are in values/smoke.yaml. The command logs in as the cloud's
    /// administrator, and reads the password with your permissions, as `osdpl openrc` does. It reaches internal
    /// endpoints through the API server, for which you need the right to use services/proxy in the namespaces of the
    /// cloud. Exits with code 0 if no step fails and osdpl has deleted its objects, 1 if not, 2 if a file can't be
    /// read.
    Smoke(smoke::Arguments),
    /// Wait until the cloud is Ready.
    ///
    /// Exits with code 0 if the cloud is Ready, 1 after the timeout, 2 if the cloud needs manual intervention.
    Wait(wait::Arguments),
    /// Lock, pull and list charts.
    Charts(charts::Arguments),
    /// Print shell completions.
    Completions(completions::Arguments),
}

/// Parses the command line, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    disable_core_dumps();
    let mut arguments_os = std::env::args_os();
    let program_name = arguments_os.next().unwrap_or_default().to_string_lossy().into_owned();
    if program_name.ends_with(completions::KUBECTL) {
        let arguments: Vec<String> = arguments_os.map(|word| word.to_string_lossy().into_owned()).collect();
        return completions::kubectl(Arguments::command(), &arguments);
    }
    // The operator starts osdpl itself with the following two subcommands: one runs helm, the other one kills helm.
    // Users do not need them, so help and completions do not list them.
    let subcommand = arguments_os.next().unwrap_or_default();
    let result = if subcommand == helm::exec::SUBCOMMAND {
        operator::ExecArguments::parse_from(std::env::args_os().skip(1)).run()
    } else if subcommand == helm::guard::SUBCOMMAND {
        operator::GuardArguments::parse_from(std::env::args_os().skip(1)).run()
    } else {
        let name = if program_name.ends_with("kubectl-osdpl") { "kubectl osdpl" } else { "osdpl" };
        let matches = Arguments::command().bin_name(name).try_get_matches();
        let matches = matches.unwrap_or_else(|error| with_suggestion(error).exit());
        let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        // Box the future to keep the program small: the compiler copies the code of an unboxed future into `block_on`
        // once for each kind of runtime.
        let command: LocalBoxFuture<'_, anyhow::Result<ExitCode>> = Box::pin(run(arguments.command));
        osdpl_client::runtime().map_err(anyhow::Error::from).and_then(|runtime| {
            let result = runtime.block_on(command);
            // Do not wait for blocking work, such as DNS: an operator that has lost its Lease must end at once.
            runtime.shutdown_background();
            result
        })
    };
    result.unwrap_or_else(|error| {
        eprintln!("osdpl: {error:#}");
        if input::is_read_error(&error) { ExitCode::from(UNREADABLE) } else { ExitCode::FAILURE }
    })
}

/// The limit for the size of a core dump of this process, in bytes.
///
/// A limit of 0 prevents only core files: if the node's `core_pattern` names a program, the kernel pipes core dumps to
/// this program (`core(5)`). With a limit of 1, the kernel does not start the program (Linux: `fs/coredump.c`). It also
/// writes no core file, because every core dump is larger than 1 byte.
const CORE_LIMIT: u64 = 1;

/// Keeps the kernel from writing the memory of this process to a file or to a program, because the memory contains the
/// passwords of the cloud. helm, which reads passwords from its standard input, inherits the limit.
///
/// Setting the limit fails only if the limit is 0 already: an unprivileged process may lower its limit, but not raise
/// it. The function ignores this failure.
fn disable_core_dumps() {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(CORE_LIMIT), maximum: Some(CORE_LIMIT) });
    // This setting protects only osdpl: the kernel resets it when a process executes a program, such as helm
    // (`prctl(2)`).
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Adds a suggestion (a command of a similar name) to clap's error about an unknown command. clap does so for a
/// misspelled command, but not for one that follows `help`.
fn with_suggestion(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::InvalidSubcommand
        && error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
    {
        let command = Arguments::command();
        let mut parent = &command;
        for word in std::env::args_os().skip(1) {
            // Skip a word that is not UTF-8, because no command has such a name.
            parent = word.to_str().and_then(|word| parent.find_subcommand(word)).unwrap_or(parent);
        }
        let similar = nearest_name(word, parent.get_subcommands().map(clap::Command::get_name)).map(str::to_owned);
        if let Some(similar) = similar {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![similar]));
        }
    }
    error
}

/// Prints the error of a command to standard error, and returns the exit code.
fn print_failure(error: &anyhow::Error) -> ExitCode {
    eprintln!("osdpl: {error:#}");
    ExitCode::FAILURE
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Operator(arguments) => arguments.run().await,
        Command::Crd(arguments) => arguments.run(),
        Command::Render(arguments) => Box::pin(arguments.run()).await,
        Command::Explain(arguments) => Box::pin(arguments.run()).await,
        Command::Plan(arguments) => Box::pin(arguments.run()).await,
        Command::Diff(arguments) => Box::pin(arguments.run()).await,
        Command::Validate(arguments) => arguments.run(),
        Command::Test(arguments) => Ok(arguments.run()),
        Command::Adopt(arguments) => arguments.run().await,
        Command::Catalog(arguments) => arguments.run().await,
        Command::Preset(arguments) => arguments.run(),
        Command::Approve(arguments) => arguments.run().await,
        Command::Detach(arguments) => arguments.run().await,
        Command::Forget(arguments) => arguments.run().await,
        Command::Status(arguments) => arguments.run().await,
        // Other commands exit with code 2 if a file can't be read. `why` and `wait` exit with code 1 on any error,
        // because their code 2 means that something is not ready, or that the cloud needs manual intervention.
        Command::Why(arguments) => Ok(arguments.run().await.unwrap_or_else(|error| print_failure(&error))),
        Command::Openrc(arguments) => arguments.run().await,
        Command::Smoke(arguments) => Box::pin(arguments.run()).await,
        Command::Wait(arguments) => Ok(arguments.run().await.unwrap_or_else(|error| print_failure(&error))),
        Command::Charts(arguments) => arguments.run().await.map(|()| ExitCode::SUCCESS),
        Command::Completions(arguments) => Ok(arguments.run(Arguments::command())),
    }
}
