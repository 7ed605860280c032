//! Matches texts against regular expressions with the syntax of CEL and of the schemas of CRDs.

use cel::{Context, Program};

/// Whether `text` matches the regular expression `pattern`. An invalid pattern matches nothing.
pub fn matches(text: &str, pattern: &str) -> bool {
    matches!(evaluate_match(text, pattern), Some(Ok(cel::Value::Bool(true))))
}

/// Returns why a regular expression is invalid; `None` if it is valid.
pub fn pattern_error(pattern: &str) -> Option<String> {
    let Some(Err(cel::ExecutionError::FunctionError { message, .. })) = evaluate_match("", pattern) else {
        return None;
    };
    let last = message.lines().last().unwrap_or_default();
    Some(last.trim_start_matches("error: ").to_owned())
}

fn evaluate_match(text: &str, pattern: &str) -> Option<Result<cel::Value, cel::ExecutionError>> {
    let program = Program::compile("text.matches(pattern)").ok()?;
    let mut context = Context::default();
    context.add_variable_from_value("text", text.to_owned());
    context.add_variable_from_value("pattern", pattern.to_owned());
    Some(program.execute(&context))
}
