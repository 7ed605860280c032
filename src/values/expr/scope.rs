//! Defines the scope of an expression: the variables that the expression can use.

use std::fmt;

use cel::Context;
use serde_json::{Map, Value};

use super::functions::{self, Secrets};
use super::json::from_json;
use super::parser;

/// The variables that expressions can use, as JSON and as values of CEL.
///
/// Most expressions only name a variable. Their evaluation uses the JSON, and needs no value of CEL.
pub struct Scope<'outer> {
    context: Context<'outer>,
    variables: Map<String, Value>,
    outer: Option<&'outer Scope<'outer>>,
}

impl Scope<'static> {
    /// Creates a scope with these variables, in which expressions can read no Secrets.
    pub fn new(variables: Map<String, Value>) -> Self {
        let mut context = Context::default();
        functions::add(&mut context);
        Self::with_variables(context, variables, None)
    }

    /// Sets or replaces a variable.
    pub fn set(&mut self, name: &str, value: Value) {
        self.context.add_variable_from_value(name, from_json(&value));
        self.variables.insert(name.to_owned(), value);
    }
}

impl<'outer> Scope<'outer> {
    fn with_variables(
        mut context: Context<'outer>,
        variables: Map<String, Value>,
        outer: Option<&'outer Self>,
    ) -> Self {
        for (name, value) in &variables {
            context.add_variable_from_value(name.as_str(), from_json(value));
        }
        Self { context, variables, outer }
    }

    /// Creates a scope that adds `variables` to the variables of this scope, without converting the variables of this
    /// scope again.
    pub fn nested(&self, variables: Map<String, Value>) -> Scope<'_> {
        Scope::with_variables(self.context.new_inner_scope(), variables, Some(self))
    }

    /// Adds the texts from Secrets that the function `secret(…)` returns.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &Secrets) -> Self {
        for ((name, key), text) in secrets {
            self.context.add_variable_from_value(functions::secret_variable(name, key), text.as_str());
        }
        self
    }

    /// Returns the value of a variable; `None` if the variable does not exist.
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.get(name).or_else(|| self.outer?.variable(name))
    }

    /// Returns the value that a variable with fields selects; `None` if the variable or a field is missing.
    pub(super) fn resolve(&self, chain: &parser::Chain) -> Option<&Value> {
        let variable = self.variable(&chain.variable)?;
        chain.fields.iter().try_fold(variable, |value, field| value.as_object()?.get(field))
    }

    pub(super) fn context(&self) -> &Context<'outer> {
        &self.context
    }
}

/// Prints no values of variables, because values may be secrets.
impl fmt::Debug for Scope<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Scope(…)")
    }
}
