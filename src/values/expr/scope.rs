//! Defines the scope of an expression: the variables that the expression can use.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::budget::{Total, Work};
use super::functions::Secrets;

/// The variables that expressions can use.
///
/// All scopes that are nested in one scope share its limit of work.
#[derive(Default)]
pub struct Scope<'outer> {
    variables: Map<String, Value>,
    secrets: Secrets,
    outer: Option<&'outer Scope<'outer>>,
    total: Arc<Total>,
}

impl Scope<'static> {
    /// Creates a scope with these variables, in which expressions can read no Secrets.
    pub fn new(variables: Map<String, Value>) -> Self {
        Self { variables, ..Self::default() }
    }

    /// Sets or replaces a variable.
    pub fn set(&mut self, name: &str, value: Value) {
        self.variables.insert(name.to_owned(), value);
    }
}

impl Scope<'_> {
    /// Creates a scope that adds `variables` to the variables of this scope.
    pub fn nested(&self, variables: Map<String, Value>) -> Scope<'_> {
        Scope { variables, secrets: Secrets::new(), outer: Some(self), total: Arc::clone(&self.total) }
    }

    /// Adds the texts from Secrets that the function `secret(…)` returns.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Returns the value of a variable; `None` if the variable does not exist.
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.get(name).or_else(|| self.outer?.variable(name))
    }

    /// Returns the text of a key in a Secret; `None` if it is not available.
    pub(super) fn secret(&self, name: &str, key: &str) -> Option<&str> {
        let found = self.secrets.get(&(name.to_owned(), key.to_owned()));
        found.map(String::as_str).or_else(|| self.outer?.secret(name, key))
    }

    /// Returns the work of all evaluations so far, in this scope and in all scopes that share its limit.
    pub fn used(&self) -> Work {
        self.total.used()
    }

    /// Sets the counted work back to `used`, an earlier result of [`Scope::used`]. So a reused scope has the same limit
    /// as a new one.
    pub fn reset_used(&self, used: Work) {
        self.total.reset(used);
    }

    /// Returns the most steps, and the most bytes, that a single evaluation has used.
    pub fn largest(&self) -> Work {
        self.total.largest()
    }

    pub(super) fn total(&self) -> &Total {
        &self.total
    }
}

/// Formats the scope for debug output without the values of variables, which may be secrets.
impl fmt::Debug for Scope<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Scope(…)")
    }
}
