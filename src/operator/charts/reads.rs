//! Finds the values that a chart's templates read, such as `.Values.a.b.c`, even if `values.yaml` lacks them.
//!
//! osdpl parses the templates, and does not render them. A template may compute a key, for example
//! `index .Values.pod.tolerations $component`. Then osdpl assumes that the template may read any key of the map. osdpl
//! searches a template of OpenStack-Helm's library only if a template of the chart includes it.

mod token;

use std::collections::{BTreeMap, BTreeSet};

use token::Token;

/// The folder of the templates of OpenStack-Helm's library. These templates read the values of the chart that contains
/// the library. The templates of any other dependency read the values of that dependency.
const LIBRARY: &str = "charts/helm-toolkit/templates/";

/// The paths of the values that templates read. The map's value is `true` if the templates may also read any key below
/// the path.
pub type Reads = BTreeMap<Vec<String>, bool>;

/// Returns the paths of the values that the templates of a chart read.
///
/// Strings in the chart's `values.yaml` can contain template actions, too, which the templates render. So the result
/// includes the paths that these actions read. It also includes the name of each dependency, because a dependency's
/// templates may read all values below its name.
pub fn reads<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Reads {
    let mut chart = Chart::default();
    for (path, content) in files {
        let is_own = path == "values.yaml" || path.starts_with("templates/");
        if is_own || path.starts_with(LIBRARY) {
            chart.add(&String::from_utf8_lossy(content), is_own);
        }
        // A chart sets the values of a dependency below the key that has the dependency's name. The templates of the
        // dependency may read all of these values.
        if let Some((name, _)) = path.strip_prefix("charts/").and_then(|inner| inner.split_once('/')) {
            chart.reads.insert(vec![name.to_owned()], true);
        }
    }
    chart.finish()
}

type Actions = Vec<Vec<Token>>;

#[derive(Default)]
struct Chart {
    /// The actions (`{{ … }}`) of each template file of the chart and of its `values.yaml`, without the library and
    /// the named templates. helm always renders these actions.
    files: Vec<Actions>,
    /// The actions of each named template (`define`), by its name. helm renders a named template only where another
    /// template includes it.
    defined: BTreeMap<String, Actions>,
    reads: Reads,
}

impl Chart {
    fn add(&mut self, text: &str, is_own: bool) {
        let mut file = Actions::new();
        let mut definition: Option<(String, usize)> = None;
        for action in token::actions(text) {
            let depth = match first(&action) {
                "if" | "range" | "with" | "block" => 1,
                "define" => {
                    let name =
                        action.iter().find_map(|token| if let Token::Text(name) = token { Some(name) } else { None });
                    definition = name.map(|name| (name.clone(), 1));
                    continue;
                }
                "end" => -1,
                _ => 0,
            };
            let Some((name, depth_left)) = &mut definition else {
                file.push(action);
                continue;
            };
            self.defined.entry(name.clone()).or_default().push(action);
            *depth_left = depth_left.saturating_add_signed(depth);
            if *depth_left == 0 {
                definition = None;
            }
        }
        self.files.extend(is_own.then_some(file));
    }

    fn finish(mut self) -> Reads {
        let mut known = BTreeSet::new();
        let mut todo = std::mem::take(&mut self.files);
        while let Some(actions) = todo.pop() {
            // A template may get the name of another template as an argument, and include that template. So osdpl
            // treats every string that is the name of a template as an include of that template.
            let texts = actions
                .iter()
                .flatten()
                .filter_map(|token| if let Token::Text(text) = token { Some(text) } else { None });
            for text in texts.filter(|text| self.defined.contains_key(*text)) {
                if known.insert(text.clone()) {
                    todo.push(self.defined[text].clone());
                }
            }
            scan(actions, &mut self.reads);
        }
        self.reads
    }
}

/// Returns the keyword or function at the start of an action (`{{ … }}`); an empty string if the action has neither.
fn first(action: &[Token]) -> &str {
    match action.first() {
        Some(Token::Word(word)) => word,
        _ => "",
    }
}

/// Adds to `reads` each path in the values that one template file or one named template reads.
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
        for (position, path) in paths.iter().enumerate() {
            let read = path.as_ref().and_then(|path| read(action, position, path.clone(), is_test));
            if let Some((path, is_whole)) = read.filter(|(path, _)| is_for_users(path)) {
                *reads.entry(path).or_default() |= is_whole;
            }
        }
    }
}

/// Whether the value at `path` is meant to be set by users. Keys with a leading underscore are internal to the
/// templates.
fn is_for_users(path: &[String]) -> bool {
    !path.is_empty() && !path.iter().any(|key| key.starts_with('_'))
}

/// Returns the path in the values that a token of an action refers to, directly or through a variable in `aliases`.
fn path(token: &Token, aliases: &BTreeMap<String, Vec<String>>) -> Option<Vec<String>> {
    let Token::Field(variable, keys) = token else { return None };
    if let Some(position) = keys.iter().position(|key| key == "Values") {
        return Some(keys[position + 1..].to_vec());
    }
    Some([aliases.get(variable)?, &keys[..]].concat())
}

/// Returns the path that an action assigns to a variable; `None` if the assigned expression is not a path.
///
/// Examples are `$x := .Values.a.b` and `$x := .Values.a.b | default dict`.
///
/// The assignment is not a read of the value: the template reads the value only where it uses the variable.
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

/// Returns the path in the values that an action reads at the token `position`, and whether it may also read any key
/// below this path. Returns `None` if the action reads no value there.
///
/// `path` is the path that the token itself contains; functions such as `index` and `dig` extend it by keys. `is_test`
/// says whether the action is an `if` or `else`.
fn read(action: &[Token], position: usize, mut path: Vec<String>, is_test: bool) -> Option<(Vec<String>, bool)> {
    let is_bracket = |token: &&Token| **token == Token::Bracket;
    let head = match action[..position].iter().rev().find(|token| !is_bracket(token)) {
        Some(Token::Word(word)) => word.as_str(),
        _ => "",
    };
    match head {
        // An action with one of these functions does not read the value: it sets or removes a key of the map at the
        // path, or copies the map without some keys.
        "set" | "unset" | "omit" => None,
        "index" | "hasKey" | "get" => {
            let mut after = action[position + 1..].iter().filter(|token| !is_bracket(token)).peekable();
            while let Some(Token::Text(key)) = after.peek() {
                path.push(key.clone());
                after.next();
            }
            let is_computed = matches!(after.peek(), Some(Token::Field(..)));
            Some((path, head == "index" && (is_computed || !is_test)))
        }
        _ => {
            let dig_keys = dig_keys(&action[..position]);
            let is_whole = !is_test || !dig_keys.is_empty();
            path.extend(dig_keys);
            Some((path, is_whole))
        }
    }
}

/// Returns the keys in a call of the template function `dig`: `a` and `b` for `dig "a" "b" default map`. `before`
/// contains the tokens before `map`.
fn dig_keys(before: &[Token]) -> Vec<String> {
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
