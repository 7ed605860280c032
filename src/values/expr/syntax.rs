//! Creates the error messages for expressions that are not valid CEL: what is wrong, where, and what to write instead.
//!
//! The crate cel (0.13.0) finds the location of each mistake, but its messages rarely help. Of the 23 mistakes in the
//! tests of this module, cel names the remedy for 2 (`missing ')' at '<EOF>'`) and only the wrong token for 4. For 10,
//! cel lists tokens of the grammar: for `spec +` it says `mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-',
//! '!', 'true', 'false', 'null', NUM_FLOAT, …}`, where this module says `a value is missing after +`. For 7, cel says
//! only `token recognition error`: for `spec.a = 1` it says `token recognition error at: '= '`, where this module says
//! `write ==`.

use cel::{ParseError, ParseErrors};

/// The example in the message about a mistake for which osdpl knows no specific remedy.
const EXAMPLE: &str = "such as spec.region, or values.pod.replicas.api >= 3";

/// Describes the first mistake in an expression, with its location and the remedy.
pub(super) fn problem(text: &str, errors: &ParseErrors) -> String {
    // The crate cel reports an incomplete choice (`a ? b`) with two errors, of which the first has no location. So use
    // the first error that has a location.
    let located = errors.errors.iter().find(|error| error.msg.starts_with("Syntax error"));
    let Some(error) = located.or(errors.errors.first()) else { return format!("write one {EXAMPLE}") };
    let (at, problem) = describe(text, offset(text, error.pos), error);
    format!("{}: {problem}", location(text, at))
}

/// Returns the byte offset in `text` of a line and column, both counted from 1.
fn offset(text: &str, (line, column): (isize, isize)) -> usize {
    let count = |number: isize| usize::try_from(number - 1).unwrap_or_default();
    let begin: usize = text.split_inclusive('\n').take(count(line)).map(str::len).sum();
    text[begin..].char_indices().nth(count(column)).map_or(text.len(), |(at, _)| begin + at)
}

/// Describes a location: `column 5`, or `line 2, column 5` if the text has several lines.
fn location(text: &str, at: usize) -> String {
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let column = text[begin..at].chars().count() + 1;
    if text.contains('\n') {
        return format!("line {}, column {column}", text[..at].matches('\n').count() + 1);
    }
    format!("column {column}")
}

/// Returns the byte offset of a mistake, and its description with the remedy.
fn describe(text: &str, at: usize, error: &ParseError) -> (usize, String) {
    let Some(message) = error.msg.strip_prefix("Syntax error: ") else { return (at, error.msg.clone()) };
    let (before, token) = (text[..at].trim_end(), token(&text[at..]));
    let needs_value = message.contains("NUM_INT") || message.contains("IDENTIFIER");
    let open = open_brackets(&text[..at]);
    let previous =
        before.rfind(is_not_operator).map_or(before, |last| before[last..].trim_start_matches(is_not_operator));
    let problem = match token {
        "" if before.is_empty() => format!("the expression is empty; write one {EXAMPLE}"),
        "" if !previous.is_empty() => {
            format!("a value is missing after `{previous}`; write one, or remove `{previous}`")
        }
        "" => match open.last() {
            Some((open_at, bracket)) => {
                return (*open_at, format!("`{bracket}` is not closed; add the missing {}", closing(*bracket)));
            }
            None if message.contains("':'") => {
                let problem = "`?` has no `:` after it; write condition ? value : other value";
                return (text.rfind('?').unwrap_or(at), problem.to_owned());
            }
            None => format!("the expression ends too early; write one {EXAMPLE}"),
        },
        "=" => "`=` is not a comparison; write ==".to_owned(),
        "&" | "|" => format!("`{token}` is not an operator; write {token}{token}"),
        "'" | "\"" => format!("this string is not closed; write {token} at its end"),
        "and" | "AND" => format!("`{token}` is not a CEL operator; write &&"),
        "or" | "OR" => format!("`{token}` is not a CEL operator; write ||"),
        "is" | "eq" | "equals" => format!("`{token}` is not a CEL operator; write =="),
        _ if before.rsplit(|letter| !is_word_character(letter)).next() == Some("not") => {
            return (before.len() - 3, "`not` is not a CEL operator; write !(…)".to_owned());
        }
        _ if message.starts_with("token recognition error") => {
            format!("`{token}` is not valid in CEL; remove it, or put the text that it belongs to in quotes")
        }
        ")" | "]" | "}" if needs_value => {
            format!("a value is missing before `{token}`; write one, or remove the operator before `{token}`")
        }
        _ if needs_value => format!("a value is missing before `{token}`; write one, or remove `{token}`"),
        ")" | "]" | "}" => match open.last() {
            Some((_, bracket)) => {
                format!("`{token}` does not close `{bracket}`; write {}", closing(*bracket))
            }
            None => format!("`{token}` has no opening bracket; write one, or remove `{token}`"),
        },
        ":" => "`:` has no `?` before it; write condition ? value : other value".to_owned(),
        "," => "`,` is outside of brackets; write && for \"and\"".to_owned(),
        _ => format!("an operator is missing before `{token}`; write one, such as && or =="),
    };
    (at, problem)
}

/// Returns the first token of a string: a word, an operator or a single character.
fn token(text: &str) -> &str {
    let word = text.find(|letter| !is_word_character(letter)).unwrap_or(text.len());
    let is_double = ["==", "!=", "<=", ">=", "&&", "||"].iter().any(|sign| text.starts_with(sign));
    let first = text.chars().next().map_or(0, char::len_utf8);
    &text[..if is_double { 2 } else { word.max(first) }]
}

fn is_word_character(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

fn is_not_operator(letter: char) -> bool {
    is_word_character(letter) || letter.is_whitespace() || "()[]{}'\"".contains(letter)
}

/// Returns the brackets that are still open at the end of a string, each with its byte offset.
fn open_brackets(text: &str) -> Vec<(usize, char)> {
    let (mut open, mut quote) = (Vec::new(), None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(begin), end) if begin == end => quote = None,
            (None, '(' | '[' | '{') => open.push((at, letter)),
            (None, ')' | ']' | '}') => drop(open.pop()),
            _ => {}
        }
    }
    open
}

fn closing(bracket: char) -> char {
    match bracket {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::expr::Expression;

    fn compiled(text: &str) -> Result<(), String> {
        Expression::compile(text).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn names_location_and_remedy() {
        for (text, expected) in [
            ("", "column 1: the expression is empty; write one such as spec.region, or"),
            ("values.x = 3", "column 10: `=` is not a comparison; write =="),
            ("values.x == = 3", "column 13: `=` is not a comparison; write =="),
            ("values.x & values.y", "column 10: `&` is not an operator; write &&"),
            ("values.x == 'a", "column 13: this string is not closed; write ' at its end"),
            ("values.x == \"a\"\"", "column 16: this string is not closed; write \" at its end"),
            ("values.$x", "column 8: `$` is not valid in CEL; remove it, or put the text that it belongs to in quotes"),
            ("values.x and values.y", "column 10: `and` is not a CEL operator; write &&"),
            ("not values.x", "column 1: `not` is not a CEL operator; write !(…)"),
            ("values.x equals 3", "column 10: `equals` is not a CEL operator; write =="),
            ("values.x 3", "column 10: an operator is missing before `3`; write one, such as && or =="),
            ("values.x ==", "column 12: a value is missing after `==`; write one, or remove `==`"),
            ("values.x && || values.y", "column 13: a value is missing before `||`; write one, or remove `||`"),
            ("size(values.x == 3", "column 5: `(` is not closed; add the missing )"),
            ("values.", "column 8: a value is missing after `.`; write one, or remove `.`"),
            ("values['a'", "column 7: `[` is not closed; add the missing ]"),
            ("values.x == 3)", "column 14: `)` has no opening bracket; write one, or remove `)`"),
            ("(values.x == 3]", "column 15: `]` does not close `(`; write )"),
            ("values.x ? 1", "column 10: `?` has no `:` after it; write condition ? value : other value"),
            ("values.x : 1", "column 10: `:` has no `?` before it"),
            ("values.x,", "column 9: `,` is outside of brackets; write && for \"and\""),
            ("values.x.exists(y, )", "column 20: a value is missing before `)`"),
            ("values.x == 1 &&\n  values.y = 2", "line 2, column 12: `=` is not a comparison; write =="),
        ] {
            let error = compiled(text).unwrap_err();
            let expected = format!("`{text}` is not a valid CEL expression: {expected}");
            assert!(error.starts_with(&expected), "{error}\n{expected}");
        }
    }

    #[test]
    fn accepts_valid_expressions() {
        for text in [
            "values.x == 3 && !(values.y in ['a', \"b\"]) || -values.z < 1.5",
            "has(values.a.b) ? values.a['b c'] == r'\\' : size({'a': 1, 'b': [1, 2]}) == 2 // why",
            "values.list.exists(item, item.name.startsWith('it')) && [].size() == 0",
        ] {
            assert_eq!(compiled(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn reports_unknown_names_and_the_limits() {
        assert!(
            compiled("vales.x == 1").unwrap_err().contains("uses `vales`, which does not exist; choose from spec,")
        );
        assert!(compiled(&"!".repeat(5000)).unwrap_err().contains("an expression may have at most 4096 bytes"));
    }

    proptest! {
        #[test]
        fn describes_any_text(text in "(a|ü|in|not|has|'|\"|''|[0-9]|[.(),?:!<>=+&|$\n\\[\\]{} -]|==|&&){0,12}") {
            let _ = compiled(&text);
        }
    }
}
