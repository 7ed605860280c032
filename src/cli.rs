//! The command line: the operator, and the tools around it. One file a subcommand.

mod approve;
mod charts;
mod common;
mod completions;
mod crd;
mod operator;
mod place;
mod plan;
mod render;
mod status;
mod wait;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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

#[derive(Subcommand)]
enum Command {
    /// Run the operator: watch the custom resource and drive helm.
    Operator(operator::Arguments),
    /// Print the custom resource definition.
    Crd(crd::Arguments),
    /// Print the values of each release; no cluster needed.
    Render(render::Arguments),
    /// Say what would be done now, and why the rest waits.
    Plan(plan::Arguments),
    /// Let the waiting changes go.
    Approve(approve::Arguments),
    /// Show the cloud: releases, components, what it waits for.
    Status(status::Arguments),
    /// Wait until the cloud is Ready.
    Wait(wait::Arguments),
    /// Lock, pull and list charts.
    Charts(charts::Arguments),
    /// Print shell completions.
    Completions(completions::Arguments),
    /// Start a program that ends when its parent does.
    #[command(name = crate::helm::exec::SUBCOMMAND, hide = true)]
    Exec(operator::ExecArguments),
}

/// Parses the command line, runs the command, and says how it went.
pub fn main() -> ExitCode {
    let plugin = std::env::args_os().next().is_some_and(|name| name.to_string_lossy().ends_with("kubectl-osdpl"));
    let name = if plugin { "kubectl osdpl" } else { "osdpl" };
    let matches = <Arguments as clap::CommandFactory>::command().bin_name(name).get_matches();
    let arguments = match <Arguments as clap::FromArgMatches>::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    let outcome = match arguments.command {
        Command::Exec(arguments) => arguments.run(),
        command => runtime().map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(run(command))),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("osdpl: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One thread: the operator waits far more than it computes, and every thread that allocates keeps an arena of its own resident.
/// Reading charts and records goes to the one thread for what blocks.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build()
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Operator(arguments) => arguments.run().await,
        Command::Crd(arguments) => arguments.run(),
        Command::Render(arguments) => arguments.run(),
        Command::Plan(arguments) => arguments.run().await,
        Command::Approve(arguments) => arguments.run().await,
        Command::Status(arguments) => arguments.run().await,
        Command::Wait(arguments) => arguments.run().await,
        Command::Charts(arguments) => arguments.run().await.map(|()| ExitCode::SUCCESS),
        Command::Completions(arguments) => Ok(arguments.run::<Arguments>()),
        Command::Exec(arguments) => arguments.run(),
    }
}
