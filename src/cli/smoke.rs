//! `osdpl smoke`: tests a cloud as its users would use it, and deletes at the end what it has created.
//!
//! ```text
//! steps      reads the steps of the test
//! run        runs the steps, and deletes what they have created
//! openstack  sends requests to the APIs
//! disk       creates the disk image of the instance
//! ```

mod disk;
mod openstack;
mod run;
mod steps;

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::additions::warn_about;
use super::common::{CatalogOption, Target};
use super::duration;
use super::input::ReadError;
use super::keystone::{InterfaceArgument, read_access};
use super::output::{self, Format};
use openstack::{Connection, OpenStack};
use osdpl_client::{Http, HttpConfig, Permit};
use run::{Outcome, Run};
use steps::Step;

/// The time for which osdpl waits until an API accepts a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which osdpl waits for a response. It is longer than the time that Nova waits for a compute host
/// (`rpc_response_timeout`, 60 s).
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);

#[derive(Args)]
pub(crate) struct Arguments {
    /// The endpoints that the test uses.
    #[arg(long, value_enum, default_value_t = InterfaceArgument::Internal)]
    interface: InterfaceArgument,
    /// The id of the image that the instance boots. Default: a disk of osdpl, which needs an x86 processor with a BIOS,
    /// and contains no system.
    #[arg(long, value_name = "ID")]
    image: Option<String>,
    /// The id of the flavor of the instance. Default: a new flavor with 128 MiB of memory and a disk of 1 GiB.
    #[arg(long, value_name = "ID")]
    flavor: Option<String>,
    /// Keep the objects of the test.
    #[arg(long)]
    keep: bool,
    /// The time to wait until an object of the test is ready, and until all are deleted: a span such as 5m or 60s, or a
    /// number of seconds; 0 for no limit.
    #[arg(long, value_name = "SPAN", default_value = "5m", value_parser = duration::parse_limit)]
    timeout: Duration,
    /// A file with PEM certificates of CAs that osdpl trusts in addition to those of the system, for public endpoints.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    catalog: CatalogOption,
}

/// The result of a step, for the output.
struct Report<'a> {
    step: &'a Step,
    outcome: Outcome,
    time: Duration,
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let steps = steps::read(&self.catalog.texts()?)?;
        let openstack = self.log_in().await?;
        let is_text = self.output == Format::Text;
        let (interrupt, interrupt_deletion) = watch_signals();
        if is_text {
            let count = openstack.count();
            show(
                &mut std::io::stdout(),
                &format!("✔ {:<12} log in; Keystone's service catalogue has {count} APIs\n", "login"),
            );
        }
        let name = name();
        let id = |option: &Option<String>| option.clone().unwrap_or_default();
        let options = json!({"image": id(&self.image), "flavor": id(&self.flavor)});
        let mut run = Run::new(&openstack, &name, options, self.timeout);
        let mut reports = Vec::new();
        for step in &steps {
            if is_text && std::io::stderr().is_terminal() {
                show(&mut std::io::stderr(), &format!("… {:<12} {}{RETURN}", step.name, step.title));
            }
            let begin = now();
            let outcome = run.step(step, &interrupt).await;
            let report = Report { step, outcome, time: begin.elapsed() };
            if is_text {
                show(&mut std::io::stdout(), &line(&report));
            }
            reports.push(report);
            if interrupt.is_cancelled() {
                break;
            }
        }
        let leftovers = if self.keep {
            Vec::new()
        } else {
            if run.has_objects() {
                let text = "osdpl deletes the objects of the test; to stop this, press Ctrl-C\n";
                show(&mut std::io::stderr(), text);
            }
            run.clean_up(&interrupt_deletion).await
        };
        let end = End { is_complete: reports.len() == steps.len(), leftovers, name, is_kept: self.keep };
        let passed = reports.iter().filter(|report| report.outcome == Outcome::Passed).count();
        let is_skipped = |report: &Report| matches!(report.outcome, Outcome::Skipped(_));
        let skipped = reports.iter().filter(|report| is_skipped(report)).count();
        match self.output {
            Format::Text => output::print(end.text(passed, skipped, reports.len())),
            Format::Json => output::line(format_args!("{:#}", end.document(&reports))),
        }
        let is_success = end.is_complete && end.leftovers.is_empty() && passed > 0 && passed + skipped == reports.len();
        Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    #[allow(clippy::disallowed_methods, reason = "the command line reads the file that its user names")]
    async fn log_in(&self) -> anyhow::Result<OpenStack> {
        let client = self.target.cluster.client().await?;
        let deployment = self.target.find(&client).await?;
        let (extended, errors) = self.catalog.load_live(&client, &deployment).await?;
        warn_about(&errors);
        let interface = self.interface.into();
        let access = read_access(client, &deployment, &extended.catalog, interface).await?;
        let read = |file: &PathBuf| {
            std::fs::read(file).map_err(|error| ReadError::new(format_args!("{} (--ca)", file.display()), &error))
        };
        let ca = self.ca.as_ref().map(read).transpose()?.unwrap_or_default();
        let config = HttpConfig { address: None, timeout: CONNECT_TIMEOUT, ca, permit: Permit::default() };
        let timeout = RESPONSE_TIMEOUT.max(self.target.cluster.timeout());
        let http = Http::with_response_timeout(config, timeout);
        let client = self.target.cluster.patient_client(timeout).await?;
        OpenStack::log_in(Connection { client, http }, &access, interface).await
    }
}

/// The characters that erase the rest of a line on a terminal, and go to its begin.
const RETURN: &str = "\x1b[K\r";

/// Prints a text. Ignores errors, because osdpl must still delete the objects of the test if someone has closed the pipe
/// or the terminal.
fn show(output: &mut impl std::io::Write, text: &str) {
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

/// Returns a token that the first signal to end the process cancels, and a token that the second one cancels.
fn watch_signals() -> (CancellationToken, CancellationToken) {
    let tokens = (CancellationToken::new(), CancellationToken::new());
    let (first, second) = tokens.clone();
    tokio::spawn(async move {
        for token in [first, second] {
            if !signalled().await {
                return;
            }
            token.cancel();
        }
    });
    tokens
}

/// Waits for a signal that ends a process: Ctrl-C, SIGTERM or SIGHUP. Returns `false` if osdpl can't wait for signals.
async fn signalled() -> bool {
    let (Ok(mut terminate), Ok(mut hangup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup())) else {
        return false;
    };
    tokio::select! {
        result = tokio::signal::ctrl_c() => result.is_ok(),
        _ = terminate.recv() => true,
        _ = hangup.recv() => true,
    }
}

/// Returns a name for the objects of this run.
#[allow(clippy::disallowed_methods, reason = "the name contains the time, so that a person finds old objects")]
fn name() -> String {
    format!("osdpl-smoke-{:.0}", Timestamp::now()).replace(':', "-").to_lowercase()
}

#[allow(clippy::disallowed_methods, reason = "the command prints how long each step takes")]
fn now() -> Instant {
    Instant::now()
}

/// Describes a step in one line: its result, its time and, unless it has passed, the reason.
fn line(report: &Report<'_>) -> String {
    let Report { step: Step { name, title, .. }, outcome, time } = report;
    let seconds = time.as_secs_f64();
    match outcome {
        Outcome::Passed => format!("✔ {name:<12} {title} ({seconds:.1} s)\n"),
        Outcome::Skipped(why) => format!("· {name:<12} skipped: {why}\n"),
        Outcome::Failed(why) => format!("✘ {name:<12} {title}: failed after {seconds:.1} s\n    {why}\n"),
        Outcome::Interrupted => format!("✘ {name:<12} {title}: interrupted\n"),
    }
}

/// The result of the test apart from its steps.
struct End {
    /// Whether all steps have run.
    is_complete: bool,
    /// The objects that osdpl could not delete.
    leftovers: Vec<String>,
    /// The name of the objects.
    name: String,
    /// Whether osdpl keeps the objects because the user asked for it.
    is_kept: bool,
}

impl End {
    /// Returns the end of the text output.
    fn text(&self, passed: usize, skipped: usize, all: usize) -> String {
        let failed = all - passed - skipped;
        let mut text = format!("\n{passed} passed, {failed} failed, {skipped} skipped\n");
        if !self.is_complete {
            text.push_str("The test was interrupted.\n");
        }
        let name = &self.name;
        if self.is_kept {
            let _ = writeln!(text, "The objects of the test are kept. Their name is {name}.");
        } else if self.leftovers.is_empty() {
            text.push_str("osdpl has deleted the objects of the test.\n");
        } else {
            let _ = writeln!(text, "These objects may still exist. Their name is {name}; delete them yourself:");
            text.extend(self.leftovers.iter().map(|leftover| format!("    {leftover}\n")));
        }
        text
    }

    /// Returns the result as JSON.
    fn document(&self, reports: &[Report<'_>]) -> serde_json::Value {
        let step = |report: &Report<'_>| {
            let (result, reason) = match &report.outcome {
                Outcome::Passed => ("passed", None),
                Outcome::Skipped(why) => ("skipped", Some(why)),
                Outcome::Failed(why) => ("failed", Some(why)),
                Outcome::Interrupted => ("interrupted", None),
            };
            let (Step { name, title, .. }, seconds) = (report.step, report.time.as_secs_f64());
            json!({"name": name, "title": title, "result": result, "reason": reason, "seconds": seconds})
        };
        let steps: Vec<_> = reports.iter().map(step).collect();
        let Self { is_complete, leftovers, name, is_kept } = self;
        json!({"name": name, "complete": is_complete, "kept": is_kept, "steps": steps, "leftovers": leftovers})
    }
}

#[cfg(test)]
mod tests;
