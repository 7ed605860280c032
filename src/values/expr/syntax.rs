//! What is wrong with an expression that someone wrote: where, why, and what to do.

mod scan;

use scan::{Mark, Token, tokens};

/// What is wrong with a text that is no expression.
pub(super) fn problem(text: &str) -> String {
    match mistake(text) {
        Some((at, problem)) => format!("{}: {problem}", place(text, at)),
        None => format!("it can't be read as one; write one {SUCH_AS}"),
    }
}

/// An example for those who have nothing that could be mended.
const SUCH_AS: &str = "such as spec.region, or values.pod.replicas.api >= 3";

/// `column 5`, of a text of several lines with the line.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[begin..].chars().count() + 1;
    if text.contains('\n') {
        return format!("line {}, column {column}", before.matches('\n').count() + 1);
    }
    format!("column {column}")
}

/// The first mistake, and where it is.
fn mistake(text: &str) -> Option<(usize, String)> {
    let (tokens, unread) = tokens(text);
    let mut reader = Reader { open: Vec::new(), before: None, wants_value: true };
    let read = tokens.iter().find_map(|(at, token)| reader.take(*at, *token).err().map(|problem| (*at, problem)));
    read.or(unread).or_else(|| reader.end(text.len()))
}

/// What stood before, as far as it tells what may follow.
struct Reader<'a> {
    /// Brackets and `?` that are open, and where.
    open: Vec<(Mark<'a>, usize)>,
    before: Option<Token<'a>>,
    /// Whether a value comes next, and no operator.
    wants_value: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, at: usize, token: Token<'a>) -> Result<(), String> {
        match token {
            Token::Value(text) => self.value(text)?,
            Token::Open(bracket) => {
                let is_name = |text: &str| text.starts_with(|first: char| first.is_alphabetic() || first == '_');
                let is_call = matches!(self.before, Some(Token::Value(text)) if is_name(text));
                if !self.wants_value && !is_call && bracket != "[" {
                    return Err(format!("an operator is lacking before `{bracket}`; write one, such as && or =="));
                }
                self.open.push((bracket, at));
                self.wants_value = true;
            }
            Token::Close(bracket) => self.close(bracket)?,
            Token::Sign(sign) => self.sign(sign, at)?,
        }
        self.before = Some(token);
        Ok(())
    }

    fn value(&mut self, text: &str) -> Result<(), String> {
        let instead = match text.to_lowercase().as_str() {
            "and" => Some("&&"),
            "or" => Some("||"),
            "not" => Some("!"),
            "is" | "eq" | "equals" => Some("=="),
            _ => None,
        };
        // A field may have any name.
        let instead = instead.filter(|_| self.before != Some(Token::Sign(".")));
        match (self.wants_value, instead) {
            (true, None) => {
                self.wants_value = false;
                Ok(())
            }
            (true, Some("!")) => Err(format!("`{text}` is no word of CEL; write !(…)")),
            (_, Some(sign)) => Err(format!("`{text}` is no word of CEL; write {sign}")),
            (false, None) => Err(format!("an operator is lacking before `{text}`; write one, such as && or ==")),
        }
    }

    fn close(&mut self, bracket: &str) -> Result<(), String> {
        let is_empty = matches!(self.before, Some(Token::Open(_)));
        if self.wants_value && !is_empty {
            return Err(format!("a value is lacking before `{bracket}`; write one, or take out what asks for it"));
        }
        match self.open.pop() {
            Some((open, _)) if closing(open) == Some(bracket) => {
                self.wants_value = false;
                Ok(())
            }
            Some((open, _)) => Err(match closing(open) {
                Some(wanted) => format!("`{bracket}` stands here, and a `{open}` is open; write {wanted}"),
                None => NO_ELSE.to_owned(),
            }),
            None => Err(format!("`{bracket}` closes nothing; take it out, or write its opening bracket")),
        }
    }

    fn sign(&mut self, sign: Mark<'a>, at: usize) -> Result<(), String> {
        if sign == "!" && !self.wants_value {
            return Err("an operator is lacking before `!`; write one, such as &&, or != for \"is another\"".to_owned());
        }
        if self.wants_value && !["!", "-", "."].contains(&sign) {
            return Err(format!("a value is lacking before `{sign}`; write one, or take `{sign}` out"));
        }
        let top = self.open.last().map(|(open, _)| *open);
        match (sign, top) {
            ("?", _) => self.open.push((sign, at)),
            (":", Some("?")) => drop(self.open.pop()),
            (":", top) if top != Some("{") => {
                return Err("`:` has no `?` before it; write condition ? value : other value".to_owned());
            }
            (",", None) => return Err("`,` stands outside of brackets; write && for \"and\"".to_owned()),
            (",", Some("?")) => return Err(NO_ELSE.to_owned()),
            _ => {}
        }
        self.wants_value = true;
        Ok(())
    }

    /// What is wrong where nothing follows any more.
    fn end(&self, at: usize) -> Option<(usize, String)> {
        if self.before.is_none() {
            return Some((at, format!("it is empty; write one {SUCH_AS}")));
        }
        let open = self.open.last();
        match open.map(|(open, at)| (*open, *at, closing(open))) {
            _ if self.wants_value && !matches!(self.before, Some(Token::Open(_))) => {
                let sign = if let Some(Token::Sign(sign)) = self.before { sign } else { "what stands before" };
                Some((at, format!("a value is lacking after `{sign}`; write one, or take `{sign}` out")))
            }
            Some((open, at, Some(wanted))) => {
                Some((at, format!("`{open}` is not closed; write {wanted} where it ends")))
            }
            Some((_, at, None)) => Some((at, NO_ELSE.to_owned())),
            None => None,
        }
    }
}

const NO_ELSE: &str = "`?` has no `:` behind it; write condition ? value : other value";

fn closing(open: &str) -> Option<&'static str> {
    match open {
        "(" => Some(")"),
        "[" => Some("]"),
        "{" => Some("}"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Expression;

    fn compiled(text: &str) -> Result<(), String> {
        Expression::compile(text).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_no_expression_is_told_with_its_place_and_what_to_write() {
        for (text, told) in [
            ("", "column 1: it is empty; write one such as spec.region, or"),
            ("values.x = 3", "column 10: `=` compares nothing; write =="),
            ("values.x == = 3", "column 13: `=` compares nothing; write =="),
            ("values.x & values.y", "column 10: `&` is no operator; write &&"),
            ("values.x == 'a", "column 13: the text that begins here has no end; write ' behind it"),
            ("values.x == \"a\"\"", "column 16: the text that begins here has no end; write \" behind it"),
            ("values.$x", "column 8: `$` means nothing in CEL; take it out, or put what it belongs to into quotes"),
            ("values.x and values.y", "column 10: `and` is no word of CEL; write &&"),
            ("not values.x", "column 1: `not` is no word of CEL; write !(…)"),
            ("values.x equals 3", "column 10: `equals` is no word of CEL; write =="),
            ("values.x 3", "column 10: an operator is lacking before `3`; write one, such as && or =="),
            ("values.x ==", "column 12: a value is lacking after `==`; write one, or take `==` out"),
            ("values.x && || values.y", "column 13: a value is lacking before `||`; write one, or take `||` out"),
            ("size(values.x == 3", "column 5: `(` is not closed; write ) where it ends"),
            ("values['a'", "column 7: `[` is not closed; write ] where it ends"),
            ("values.x == 3)", "column 14: `)` closes nothing; take it out, or write its opening bracket"),
            ("(values.x == 3]", "column 15: `]` stands here, and a `(` is open; write )"),
            ("values.x ? 1", "column 10: `?` has no `:` behind it; write condition ? value : other value"),
            ("values.x : 1", "column 10: `:` has no `?` before it"),
            ("values.x,", "column 9: `,` stands outside of brackets; write && for \"and\""),
            ("values.x.exists(y, )", "column 20: a value is lacking before `)`"),
            ("values.x == 1 &&\n  values.y = 2", "line 2, column 12: `=` compares nothing; write =="),
        ] {
            let said = compiled(text).unwrap_err();
            let told = format!("`{text}` is not a valid CEL expression: {told}");
            assert!(said.starts_with(&told), "{said}\n{told}");
        }
    }

    #[test]
    fn nothing_is_seen_in_what_is_right() {
        for text in [
            "values.x == 3 && !(values.y in ['a', \"b\"]) || -values.z < 1.5",
            "has(values.a.b) ? values.a['b c'] == r'\\' : size({'a': 1, 'b': [1, 2]}) == 2 // why",
            "values.list.exists(item, item.name.startsWith('it')) && [].size() == 0",
        ] {
            assert_eq!(compiled(text), Ok(()), "{text}");
            assert_eq!(mistake(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_name_and_what_is_too_long_are_told_as_they_are_elsewhere() {
        assert!(
            compiled("vales.x == 1").unwrap_err().contains("uses `vales`, which does not exist; available are spec,")
        );
        assert!(compiled(&"!".repeat(5000)).unwrap_err().contains("it may have 4096 bytes"));
    }
}
