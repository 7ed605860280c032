//! The words and signs of an expression.

/// A bracket or a sign, as it is written.
pub type Mark<'a> = &'a str;

/// A part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A name with what is selected of it, a number, or a text.
    Value(&'a str),
    Open(Mark<'a>),
    Close(Mark<'a>),
    Sign(Mark<'a>),
}

/// A part with where it begins.
pub type Placed<'a> = (usize, Token<'a>);

/// Of two that begin alike the longer one first.
const SIGNS: [&str; 17] = ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ","];

/// The parts of a text, each with where it begins, as far as it can be read; and why it can't be read on, and where.
pub fn tokens(text: &str) -> (Vec<Placed<'_>>, Option<(usize, String)>) {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let at = text.len() - rest.len();
        if rest.is_empty() {
            return (found, None);
        }
        match next(rest) {
            Ok(token) => {
                let (Token::Value(part) | Token::Open(part) | Token::Close(part) | Token::Sign(part)) = token;
                rest = &rest[part.len()..];
                found.push((at, token));
            }
            Err(problem) => return (found, Some((at, problem))),
        }
    }
}

fn next(rest: &str) -> Result<Token<'_>, String> {
    let first = rest.chars().next().unwrap_or_default();
    let head = &rest[..first.len_utf8()];
    if let Some(text) = quoted(rest) {
        return text.map(Token::Value);
    }
    match first {
        '(' | '[' | '{' => return Ok(Token::Open(head)),
        ')' | ']' | '}' => return Ok(Token::Close(head)),
        _ if is_of_name(first) => {
            let end = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
            let word = number(rest).unwrap_or(&rest[..end]);
            return Ok(if word == "in" { Token::Sign(word) } else { Token::Value(word) });
        }
        // A selection belongs to what it is of.
        '.' => return Ok(Token::Sign(head)),
        _ => {}
    }
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        return Ok(Token::Sign(&rest[..sign.len()]));
    }
    Err(match first {
        '=' => "`=` compares nothing; write ==".to_owned(),
        '&' | '|' => format!("`{first}` is no operator; write {first}{first}"),
        _ => format!("`{first}` means nothing in CEL; take it out, or put what it belongs to into quotes"),
    })
}

/// A number with its fraction.
fn number(rest: &str) -> Option<&str> {
    rest.starts_with(|first: char| first.is_ascii_digit()).then_some(())?;
    let end = rest.find(|letter| !is_of_name(letter) && letter != '.').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// A text in quotes, with the letters before them that say of what kind it is; `None` where there is none.
fn quoted(rest: &str) -> Option<Result<&str, String>> {
    let kind = rest.find(['\'', '"']).filter(|at| rest[..*at].chars().all(|letter| "rRbB".contains(letter)))?;
    let (is_raw, body) = (rest[..kind].to_lowercase().contains('r'), &rest[kind..]);
    let quote = &body[..1];
    let triple = quote.repeat(3);
    let end = if body.starts_with(&triple) { triple } else { quote.to_owned() };
    let mut letters = body[end.len()..].char_indices();
    while let Some((at, letter)) = letters.next() {
        let behind = &body[end.len() + at..];
        if behind.starts_with(&end) {
            return Some(Ok(&rest[..kind + end.len() + at + end.len()]));
        }
        if letter == '\\' && !is_raw {
            letters.next();
        }
    }
    Some(Err(format!("the text that begins here has no end; write {end} behind it")))
}

fn is_of_name(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}
