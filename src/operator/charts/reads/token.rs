//! Splits the actions (`{{ … }}`) of a template into tokens.

/// One token of an action (`{{ … }}`) in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A path such as `.a.b`, `$.a.b` or `$name.a.b`: its start (empty, `$` or `$name`), and its keys.
    Field(String, Vec<String>),
    /// A quoted string, without its quotes.
    Text(String),
    /// A word: a function name, a keyword or a number.
    Word(String),
    /// An opening or a closing bracket: `(` or `)`.
    Bracket,
    /// The pipe between two functions: `|`.
    Pipe,
    /// The sign that assigns a value to a variable: `:=` or `=`.
    Assign,
}

/// Returns the actions of a template, each as a list of its tokens. Skips comments.
pub(crate) fn actions(text: &str) -> Vec<Vec<Token>> {
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
                let word = leading_word(rest);
                (Some(Token::Word(word.to_owned())), word.len())
            }
            other => (None, other.len_utf8()),
        };
        found.extend(token);
        rest = rest[length..].trim_start();
    }
    found
}

/// Parses the quoted string at the start of `rest`. Returns the token, and the length of the string with its quotes.
///
/// The token contains escape sequences unchanged.
fn text(rest: &str, quote: char) -> (Option<Token>, usize) {
    let mut is_escaped = false;
    for (position, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            _ if letter == quote => return (Some(Token::Text(rest[1..position].to_owned())), position + 1),
            _ => {}
        }
    }
    (None, rest.len())
}

fn field(rest: &str) -> (Option<Token>, usize) {
    let mut position = 0;
    let mut variable = String::new();
    if let Some(after) = rest.strip_prefix('$') {
        let name = leading_word(after);
        variable = format!("${name}");
        position = 1 + name.len();
    }
    let mut keys = Vec::new();
    while let Some(after) = rest[position..].strip_prefix('.') {
        let name = leading_word(after);
        position += 1 + name.len();
        if name.is_empty() {
            break;
        }
        keys.push(name.to_owned());
    }
    (Some(Token::Field(variable, keys)), position)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn leading_word(text: &str) -> &str {
    &text[..text.find(|letter| !is_word(letter)).unwrap_or(text.len())]
}
