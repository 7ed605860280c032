//! The words of what stands between `{{` and `}}` in a template.

/// One word of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// `.a.b`, `$.a.b` or `$name.a.b`: the variable's name, empty where there is none, and the keys.
    Field(String, Vec<String>),
    /// A text in quotes.
    Text(String),
    /// A name of a function, a keyword, a number.
    Word(String),
    /// `(` or `)`.
    Bracket,
    /// `|`.
    Pipe,
    /// `:=` or `=`.
    Assign,
}

/// The words of each action of a template, in order; comments are none.
pub fn actions(text: &str) -> Vec<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{{") {
        let inner = after.strip_prefix('-').unwrap_or(after).trim_start();
        let (end, is_comment) = if inner.starts_with("/*") { ("*/", true) } else { ("}}", false) };
        let Some((action, after)) = inner.split_once(end) else { return found };
        if !is_comment {
            found.push(tokens(action.strip_suffix('-').unwrap_or(action)));
        }
        rest = after;
    }
    found
}

fn tokens(action: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = action.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '"' | '`' => text(rest, first),
            '(' | ')' => (Some(Token::Bracket), 1),
            '|' => (Some(Token::Pipe), 1),
            '=' => (Some(Token::Assign), 1),
            ':' if rest.starts_with(":=") => (Some(Token::Assign), 2),
            '$' | '.' => field(rest),
            _ if is_word(first) => {
                let word = leading(rest);
                (Some(Token::Word(word.to_owned())), word.len())
            }
            other => (None, other.len_utf8()),
        };
        found.extend(token);
        rest = rest[length..].trim_start();
    }
    found
}

/// A text in quotes. What is escaped in it matters to nobody here.
fn text(rest: &str, quote: char) -> (Option<Token>, usize) {
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            _ if letter == quote => return (Some(Token::Text(rest[1..at].to_owned())), at + 1),
            _ => {}
        }
    }
    (None, rest.len())
}

fn field(rest: &str) -> (Option<Token>, usize) {
    let mut at = 0;
    let mut variable = String::new();
    if let Some(after) = rest.strip_prefix('$') {
        let name = leading(after);
        variable = format!("${name}");
        at = 1 + name.len();
    }
    let mut keys = Vec::new();
    while let Some(after) = rest[at..].strip_prefix('.') {
        let name = leading(after);
        at += 1 + name.len();
        if name.is_empty() {
            break;
        }
        keys.push(name.to_owned());
    }
    (Some(Token::Field(variable, keys)), at)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn leading(text: &str) -> &str {
    &text[..text.find(|letter| !is_word(letter)).unwrap_or(text.len())]
}
