//! `osdpl validate`: reports all problems of resources before they are applied; no cluster needed.

mod files;
mod sarif;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::cluster_info_options::ClusterInfoOptions;
use super::common::CatalogOption;
use super::{UNREADABLE, output};
use files::Inputs;
use osdpl_lint::validate::Report;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Files, folders (their .yaml, .yml and .json files), or `-` for standard input, which is the default.
    #[arg(value_name = "FILE|FOLDER|-")]
    paths: Vec<PathBuf>,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Exit with code 1 not only for errors, but also for warnings.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    cluster_info: ClusterInfoOptions,
    #[command(flatten)]
    catalog: CatalogOption,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
    /// SARIF 2.1.0 for code reviews.
    Sarif,
}

impl Arguments {
    /// Prints all findings. Returns exit code 0 if there are no errors, 1 if there are errors, and 2 if a file or
    /// folder can't be read, or if the catalogue is invalid. With `--strict`, a warning counts as an error.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let stdin = [PathBuf::from("-")];
        let inputs = Inputs::read(if self.paths.is_empty() { &stdin[..] } else { &self.paths });
        let report = match self.validate(&inputs) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("osdpl: {error:#}");
                return Ok(ExitCode::from(UNREADABLE));
            }
        };
        match self.output {
            Format::Text => output::print(text::format(&report)),
            Format::Json => output::line(serde_json::to_string_pretty(&report)?),
            Format::Sarif => output::line(serde_json::to_string_pretty(&sarif::log(&report))?),
        }
        let counted = report.summary.errors + if self.strict { report.summary.warnings } else { 0 };
        Ok(match (inputs.is_complete(), counted) {
            (false, _) => ExitCode::from(UNREADABLE),
            (true, 0) => ExitCode::SUCCESS,
            (true, _) => ExitCode::FAILURE,
        })
    }

    fn validate(&self, inputs: &Inputs) -> anyhow::Result<Report> {
        let mut report = self.catalog.validate(&inputs.documents, &self.cluster_info.to_cluster_info())?;
        inputs.arguments().for_each(|argument| report.check_argument(&argument));
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
