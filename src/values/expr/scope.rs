//! Defines the scope of an expression: the variables that the expression can use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Work;
use super::budget::Total;

/// Values from Kubernetes Secrets, by the name of the Secret and the key in the Secret.
pub type Secrets = BTreeMap<(String, String), String>;

/// The variables that expressions can use.
///
/// All evaluations with a scope, or with a scope nested in it ([`Scope::nested`]), share one limit of work:
/// [`Work::OF_ALL`].
#[derive(Default)]
pub struct Scope<'outer> {
    variables: Map<String, Value>,
    secrets: Secrets,
    outer: Option<&'outer Scope<'outer>>,
    total: Arc<Total>,
}

impl Scope<'static> {
    /// Creates a scope with these variables, and without values for the function `secret(…)`.
    pub fn new(variables: Map<String, Value>) -> Self {
        Self { variables, ..Self::default() }
    }

    /// Sets the variable `name` to `value`, and replaces an earlier value.
    pub fn set(&mut self, name: &str, value: Value) {
        self.variables.insert(name.to_owned(), value);
    }
}

impl Scope<'_> {
    /// Creates a scope that adds `variables` to the variables of this scope.
    pub fn nested(&self, variables: Map<String, Value>) -> Scope<'_> {
        Scope { variables, secrets: Secrets::new(), outer: Some(self), total: Arc::clone(&self.total) }
    }

    /// Sets the values that the function `secret(…)` returns for keys of Kubernetes Secrets. Replaces the values of an
    /// earlier call.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Returns the value of a variable; `None` if the variable does not exist.
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.get(name).or_else(|| self.outer?.variable(name))
    }

    /// Returns the value of a key in a Secret; `None` if neither this scope nor an outer scope contains the value.
    pub(super) fn secret(&self, name: &str, key: &str) -> Option<&str> {
        let found = self.secrets.get(&(name.to_owned(), key.to_owned()));
        found.map(String::as_str).or_else(|| self.outer?.secret(name, key))
    }

    /// Returns the steps and bytes that all evaluations together have needed so far in this scope, its outer scopes and
    /// all scopes nested in them. One limit applies to the sum.
    pub fn used(&self) -> Work {
        self.total.used()
    }

    /// Whether the evaluations have exceeded [`Work::OF_ALL`]. If so, each further evaluation fails.
    pub fn is_exhausted(&self) -> bool {
        self.used().exceeds(Work::OF_ALL)
    }

    /// Sets the counted work back to `used`, an earlier result of [`Scope::used`].
    ///
    /// A reconcile pass that reuses the scope of an earlier pass calls this function, so that the work of the earlier
    /// pass does not count.
    pub fn reset_used(&self, used: Work) {
        self.total.reset(used);
    }

    /// Returns the largest number of steps and the largest number of bytes that a single evaluation needed. The two
    /// numbers may come from different evaluations.
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
