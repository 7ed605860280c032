//! `osdpl test`: compares the values of clouds with the expectations in users' test files; no cluster needed.

mod case;
mod cloud;
mod parse;
mod report;
mod suite;
mod value;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::common::CatalogOption;
use super::document::Document;
use super::input::{display_name, read};
use super::offline::shape_errors;
use super::output;
use case::Case;
use cloud::{Cloud, LoadedCatalog, Resource};
use osdpl_core::catalog::{Addition, NamedAdditions};
use osdpl_lint::validate::{Schemas, named_additions};
use report::{CaseResult, TestReport};
use suite::{InvalidCase, Suite};

#[derive(Args)]
pub(crate) struct Arguments {
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

/// The exit code if a file of test cases, or one of its cases, is invalid.
const INVALID: u8 = 2;

impl Arguments {
    /// Runs all cases. The exit code is 0 if every case passes, 1 if a case fails, and 2 if a file can't be read, or if
    /// a file or a case is invalid. After a problem in one case, the command still reports the remaining cases.
    pub(crate) fn run(&self) -> ExitCode {
        self.run_files().unwrap_or_else(|error| {
            eprintln!("osdpl: {error:#}");
            ExitCode::from(INVALID)
        })
    }

    fn run_files(&self) -> anyhow::Result<ExitCode> {
        let mut catalogs = CatalogCache::new(&self.catalog)?;
        let report = TestReport::new(self.files.iter().flat_map(|file| run_suite(file, &mut catalogs)).collect());
        match self.output {
            Format::Text => output::print(report.text()),
            Format::Json => output::line(serde_json::to_string_pretty(&report)?),
            Format::Junit => output::print(report.junit()),
        }
        Ok(match (report.invalid, report.failed) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) => ExitCode::FAILURE,
            _ => ExitCode::from(INVALID),
        })
    }
}

/// The catalogues that test cases have used so far, each with its additions. Loading a catalogue takes longer than
/// checking a case, so cases with the same additions share one catalogue.
struct CatalogCache<'a> {
    option: &'a CatalogOption,
    loaded: Vec<(Vec<Addition>, Rc<LoadedCatalog>)>,
}

impl<'a> CatalogCache<'a> {
    /// Creates the cache, and loads the catalogue without additions into it.
    ///
    /// # Errors
    /// Returns an error if the catalogue is invalid even without additions.
    fn new(option: &'a CatalogOption) -> anyhow::Result<Self> {
        let mut catalogs = Self { option, loaded: Vec::new() };
        catalogs.load(None)?;
        Ok(catalogs)
    }

    /// Returns the catalogue with the additions that the `OpenStackDeployment` in a file names; without a file, the
    /// catalogue without additions. Loads a catalogue only if no earlier case needed the same additions.
    fn load(&mut self, document: Option<&Document>) -> anyhow::Result<Rc<LoadedCatalog>> {
        let named = document.map(|document| named_additions(&document.object(), &document.others));
        let NamedAdditions { additions, errors, .. } = named.unwrap_or_default();
        let known = self.loaded.iter().find(|(known, _)| *known == additions).filter(|_| errors.is_empty());
        if let Some((_, loaded)) = known {
            return Ok(Rc::clone(loaded));
        }
        let catalog = match document {
            Some(document) => self.option.load_for(document)?.catalog,
            None => self.option.load()?,
        };
        let loaded = Rc::new(LoadedCatalog { schemas: Schemas::new(&catalog)?, catalog });
        self.loaded.push((additions, Rc::clone(&loaded)));
        Ok(loaded)
    }

    /// Resolves the cloud that a test case describes. `file` is the path of the file that contains the case.
    fn cloud(&mut self, file: &Path, suite: &Suite, case: &Case) -> anyhow::Result<Cloud> {
        let name = case.file.as_ref().or(suite.file.as_ref().filter(|_| case.spec.is_none()));
        let Some(name) = name else {
            let spec = case.spec.clone().context("this case names no cloud: add `spec` or `file`")?;
            return Ok(Cloud::new(Resource::from_spec(&case.apply(spec)), self.load(None)?));
        };
        // The path `name` is relative to the folder that contains the file of test cases.
        let path = file.parent().unwrap_or(Path::new("")).join(name);
        let document = Document::read(&path)?;
        let loaded = self.load(Some(&document))?;
        if let Some(errors) = shape_errors(&document, &loaded.catalog, &loaded.schemas) {
            bail!("{errors}");
        }
        let mut object = document.object();
        if let Some(Value::Object(spec)) = object.get("spec").cloned() {
            object["spec"] = case.apply(spec).into();
        }
        let resource = Resource { object, document: Some(document), is_changed: case.changes() };
        Ok(Cloud::new(resource, loaded))
    }
}

/// Runs all test cases of a file.
fn run_suite(file: &Path, catalogs: &mut CatalogCache) -> Vec<CaseResult> {
    let name = display_name(file);
    let suite = match read(file).map_err(anyhow::Error::from).and_then(|text| Suite::parse(&name, &text)) {
        Ok(suite) => suite,
        Err(error) => return vec![CaseResult::invalid(name.clone(), name, &error)],
    };
    let run = |(index, case): (usize, &Result<Case, InvalidCase>)| {
        let case = match case {
            Ok(case) => case,
            Err(InvalidCase { name, problem }) => {
                return CaseResult::invalid(suite.location(index, None), name.clone(), &anyhow!(problem.clone()));
            }
        };
        let mut cloud = || catalogs.cloud(file, &suite, case).with_context(|| suite.location(index, None));
        let result =
            suite.check(index, case).and_then(|()| cloud()).and_then(|cloud| run_case(&cloud, &suite, index, case));
        result.unwrap_or_else(|error| CaseResult::invalid(suite.location(index, None), case.name.clone(), &error))
    };
    suite.cases.iter().enumerate().map(run).collect()
}

/// Runs one case.
fn run_case(cloud: &Cloud, suite: &Suite, index: usize, case: &Case) -> anyhow::Result<CaseResult> {
    let mut failures = Vec::new();
    // A refused cloud has no values, so all expectations about values would fail. Unless the case expects the refusal,
    // report only why osdpl refuses the cloud.
    if !case.expect.iter().any(|expectation| expectation.refused.is_some()) {
        failures.extend(
            cloud
                .refusals()
                .map(|refused| (suite.location(index, None), format!("the resource is refused: {refused}"))),
        );
    }
    if failures.is_empty() {
        for (number, expectation) in case.expect.iter().enumerate() {
            let location = suite.location(index, Some(number));
            let failure = cloud.check(expectation).with_context(|| location.clone())?;
            failures.extend(failure.map(|failure| (location, failure)));
        }
    }
    let result = CaseResult::new(suite.location(index, None), case.name.clone(), failures);
    Ok(CaseResult { placeholders: cloud.placeholders.clone(), ..result })
}
