//! What expressions see.

use std::fmt;

use cel::Context;
use serde_json::{Map, Value};

use super::functions::{self, Secrets};
use super::{from_json, reader};

/// The values of the variables, as they were given and as CEL takes them: most expressions only name one, and need no more than the former.
pub struct Scope<'outer> {
    context: Context<'outer>,
    variables: Map<String, Value>,
    outer: Option<&'outer Scope<'outer>>,
}

impl Scope<'static> {
    /// A scope with these variables and no Secrets.
    pub fn new(variables: Map<String, Value>) -> Self {
        let mut context = Context::default();
        functions::add(&mut context);
        Self::filled(context, variables, None)
    }

    /// Sets one variable anew.
    pub fn set(&mut self, name: &str, value: Value) {
        self.context.add_variable_from_value(name, from_json(&value));
        self.variables.insert(name.to_owned(), value);
    }
}

impl<'outer> Scope<'outer> {
    fn filled(mut context: Context<'outer>, variables: Map<String, Value>, outer: Option<&'outer Self>) -> Self {
        for (name, value) in &variables {
            context.add_variable_from_value(name.as_str(), from_json(value));
        }
        Self { context, variables, outer }
    }

    /// A scope with these variables before those of this one: what all have in common is made once.
    pub fn inner(&self, variables: Map<String, Value>) -> Scope<'_> {
        Scope::filled(self.context.new_inner_scope(), variables, Some(self))
    }

    /// The same, with what `secret(…)` reads.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &Secrets) -> Self {
        for ((name, key), text) in secrets {
            self.context.add_variable_from_value(functions::hidden(name, key), text.as_str());
        }
        self
    }

    /// A variable.
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.get(name).or_else(|| self.outer?.variable(name))
    }

    /// What stands where a chain of names leads; `None` where one of them is not there.
    pub(super) fn named(&self, chain: &reader::Chain) -> Option<&Value> {
        let start = self.variable(&chain.variable);
        chain.fields.iter().try_fold(start?, |value, field| value.as_object()?.get(field))
    }

    pub(super) fn context(&self) -> &Context<'outer> {
        &self.context
    }
}

/// Values may be secrets.
impl fmt::Debug for Scope<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Scope(…)")
    }
}
