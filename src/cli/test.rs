//! `osdpl test`: what users assert of their clouds' values, in their own CI; no cluster needed.

mod case;
mod judge;
mod shown;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use super::common::{CatalogOption, Document, read};
use super::output;
use crate::rule::Schemas;
use case::{Case, Suite};
use judge::Cloud;
use shown::{Outcome, Shown};

#[derive(Args)]
pub struct Arguments {
    /// Files with cases, `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    catalog: CatalogOption,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// For CI systems: `JUnit`'s XML.
    Junit,
}

/// The exit code where a file of cases is wrong.
const WRONG: u8 = 2;

impl Arguments {
    /// 0 where every case holds, 1 where one does not, 2 where a file can't be read or is wrong.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match self.judged() {
            Ok(shown) => {
                match self.output {
                    Format::Text => output::print(shown.text()),
                    Format::Json => output::line(serde_json::to_string_pretty(&shown)?),
                    Format::Junit => output::print(shown.junit()),
                }
                Ok(if shown.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            Err(error) => {
                eprintln!("osdpl: {error:#}");
                Ok(ExitCode::from(WRONG))
            }
        }
    }

    fn judged(&self) -> anyhow::Result<Shown> {
        let mut outcomes = Vec::new();
        for file in &self.files {
            let place = file.display().to_string();
            let suite = Suite::parse(&place, &read(file)?)?;
            for (index, case) in suite.cases.iter().enumerate() {
                let cloud = self.cloud(file, &suite, case).with_context(|| suite.place(index, None))?;
                outcomes.push(judged(&cloud, &suite, index, case)?);
            }
        }
        Ok(Shown::new(outcomes))
    }

    /// The cloud that a case is about.
    fn cloud(&self, file: &Path, suite: &Suite, case: &Case) -> anyhow::Result<Cloud> {
        let named = case.file.as_ref().or(suite.file.as_ref().filter(|_| case.spec.is_none()));
        let Some(named) = named else {
            let catalog = self.catalog.load()?;
            let schemas = Schemas::new(&catalog)?;
            let spec = case.spec.clone().context("it names no cloud: give it `spec`, or `file`")?;
            return Ok(Cloud::new(case.apply(spec), (None, &[]), catalog, &schemas));
        };
        // Beside the file of cases, wherever that is called from.
        let path = file.parent().unwrap_or(Path::new("")).join(named);
        let document = Document::read(&path)?;
        let deployment = document.deployment()?;
        let catalog = self.catalog.load_for(&path)?;
        let schemas = Schemas::new(&catalog)?;
        let spec = serde_json::to_value(&deployment.spec)?.as_object().cloned().unwrap_or_default();
        Ok(Cloud::new(case.apply(spec), (Some(&deployment), &document.beside), catalog, &schemas))
    }
}

/// What becomes of one case.
fn judged(cloud: &Cloud, suite: &Suite, index: usize, case: &Case) -> anyhow::Result<Outcome> {
    let mut failures = Vec::new();
    // A cloud that is refused has no values; whoever does not expect that is told why first.
    if !case.expect.iter().any(|expectation| expectation.refused.is_some()) {
        failures.extend(
            cloud.refusals().map(|refused| (suite.place(index, None), format!("the resource is refused: {refused}"))),
        );
    }
    if failures.is_empty() {
        for (number, expectation) in case.expect.iter().enumerate() {
            let place = suite.place(index, Some(number));
            let failed = cloud.judge(expectation).with_context(|| place.clone())?;
            failures.extend(failed.map(|failed| (place, failed)));
        }
    }
    Ok(Outcome::new(suite.place(index, None), case.name.clone(), failures))
}
