//! How long an expression may be.

/// The longest expression, in bytes, the most operators in it, and how deep brackets and choices (`a ? b : c`) may stand in it: cel's parser calls itself for
/// each, and a stack that runs out ends the process. Of ours the most are 2020, 207 and 25.
pub(super) const LONGEST: usize = 4096;
pub(super) const OPERATIONS: usize = 512;
pub(super) const DEEPEST: usize = 32;

/// What is too much of an expression.
pub(super) fn problem(source: &str) -> Option<String> {
    let is_long = source.len() > LONGEST || operations(source) > OPERATIONS || deepest(source) > DEEPEST;
    is_long.then(|| {
        format!(
            "it may have {LONGEST} bytes and {OPERATIONS} operators, with brackets and choices {DEEPEST} deep; write it shorter, or in parts"
        )
    })
}

/// How many operators, calls and selections there are, those in texts too; several of them in a row are one.
fn operations(source: &str) -> usize {
    let is_sign = |byte: u8| b"+-*/%<>=&|!?.[(".contains(&byte);
    let bytes = source.as_bytes();
    (0..bytes.len()).filter(|at| is_sign(bytes[*at]) && (*at == 0 || !is_sign(bytes[at - 1]))).count()
}

/// How deep brackets stand in each other, those in texts too, and as many more as there are choices.
fn deepest(source: &str) -> usize {
    let depths = source.bytes().scan(0_usize, |depth, byte| {
        match byte {
            b'(' | b'[' | b'{' => *depth += 1,
            b')' | b']' | b'}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    depths.max().unwrap_or_default() + source.matches('?').count()
}
