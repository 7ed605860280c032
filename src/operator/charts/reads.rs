//! Which values a chart's templates read, whether or not its `values.yaml` has them: `.Values.a.b.c`, as far as it is written out.
//!
//! Templates are looked at, not run: what is read by a name that is made up while they run (`index .Values.pod.tolerations $component`) stands
//! for anything below. Of the library that OpenStack-Helm's charts share, only what a chart includes counts.

mod token;

use std::collections::{BTreeMap, BTreeSet};

use token::Token;

/// The library within OpenStack-Helm's charts. It reads the values of the chart around it; other charts within a chart have their own.
const LIBRARY: &str = "charts/helm-toolkit/templates/";

/// Paths that templates read; `true` where more than the map itself is asked for: any key below may be read.
pub type Reads = BTreeMap<Vec<String>, bool>;

/// What the templates of a chart read. Templates within its own values count too: those are evaluated as well.
pub fn reads<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Reads {
    let mut chart = Chart::default();
    for (path, content) in files {
        let is_own = path == "values.yaml" || path.starts_with("templates/");
        if is_own || path.starts_with(LIBRARY) {
            chart.add(&String::from_utf8_lossy(content), is_own);
        }
        // Values below the name of a chart within this one are that chart's.
        if let Some((name, _)) = path.strip_prefix("charts/").and_then(|inner| inner.split_once('/')) {
            chart.reads.insert(vec![name.to_owned()], true);
        }
    }
    chart.close()
}

type Actions = Vec<Vec<Token>>;

#[derive(Default)]
struct Chart {
    /// What is rendered in any case.
    files: Vec<Actions>,
    /// What is rendered where it is included.
    defined: BTreeMap<String, Actions>,
    reads: Reads,
}

impl Chart {
    fn add(&mut self, text: &str, is_own: bool) {
        let mut file = Actions::new();
        let mut open: Option<(String, usize)> = None;
        for action in token::actions(text) {
            let depth = match first(&action) {
                "if" | "range" | "with" | "block" => 1,
                "define" => {
                    let name =
                        action.iter().find_map(|token| if let Token::Text(name) = token { Some(name) } else { None });
                    open = name.map(|name| (name.clone(), 1));
                    continue;
                }
                "end" => -1,
                _ => 0,
            };
            let Some((name, deep)) = &mut open else {
                file.push(action);
                continue;
            };
            self.defined.entry(name.clone()).or_default().push(action);
            *deep = deep.saturating_add_signed(depth);
            if *deep == 0 {
                open = None;
            }
        }
        self.files.extend(is_own.then_some(file));
    }

    fn close(mut self) -> Reads {
        let mut seen = BTreeSet::new();
        let mut todo = std::mem::take(&mut self.files);
        while let Some(actions) = todo.pop() {
            // Names travel as arguments too: any text that names a template may be included.
            let texts = actions
                .iter()
                .flatten()
                .filter_map(|token| if let Token::Text(text) = token { Some(text) } else { None });
            for text in texts.filter(|text| self.defined.contains_key(*text)) {
                if seen.insert(text.clone()) {
                    todo.push(self.defined[text].clone());
                }
            }
            scan(actions, &mut self.reads);
        }
        self.reads
    }
}

/// The keyword or function that an action begins with.
fn first(action: &[Token]) -> &str {
    match action.first() {
        Some(Token::Word(word)) => word,
        _ => "",
    }
}

/// Adds what one file or template reads.
fn scan(actions: Actions, reads: &mut Reads) {
    let mut aliases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for action in actions {
        let (assigned, action) = match &action[..] {
            [Token::Field(name, keys), Token::Assign, ..] if keys.is_empty() => (Some(name.clone()), &action[2..]),
            all => (None, all),
        };
        let paths: Vec<Option<Vec<String>>> = action.iter().map(|token| path(token, &aliases)).collect();
        let is_test = first(action) == "if" || first(action) == "else";
        if let Some(name) = assigned {
            aliases.remove(&name);
            if let Some(path) = alias(action, &paths) {
                aliases.insert(name, path);
                continue;
            }
        }
        for (at, path) in paths.iter().enumerate() {
            let read = path.as_ref().and_then(|path| read(action, at, path.clone(), is_test));
            if let Some((path, is_whole)) = read.filter(|(path, _)| is_for_users(path)) {
                *reads.entry(path).or_default() |= is_whole;
            }
        }
    }
}

/// Keys that begin so are the templates' own notes.
fn is_for_users(path: &[String]) -> bool {
    !path.is_empty() && !path.iter().any(|key| key.starts_with('_'))
}

/// The path in the values that a word stands for.
fn path(token: &Token, aliases: &BTreeMap<String, Vec<String>>) -> Option<Vec<String>> {
    let Token::Field(variable, keys) = token else { return None };
    if let Some(at) = keys.iter().position(|key| key == "Values") {
        return Some(keys[at + 1..].to_vec());
    }
    Some([aliases.get(variable)?, &keys[..]].concat())
}

/// `$x := .Values.a.b`, with or without `| default dict`: a name for a path, by which nothing is read yet.
fn alias(action: &[Token], paths: &[Option<Vec<String>>]) -> Option<Vec<String>> {
    let rest: Vec<&Token> = action.iter().filter(|token| **token != Token::Bracket).collect();
    let is_word = |token: &Token, word: &str| matches!(token, Token::Word(own) if own == word);
    let is_alias = match rest[..] {
        [_] => true,
        [_, Token::Pipe, default, dict] => is_word(default, "default") && is_word(dict, "dict"),
        _ => false,
    };
    paths.iter().flatten().next().filter(|_| is_alias).cloned()
}

/// What is read at one word of an action, and whether any key below may be.
fn read(action: &[Token], at: usize, mut path: Vec<String>, is_test: bool) -> Option<(Vec<String>, bool)> {
    let is_bracket = |token: &&Token| **token == Token::Bracket;
    let head = match action[..at].iter().rev().find(|token| !is_bracket(token)) {
        Some(Token::Word(word)) => word.as_str(),
        _ => "",
    };
    match head {
        // What is written there, or left out of a copy, is not read.
        "set" | "unset" | "omit" => None,
        "index" | "hasKey" | "get" => {
            let mut after = action[at + 1..].iter().filter(|token| !is_bracket(token)).peekable();
            while let Some(Token::Text(key)) = after.peek() {
                path.push(key.clone());
                after.next();
            }
            let is_made_up = matches!(after.peek(), Some(Token::Field(..)));
            Some((path, head == "index" && (is_made_up || !is_test)))
        }
        _ => {
            let dug = dug(&action[..at]);
            let is_whole = !is_test || !dug.is_empty();
            path.extend(dug);
            Some((path, is_whole))
        }
    }
}

/// The keys that `dig "a" "b" default` before a map goes down.
fn dug(before: &[Token]) -> Vec<String> {
    let dig = before.iter().rposition(|token| *token == Token::Word("dig".into()));
    let Some(rest) = dig.map(|dig| &before[dig + 1..]).filter(|rest| !rest.contains(&Token::Pipe)) else {
        return Vec::new();
    };
    let texts = rest.iter().map_while(|token| if let Token::Text(text) = token { Some(text.clone()) } else { None });
    let mut keys: Vec<String> = texts.collect();
    let is_last_the_default = rest[keys.len()..].iter().all(|token| *token == Token::Bracket);
    if is_last_the_default {
        keys.pop();
    }
    keys
}

#[cfg(test)]
mod tests;
