//! Regular expressions, as CEL and CRD schemas understand them.

use cel::{Context, Program};

/// Whether `text` matches the regular expression `pattern`, as CEL and CRD schemas understand it; a pattern that is none matches nothing.
pub fn matches(text: &str, pattern: &str) -> bool {
    matches!(matched(text, pattern), Some(Ok(cel::Value::Bool(true))))
}

/// What is wrong with a regular expression; `None` where it is one.
pub fn pattern_problem(pattern: &str) -> Option<String> {
    let Some(Err(cel::ExecutionError::FunctionError { message, .. })) = matched("", pattern) else { return None };
    let last = message.lines().last().unwrap_or_default();
    Some(last.trim_start_matches("error: ").to_owned())
}

fn matched(text: &str, pattern: &str) -> Option<Result<cel::Value, cel::ExecutionError>> {
    let program = Program::compile("text.matches(pattern)").ok()?;
    let mut context = Context::default();
    context.add_variable_from_value("text", text.to_owned());
    context.add_variable_from_value("pattern", pattern.to_owned());
    Some(program.execute(&context))
}
