//! Compiles and evaluates the CEL expressions in the YAML of the catalogue.
//!
//! A scalar that consists only of `${expression}` takes the type of the expression's result. With text around the
//! expression, the result is a string. Write `$${` for a literal `${`.
//!
//! Pure module (no I/O). Only the files of the catalogue, additions to the catalogue, and the cases of `osdpl test` may
//! contain expressions. osdpl does not evaluate `${…}` in values that a user writes in a spec, because these values may
//! contain shell scripts, which also use `${…}`.
//!
//! When osdpl loads the catalogue, it compiles all expressions in the files that users provide, so that an invalid
//! expression makes loading fail, and not a later reconcile pass. Tests verify the expressions in built-in files, so
//! osdpl compiles such an expression only when it first evaluates it.
//!
//! `src/values/expr/functions.rs` lists the functions that CEL itself does not have.

mod budget;
mod error;
mod eval;
mod evaluation;
mod failure;
mod functions;
pub mod network;
mod numbers;
mod operators;
mod parser;
mod pattern;
mod scope;
mod ssh;
mod syntax;
mod template;

pub use error::Error;
pub use pattern::{Patterns, matches, pattern_error};
pub use scope::{Scope, Secrets};
pub use template::Template;

use std::fmt;
use std::sync::OnceLock;

use cel::IdedExpr;
use failure::Failure;
use serde_json::Value;

/// The work that an evaluation needs: the number of its steps, and the bytes of the values that it creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The number of steps: one for each evaluated part of an expression, and one for every 32 bytes that a function
    /// reads.
    pub steps: usize,
    /// The total size of the values that the evaluation creates or copies, including values that it drops at once.
    pub bytes: usize,
}

impl Work {
    /// The limit of one evaluation of one expression. An evaluation that reaches this limit takes tens of milliseconds.
    /// The most expensive expression of the catalogue, for a spec with the maximum number of flavors, needs a tenth of
    /// this limit.
    pub const OF_ONE: Self = Self { steps: 400_000, bytes: 8 << 20 };
    /// The limit of all evaluations together for one resource in one reconcile pass. It includes the values without
    /// expressions that osdpl copies from the catalogue for the releases.
    pub const OF_ALL: Self = Self { steps: 10_000_000, bytes: 64 << 20 };

    fn exceeds(self, limit: Self) -> bool {
        self.steps > limit.steps || self.bytes > limit.bytes
    }
}

/// A CEL expression, compiled when it is first needed.
pub struct Expression {
    source: Box<str>,
    /// The compiled expression. It is in a box, so that an uncompiled expression takes little memory: osdpl never
    /// compiles most expressions.
    compiled: OnceLock<Box<Compiled>>,
}

struct Compiled {
    tree: IdedExpr,
    is_secret: bool,
}

/// The variable that contains the credentials of all OpenStack services.
const CREDENTIALS: &str = "credentials";

/// The variables that an expression may use.
const VARIABLES: [&str; 10] =
    ["spec", "features", "openstack", "services", CREDENTIALS, "ceph", "facts", "releases", "release", "values"];

impl Expression {
    /// Compiles an expression at once, so that the caller gets the error of an invalid expression before any
    /// evaluation.
    ///
    /// # Errors
    /// Returns an error if the expression is not valid CEL, or uses an unknown variable.
    pub fn compile(source: &str) -> Result<Self, Error> {
        let expression = Self::lazy(source);
        expression.compiled()?;
        Ok(expression)
    }

    /// Creates an expression that osdpl compiles when it first needs the expression. If the expression is invalid, its
    /// evaluation fails.
    pub fn lazy(source: &str) -> Self {
        Self { source: source.into(), compiled: OnceLock::new() }
    }

    fn compiled(&self) -> Result<&Compiled, Error> {
        if let Some(compiled) = self.compiled.get() {
            return Ok(compiled);
        }
        let compiled = Box::new(compile(&self.source)?);
        Ok(self.compiled.get_or_init(|| compiled))
    }

    /// Evaluates the expression with the variables of a scope.
    ///
    /// # Errors
    /// Returns an error if the expression is invalid, reads a Secret that is not available, exceeds a limit of
    /// [`Work`], or fails for another reason, such as a missing key or a division by zero.
    pub fn evaluate(&self, scope: &Scope) -> Result<Value, Error> {
        eval::evaluate(&self.compiled()?.tree, scope).map_err(|failure| {
            let expression = self.source.to_string();
            match failure {
                Failure::Secret { name, key } => Error::UnavailableSecret { expression, name, key },
                failure => Error::Evaluation { expression, problem: failure.to_string() },
            }
        })
    }

    /// Evaluates the expression, which must return a boolean.
    ///
    /// # Errors
    /// Returns the errors of [`Expression::evaluate`], and an error if the result is not a boolean.
    pub fn evaluate_condition(&self, scope: &Scope) -> Result<bool, Error> {
        self.evaluate(scope)?
            .as_bool()
            .ok_or_else(|| Error::Type { expression: self.source.to_string(), expected: "true or false" })
    }

    /// Whether the result may contain a secret, because the expression uses credentials or reads a Secret.
    pub fn is_secret(&self) -> bool {
        if let Some(compiled) = self.compiled.get() {
            return compiled.is_secret;
        }
        // Don't compile an expression whose text contains neither `credentials` nor `secret`: its result is no secret.
        // Most expressions contain neither.
        let may_be_secret = [CREDENTIALS, functions::SECRET].iter().any(|name| self.source.contains(name));
        may_be_secret && self.compiled().is_ok_and(|compiled| compiled.is_secret)
    }

    /// Whether the expression uses the variable named `variable`. Returns `false` if the expression is not valid CEL.
    pub fn uses_variable(&self, variable: &str) -> bool {
        let uses = |compiled: &Compiled| compiled.tree.references().has_variable(variable);
        self.source.contains(variable) && self.compiled().is_ok_and(uses)
    }

    /// Returns the text of the expression as written.
    pub fn source(&self) -> &str {
        &self.source
    }
}

fn compile(source: &str) -> Result<Compiled, Error> {
    let tree = parser::parse(source)?;
    let names = tree.references();
    // A call such as `list.exists(item, …)` declares the variable `item`, so an expression may use `item` although it
    // is not in `VARIABLES`.
    let is_known = |name: &str| VARIABLES.contains(&name) || source.contains(&format!("({name},"));
    if let Some(name) = names.variables().into_iter().find(|name| !is_known(name)).map(str::to_owned) {
        return Err(Error::Variable { expression: source.to_owned(), name, known: VARIABLES.join(", ") });
    }
    let is_secret = names.has_variable(CREDENTIALS) || names.has_function(functions::SECRET);
    drop(names);
    Ok(Compiled { tree, is_secret })
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Expression({:?})", self.source)
    }
}

#[cfg(test)]
mod tests;
