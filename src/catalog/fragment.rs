//! Values under a condition, compiled.

use std::collections::BTreeMap;

use crate::expr::{self, Expression, Scope, Template};
use crate::values::{Layer, Origin, Path, PathError, Values, canonical};

/// Values under a condition, for some releases.
#[derive(Debug)]
pub struct Fragment {
    /// The file it was read from.
    pub file: String,
    /// The field in the file: `fragments[2]`.
    pub field: String,
    /// The reason, for people.
    pub why: String,
    /// The condition; always where `None`.
    pub when: Option<Expression>,
    /// What each release gets.
    pub bodies: BTreeMap<String, Body>,
}

/// Values and removals for one release.
#[derive(Debug)]
pub struct Body {
    /// The values with their expressions.
    pub template: Template,
    /// Paths set to null.
    pub unset: Vec<Path>,
    /// The text it was compiled from, one spelling for equal texts: part of the catalogue's digest.
    pub source: String,
}

/// Why a body can't be compiled.
pub enum BodyError {
    /// An expression is wrong.
    Expression(Path, expr::Error),
    /// A path in `unset` is wrong.
    Path(PathError),
}

impl Body {
    /// Compiles values and removals.
    ///
    /// # Errors
    /// For the first wrong expression or path.
    pub fn compile(values: Values, unset: &[String]) -> Result<Self, BodyError> {
        let template = Template::compile(&values).map_err(|(path, error)| BodyError::Expression(path, error))?;
        let paths = unset.iter().map(|text| Path::parse(text)).collect::<Result<_, _>>().map_err(BodyError::Path)?;
        let source = format!("{}{unset:?}", canonical(&values.into()));
        Ok(Self { template, unset: paths, source })
    }

    /// Evaluates the body into a layer.
    ///
    /// # Errors
    /// For the first expression that fails, with its path.
    pub fn layer(&self, origin: Origin, scope: &Scope) -> Result<Layer, (Path, expr::Error)> {
        let (values, secret) = self.template.evaluate(scope)?;
        Ok(Layer { origin, values, unset: self.unset.clone(), secret })
    }
}
