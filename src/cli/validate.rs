//! `osdpl validate`: reports all problems of resources before they are applied; no cluster needed.

mod files;
mod sarif;
mod shown;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use k8s_openapi::jiff::Timestamp;

use super::added::in_texts;
use super::common::CatalogOption;
use super::site::SiteOptions;
use super::{UNREADABLE, output};
use files::Found;
use osdpl_core::catalog::ExtendedCatalog;
use osdpl_lint::validate::{Report, Schemas, report};

#[derive(Args)]
pub struct Arguments {
    /// Files, folders (their .yaml, .yml and .json files), or `-` for standard input, which is the default.
    #[arg(value_name = "FILE|FOLDER|-")]
    paths: Vec<PathBuf>,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Exit with code 1 for warnings, too.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    site: SiteOptions,
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
    /// Exits with 0 without errors (with `--strict`: without findings), 1 with errors, 2 if something can't be read.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let stdin = [PathBuf::from("-")];
        let found = Found::read(if self.paths.is_empty() { &stdin[..] } else { &self.paths });
        let report = match self.validate(&found) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("osdpl: {error:#}");
                return Ok(ExitCode::from(UNREADABLE));
            }
        };
        match self.output {
            Format::Text => output::print(shown::text(&report)),
            Format::Json => output::line(serde_json::to_string_pretty(&report)?),
            Format::Sarif => output::line(serde_json::to_string_pretty(&sarif::log(&report))?),
        }
        let counted = report.summary.errors + if self.strict { report.summary.warnings } else { 0 };
        Ok(match (found.is_whole(), counted) {
            (false, _) => ExitCode::from(UNREADABLE),
            (true, 0) => ExitCode::SUCCESS,
            (true, _) => ExitCode::FAILURE,
        })
    }

    fn validate(&self, found: &Found) -> anyhow::Result<Report> {
        let added = in_texts(found.texts.iter().map(|(name, text)| (name.as_str(), text.as_str())))?;
        let ExtendedCatalog { catalog, rejected: refused, .. } = self.catalog.with(&added)?;
        let schemas = Schemas::new(&catalog)?;
        let mut report = report(&found.documents, &catalog, &schemas, &self.site.site(), Some(now()));
        report.add_refused(&found.documents, &refused);
        found.named().for_each(|named| report.check_argument(&named));
        Ok(report)
    }
}

#[allow(clippy::disallowed_methods, reason = "the command line checks expiry against the system clock")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests;
