//! `make bench`: compares the operator with plain helm on one control plane.
//!
//! The benchmark installs the same charts with the same values by four methods: helm, one release after another; helm,
//! each release as soon as its dependencies are ready; helm, all releases at once; the operator. Each installation gets
//! a new namespace. The methods take turns, so that a change in the machine's speed affects all of them.
//!
//! An installation ends when everything is up: each helm process has exited, each workload is available, and each Job
//! is complete. If the operator installs the cloud, the resource must also be Ready. The simulated pods wait for each
//! other as the pods of OpenStack-Helm's charts do. If they did not wait, the order in which the releases are installed
//! would make no difference.

mod cloud;
mod cpu;
mod operator;
mod plain_helm;
mod plan;
mod readiness;
mod report;
mod scale;
mod steady;
mod validate;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use cluster::{Audit, Cluster, Options, Program};

use cloud::{Cloud, World};
use report::{Method, Report};

/// Compares the operator with plain helm.
#[derive(Parser)]
struct Arguments {
    /// A folder of charts: archives, or chart directories.
    #[arg(long)]
    charts: PathBuf,
    /// The program `osdpl`, which contains the operator.
    #[arg(long)]
    osdpl: PathBuf,
    /// The file with the `OpenStackDeployment` to install.
    #[arg(long)]
    sample: PathBuf,
    /// The number of measurements of each method. The report contains the medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure only these methods.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Method::ALL)]
    methods: Vec<Method>,
    /// Skip the measurements on the installed cloud: memory, an idle minute, the change of one key of the values.
    #[arg(long)]
    no_steady: bool,
    /// Measure the operator with a large cloud, instead of comparing it with plain helm.
    #[arg(long)]
    scale: bool,
    /// Measure how long osdpl takes to compute a reconcile pass, and to validate each file in the sample's folder,
    /// instead of comparing the operator with plain helm. Needs no cluster and no charts.
    #[arg(long)]
    plan: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run(&Arguments::parse())).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.plan {
        plan::measure(&arguments.sample)?;
        let samples = arguments.sample.parent().context("the sample is in no folder")?;
        validate::measure(&arguments.osdpl, samples)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.scale {
        let scale = Box::pin(scale::measure(&arguments.osdpl, &arguments.charts, &arguments.sample)).await?;
        let mut report = Report::default();
        report.scale = Some(scale);
        print!("\n{report}");
        return Ok(report.code());
    }
    println!("bench: a control plane with {} simulated nodes", Options::default().nodes.len());
    let options = Options::default().with_programs(&[Program::Helm4]).with_audit(Audit::default());
    let cluster = Cluster::start(options).await?;
    let world = World::new(&cluster, &arguments.osdpl, &arguments.charts, &arguments.sample).await?;
    let mut report = Report::default();
    for round in 0..arguments.rounds {
        // Start each round with another method, so that a gradual change of the machine's speed affects all methods.
        for index in 0..arguments.methods.len() {
            let method = arguments.methods[(index + round) % arguments.methods.len()];
            let cloud = Cloud::fresh(&world, &format!("bench-{round}-{index}")).await?;
            let cost = measure(method, &cloud).await.with_context(|| format!("round {}, {method}", round + 1))?;
            println!("round {}: {cost} {method}", round + 1);
            report.add(method, cost);
            cloud.remove().await.context("cleaning up")?;
        }
    }
    if !arguments.no_steady {
        let cloud = Cloud::fresh(&world, "bench-steady").await?;
        report.steady = Some(steady::measure(&cloud, &cluster).await?);
    }
    print!("\n{report}");
    Ok(report.code())
}

async fn measure(method: Method, cloud: &Cloud<'_>) -> anyhow::Result<report::Cost> {
    match method {
        Method::Sequential => plain_helm::sequential(cloud).await,
        Method::Ordered => plain_helm::ordered(cloud).await,
        Method::AtOnce => plain_helm::at_once(cloud).await,
        Method::Operator => operator::install(cloud).await,
    }
}
