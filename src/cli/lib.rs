//! The command line: the operator, and the tools around it. One file a subcommand.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod above;
mod added;
mod adopt;
mod approve;
mod catalog;
mod charts;
mod common;
mod completions;
mod connect;
mod crd;
mod detach;
mod diff;
mod document;
mod explain;
mod forget;
mod live;
mod manifests;
mod offline;
mod operator;
mod output;
mod place;
mod plan;
mod preset;
pub mod reference;
mod render;
mod said;
mod site;
mod span;
mod status;
mod test;
mod validate;
mod wait;
mod why;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use osdpl_core::catalog::nearest;

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

/// The exit code where a file that was named could not be read.
const UNREADABLE: u8 = 2;

#[derive(Subcommand)]
enum Command {
    /// Run the operator: watch the custom resource and drive helm.
    Operator(operator::Arguments),
    /// Print the custom resource definition.
    Crd(crd::Arguments),
    /// Print the values of each release, or write them with the helm commands that take them; no cluster needed.
    ///
    /// With --out the folder has a values file a release, and install.sh, which runs the operator's own helm commands in the order of needs.
    /// With --credentials they are real: install.sh then does by hand what the operator would do, and what it did is in sync.
    /// Ends with code 1 where the resource is refused, 2 where a file can't be read.
    Render(render::Arguments),
    /// Say where a value comes from: the layer that won, those that it shadows, the chart's default.
    ///
    /// Of a secret it says where it comes from, never what it is. With a file no cluster is needed.
    ///
    /// Ends with code 1 where neither a layer nor a chart has the path, or the resource has no sound shape or names what there is not, 2 where a file
    /// can't be read; what else it is refused for is noted, and the value is explained all the same.
    Explain(explain::Arguments),
    /// Say what would be done now, and why the rest waits.
    ///
    /// Against the cluster it reads what the operator reads, with your rights: helm's records and the credentials (Secrets), workloads, Jobs
    /// and pods; Services, volume claims, StorageClasses and nodes where you may. Nothing is written and no helm runs. A plan follows from a catalogue: where yours is not the operator's, name the operator's.
    /// Ends with code 1 where the resource is refused, 2 where a file can't be read.
    Plan(plan::Arguments),
    /// Compare what runs, by helm's records, with what is wanted: values and, with --manifests, objects. Secrets do not show.
    ///
    /// It reads what `plan` reads, with your rights. Ends with code 0 where nothing differs, 1 where something does, 2 where something can't be compared.
    Diff(diff::Arguments),
    /// Say everything that is wrong with files, before they are applied; no cluster needed.
    ///
    /// Ends with code 0 where nothing is refused, 1 where something is (with --strict: where there is a warning, too), 2 where something can't be
    /// read.
    Validate(validate::Arguments),
    /// Say whether clouds have the values that you expect of them: cases out of files, for your own CI; no cluster needed.
    ///
    /// Ends with code 0 where every case holds, 1 where one does not, 2 where a file is wrong. deploy/tests.yaml has one of each kind.
    Test(test::Arguments),
    /// Describe a cloud that runs already, installed by hand or by others; with releases, take these over.
    ///
    /// It finds helm's releases of the catalogue's charts, and writes the OpenStackDeployment that describes them with the passwords that they
    /// have: nothing in the cluster is changed. With releases it asks the operator to take them over, which starts no helm where nothing differs.
    Adopt(adopt::Arguments),
    /// List services, presets, features and OpenStack releases, or describe one; no cluster needed.
    Catalog(catalog::Arguments),
    /// Compare presets; no cluster needed.
    Preset(preset::Arguments),
    /// Let the waiting changes go.
    Approve(approve::Arguments),
    /// Let releases go, or the whole cloud: everything runs on, and helm goes on with it by hand.
    Detach(detach::Arguments),
    /// Have Nova and Neutron forget hosts whose nodes are gone for good.
    Forget(forget::Arguments),
    /// Show the cloud: releases, components, what it waits for.
    Status(status::Arguments),
    /// Say why something is not ready: the whole chain to its root, and where to look.
    ///
    /// It reads what `plan` reads, with your rights, and ends with code 2 where something is not ready.
    Why(why::Arguments),
    /// Wait until the cloud is Ready.
    ///
    /// Ends with code 0 where it is, 1 where the time is over, 2 where it can't go on without help.
    Wait(wait::Arguments),
    /// Lock, pull and list charts.
    Charts(charts::Arguments),
    /// Print shell completions.
    Completions(completions::Arguments),
}

/// Parses the command line, runs the command, and says how it went.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default().to_string_lossy().into_owned();
    if called.ends_with(completions::KUBECTL) {
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        return completions::kubectl(Arguments::command(), &words);
    }
    // Ours alone, so that neither help nor completions know of it.
    let outcome = if words.next().is_some_and(|word| word == osdpl_operator::helm::exec::SUBCOMMAND) {
        operator::ExecArguments::parse_from(std::env::args_os().skip(1)).run()
    } else {
        let name = if called.ends_with("kubectl-osdpl") { "kubectl osdpl" } else { "osdpl" };
        let matches = Arguments::command().bin_name(name).try_get_matches();
        let matches = matches.unwrap_or_else(|error| hinted(error).exit());
        let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        runtime().map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(run(arguments.command)))
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("osdpl: {error:#}");
        if common::is_unread(&error) { ExitCode::from(UNREADABLE) } else { ExitCode::FAILURE }
    })
}

/// The error with the command that is near: clap has a hint for a command, and none for one that `help` is asked about.
fn hinted(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::InvalidSubcommand
        && error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
    {
        let command = Arguments::command();
        let mut named = &command;
        for word in std::env::args_os().skip(1) {
            // What is no UTF-8 names no command.
            named = word.to_str().and_then(|word| named.find_subcommand(word)).unwrap_or(named);
        }
        let near = nearest(word, named.get_subcommands().map(clap::Command::get_name)).map(str::to_owned);
        if let Some(near) = near {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near]));
        }
    }
    error
}

/// One thread: the operator waits far more than it computes, and every thread that allocates keeps an arena of its own resident.
/// Reading charts and records goes to the one thread for what blocks.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build()
}

/// Says why a command came to nothing, whatever the reason.
fn failed(error: &anyhow::Error) -> ExitCode {
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
        // Code 2 says something of the cloud there.
        Command::Why(arguments) => Ok(arguments.run().await.unwrap_or_else(|error| failed(&error))),
        Command::Wait(arguments) => Ok(arguments.run().await.unwrap_or_else(|error| failed(&error))),
        Command::Charts(arguments) => arguments.run().await.map(|()| ExitCode::SUCCESS),
        Command::Completions(arguments) => Ok(arguments.run(Arguments::command())),
    }
}
