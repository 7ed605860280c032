//! `osdpl test`: what users assert of their clouds' values, in their own CI; no cluster needed.

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
use super::common::{CatalogOption, Document, called, read};
use super::offline::misshapen;
use super::output;
use case::{Case, Suite, Wrong};
use judge::{Basis, Cloud, Subject};
use osdpl_core::catalog::Addition;
use osdpl_lint::rule::Schemas;
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

/// The exit code where a file of cases, or a case, is wrong.
const WRONG: u8 = 2;

impl Arguments {
    /// 0 where every case holds, 1 where one does not, 2 where a file can't be read, or it or a case of it is wrong: the others are told all the same.
    pub fn run(&self) -> ExitCode {
        self.told().unwrap_or_else(|error| {
            eprintln!("osdpl: {error:#}");
            ExitCode::from(WRONG)
        })
    }

    fn told(&self) -> anyhow::Result<ExitCode> {
        let mut bases = Bases::new(&self.catalog)?;
        let shown = Shown::new(self.files.iter().flat_map(|file| outcomes(file, &mut bases)).collect());
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

/// What clouds are judged by: a whole catalogue takes longer to read than a case to judge, and most cases add nothing to it, or the same.
struct Bases<'a> {
    option: &'a CatalogOption,
    known: Vec<(Vec<Addition>, Rc<Basis>)>,
}

impl<'a> Bases<'a> {
    /// # Errors
    /// Where the catalogue itself is wrong.
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

    /// The cloud that a case in this file is about.
    fn cloud(&mut self, file: &Path, suite: &Suite, case: &Case) -> anyhow::Result<Cloud> {
        let named = case.file.as_ref().or(suite.file.as_ref().filter(|_| case.spec.is_none()));
        let Some(named) = named else {
            let spec = case.spec.clone().context("it names no cloud: give it `spec`, or `file`")?;
            return Ok(Cloud::new(Subject::written(&case.apply(spec)), self.with(Vec::new())?));
        };
        // Beside the file of cases, wherever that is called from.
        let path = file.parent().unwrap_or(Path::new("")).join(named);
        let document = Document::read(&path)?;
        let basis = self.with(in_file(&path)?)?;
        if let Some(said) = misshapen(&document, &basis.catalog, &basis.schemas) {
            bail!("{said}");
        }
        let mut object = document.object();
        if let Some(Value::Object(spec)) = object.get("spec").cloned() {
            object["spec"] = case.apply(spec).into();
        }
        let subject = Subject { object, document: Some(document), is_changed: case.changes() };
        Ok(Cloud::new(subject, basis))
    }
}

/// What becomes of the cases of a file.
fn outcomes(file: &Path, bases: &mut Bases) -> Vec<Outcome> {
    let place = called(file);
    let suite = match read(file).map_err(anyhow::Error::from).and_then(|text| Suite::parse(&place, &text)) {
        Ok(suite) => suite,
        Err(error) => return vec![Outcome::wrong(place.clone(), place, &error)],
    };
    let outcome = |(index, case): (usize, &Result<Case, Wrong>)| {
        let case = match case {
            Ok(case) => case,
            Err(Wrong { name, problem }) => {
                return Outcome::wrong(suite.place(index, None), name.clone(), &anyhow!(problem.clone()));
            }
        };
        let mut cloud = || bases.cloud(file, &suite, case).with_context(|| suite.place(index, None));
        let outcome =
            suite.check(index, case).and_then(|()| cloud()).and_then(|cloud| judged(&cloud, &suite, index, case));
        outcome.unwrap_or_else(|error| Outcome::wrong(suite.place(index, None), case.name.clone(), &error))
    };
    suite.cases.iter().enumerate().map(outcome).collect()
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
