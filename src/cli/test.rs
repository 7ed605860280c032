//! `osdpl test`: checks users' assertions about the values of their clouds, in their own CI; no cluster needed.

mod case;
mod judge;
mod shown;
mod value;
mod written;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::added::in_file;
use super::common::{CatalogOption, Document, display_name, read};
use super::offline::shape_errors;
use super::output;
use case::{Case, InvalidCase, Suite};
use judge::{Basis, Cloud, Subject};
use osdpl_core::catalog::Addition;
use osdpl_lint::validate::Schemas;
use shown::{Outcome, TestReport};

#[derive(Args)]
pub struct Arguments {
    /// Files with test cases, `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    catalog: CatalogOption,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
    /// `JUnit` XML for CI systems.
    Junit,
}

/// The exit code if a file of cases, or a case, is invalid.
const WRONG: u8 = 2;

impl Arguments {
    /// Returns 0 if every case passes, 1 if one fails, 2 if a file can't be read, or if it or one of its cases is
    /// invalid. The other cases are reported anyway.
    pub fn run(&self) -> ExitCode {
        self.run_files().unwrap_or_else(|error| {
            eprintln!("osdpl: {error:#}");
            ExitCode::from(WRONG)
        })
    }

    fn run_files(&self) -> anyhow::Result<ExitCode> {
        let mut bases = Bases::new(&self.catalog)?;
        let shown = TestReport::new(self.files.iter().flat_map(|file| outcomes(file, &mut bases)).collect());
        match self.output {
            Format::Text => output::print(shown.text()),
            Format::Json => output::line(serde_json::to_string_pretty(&shown)?),
            Format::Junit => output::print(shown.junit()),
        }
        Ok(match (shown.wrong, shown.failed) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) => ExitCode::FAILURE,
            _ => ExitCode::from(WRONG),
        })
    }
}

/// Loaded catalogues by their additions: loading one takes longer than checking a case, and most cases have the same
/// additions.
struct Bases<'a> {
    option: &'a CatalogOption,
    known: Vec<(Vec<Addition>, Rc<Basis>)>,
}

impl<'a> Bases<'a> {
    /// # Errors
    /// If the catalogue itself is invalid.
    fn new(option: &'a CatalogOption) -> anyhow::Result<Self> {
        let mut bases = Self { option, known: Vec::new() };
        bases.with(Vec::new())?;
        Ok(bases)
    }

    fn with(&mut self, additions: Vec<Addition>) -> anyhow::Result<Rc<Basis>> {
        if let Some((_, basis)) = self.known.iter().find(|(known, _)| *known == additions) {
            return Ok(Rc::clone(basis));
        }
        let catalog = self.option.load_with(&additions)?;
        let basis = Rc::new(Basis { schemas: Schemas::new(&catalog)?, catalog });
        self.known.push((additions, Rc::clone(&basis)));
        Ok(basis)
    }

    /// Returns the cloud of a case in this file.
    fn cloud(&mut self, file: &Path, suite: &Suite, case: &Case) -> anyhow::Result<Cloud> {
        let named = case.file.as_ref().or(suite.file.as_ref().filter(|_| case.spec.is_none()));
        let Some(named) = named else {
            let spec = case.spec.clone().context("it names no cloud: add `spec` or `file`")?;
            return Ok(Cloud::new(Subject::from_spec(&case.apply(spec)), self.with(Vec::new())?));
        };
        // The path is relative to the file of cases, not to the working directory.
        let path = file.parent().unwrap_or(Path::new("")).join(named);
        let document = Document::read(&path)?;
        let basis = self.with(in_file(&path)?)?;
        if let Some(errors) = shape_errors(&document, &basis.catalog, &basis.schemas) {
            bail!("{errors}");
        }
        let mut object = document.object();
        if let Some(Value::Object(spec)) = object.get("spec").cloned() {
            object["spec"] = case.apply(spec).into();
        }
        let subject = Subject { object, document: Some(document), is_changed: case.changes() };
        Ok(Cloud::new(subject, basis))
    }
}

/// Returns the outcomes of the cases of a file.
fn outcomes(file: &Path, bases: &mut Bases) -> Vec<Outcome> {
    let place = display_name(file);
    let suite = match read(file).map_err(anyhow::Error::from).and_then(|text| Suite::parse(&place, &text)) {
        Ok(suite) => suite,
        Err(error) => return vec![Outcome::wrong(place.clone(), place, &error)],
    };
    let outcome = |(index, case): (usize, &Result<Case, InvalidCase>)| {
        let case = match case {
            Ok(case) => case,
            Err(InvalidCase { name, problem }) => {
                return Outcome::wrong(suite.place(index, None), name.clone(), &anyhow!(problem.clone()));
            }
        };
        let mut cloud = || bases.cloud(file, &suite, case).with_context(|| suite.place(index, None));
        let outcome =
            suite.check(index, case).and_then(|()| cloud()).and_then(|cloud| run_case(&cloud, &suite, index, case));
        outcome.unwrap_or_else(|error| Outcome::wrong(suite.place(index, None), case.name.clone(), &error))
    };
    suite.cases.iter().enumerate().map(outcome).collect()
}

/// Returns the outcome of one case.
fn run_case(cloud: &Cloud, suite: &Suite, index: usize, case: &Case) -> anyhow::Result<Outcome> {
    let mut failures = Vec::new();
    // A refused cloud has no values; report the reason first unless the case expects it.
    if !case.expect.iter().any(|expectation| expectation.refused.is_some()) {
        failures.extend(
            cloud.refusals().map(|refused| (suite.place(index, None), format!("the resource is refused: {refused}"))),
        );
    }
    if failures.is_empty() {
        for (number, expectation) in case.expect.iter().enumerate() {
            let place = suite.place(index, Some(number));
            let failed = cloud.check(expectation).with_context(|| place.clone())?;
            failures.extend(failed.map(|failed| (place, failed)));
        }
    }
    Ok(Outcome::new(suite.place(index, None), case.name.clone(), failures))
}
