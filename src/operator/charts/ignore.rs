//! Reads `.helmignore` as helm does (`pkg/ignore`). This file lists the files of a chart directory that are not part of
//! the chart.

use super::problem::ChartProblem;

/// The rules in the `.helmignore` of a chart directory, with helm's default rule (`templates/.?*`).
pub(super) struct Rules(Vec<Rule>);

struct Rule {
    pattern: String,
    negated: bool,
    folders_only: bool,
    /// Whether the pattern is compared with the whole path of a file. Otherwise it is compared only with the file's
    /// name.
    whole_path: bool,
}

impl Rules {
    /// Parses the text of a `.helmignore`. Refuses each rule that helm would refuse.
    pub(super) fn parse(text: &str) -> Result<Self, ChartProblem> {
        let mut rules = Vec::new();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let rule = line.trim();
            if rule.is_empty() || rule.starts_with('#') {
                continue;
            }
            let refuse = |why| ChartProblem::Ignore { line: index + 1, rule: rule.to_owned(), why };
            if rule.contains("**") {
                return Err(refuse("** is not supported"));
            }
            if !is_well_formed(rule) {
                return Err(refuse("it has an unclosed bracket, or ends with a backslash"));
            }
            rules.push(Rule::new(rule));
        }
        rules.push(Rule::new("templates/.?*"));
        Ok(Self(rules))
    }

    /// Whether helm ignores the file or folder at `path`, which is relative to the chart.
    ///
    /// The function applies the rules in their order, until a rule ignores the path. As in helm, a negated rule ignores
    /// every path that it does *not* match.
    pub(super) fn ignores(&self, path: &str, is_folder: bool) -> bool {
        for rule in &self.0 {
            let matches = rule.matches(path);
            if rule.negated {
                if (rule.folders_only && !is_folder) || !matches {
                    return true;
                }
            } else if matches && (is_folder || !rule.folders_only) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn new(text: &str) -> Self {
        let (text, negated) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        let (text, folders_only) = text.strip_suffix('/').map_or((text, false), |rest| (rest, true));
        let whole_path = text.contains('/');
        Self { pattern: text.strip_prefix('/').unwrap_or(text).to_owned(), negated, folders_only, whole_path }
    }

    fn matches(&self, path: &str) -> bool {
        let subject = if self.whole_path { path } else { path.rsplit('/').next().unwrap_or(path) };
        let pattern: Vec<char> = self.pattern.chars().collect();
        let subject: Vec<char> = subject.chars().collect();
        matches(&pattern, &subject)
    }
}

/// Whether `subject` matches `pattern` by the rules of Go's `filepath.Match`.
///
/// `*` and `?` never match `/`, `[a-z]` and `[^a-z]` match a range of characters, and `\` escapes the next character.
///
/// At a mismatch, the function goes back only to the last star. So its run time is at most proportional to the length
/// of the pattern times the length of `subject`.
fn matches(pattern: &[char], subject: &[char]) -> bool {
    let (mut position, mut matched) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while matched < subject.len() || position < pattern.len() {
        if pattern.get(position) == Some(&'*') {
            last_star = Some((position, matched));
            position += 1;
        } else if let Some((true, width)) = match_element(&pattern[position..], subject.get(matched)) {
            position += width;
            matched += 1;
        } else if let Some((star, from)) = last_star
            && subject.get(from).is_some_and(|character| *character != '/')
        {
            last_star = Some((star, from + 1));
            (position, matched) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    true
}

/// Returns whether the first element of the pattern matches the character `subject`, and the length of the element in
/// the pattern. Returns `None` if the character or the element is missing, or if the element has an unclosed bracket.
fn match_element(pattern: &[char], subject: Option<&char>) -> Option<(bool, usize)> {
    let subject = *subject?;
    match pattern.first()? {
        '?' => Some((subject != '/', 1)),
        '\\' => Some((pattern.get(1) == Some(&subject), 2)),
        '[' => match_class(pattern, subject),
        literal => Some((*literal == subject, 1)),
    }
}

fn match_class(pattern: &[char], subject: char) -> Option<(bool, usize)> {
    let negated = pattern.get(1) == Some(&'^');
    let mut position = if negated { 2 } else { 1 };
    let (mut found, mut first) = (false, true);
    loop {
        if *pattern.get(position)? == ']' && !first {
            return Some((found != negated, position + 1));
        }
        first = false;
        let (low, after) = parse_literal(pattern, position)?;
        let (high, after) =
            if pattern.get(after) == Some(&'-') { parse_literal(pattern, after + 1)? } else { (low, after) };
        found |= (low..=high).contains(&subject);
        position = after;
    }
}

fn parse_literal(pattern: &[char], position: usize) -> Option<(char, usize)> {
    match pattern.get(position)? {
        '\\' => Some((*pattern.get(position + 1)?, position + 2)),
        character => Some((*character, position + 1)),
    }
}

fn is_well_formed(rule: &str) -> bool {
    let pattern: Vec<char> = rule.chars().collect();
    let mut position = 0;
    while let Some(character) = pattern.get(position) {
        position += match character {
            '\\' if pattern.len() == position + 1 => return false,
            '\\' => 2,
            '[' => match match_class(&pattern[position..], 'a') {
                Some((_, width)) => width,
                None => return false,
            },
            _ => 1,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::Rules;

    #[test]
    fn ignores_the_files_that_helm_ignores() {
        for (rules, path, is_folder, expected) in [
            ("values_overrides", "values_overrides", true, true),
            ("values_overrides", "values.yaml", false, false),
            ("*.swp\n*~", "templates/bin/_a.sh.swp", false, true),
            ("*.swp\n*~", "README~", false, true),
            (".git/", ".git", true, true),
            (".git/", ".git", false, false),
            ("/README.md", "README.md", false, true),
            ("/README.md", "docs/README.md", false, false),
            ("docs/*.md", "docs/a.md", false, true),
            ("docs/*.md", "docs/deep/a.md", false, false),
            ("a?c", "abc", false, true),
            ("[a-c]x", "bx", false, true),
            ("[^a-c]x", "bx", false, false),
            ("\\*", "*", false, true),
            ("\\*", "a", false, false),
            ("*a*b", "xaxxab", false, true),
            ("*a*b", "xaxxac", false, false),
            ("!*.yaml", "values.yaml", false, false),
            ("!*.yaml", "README.md", false, true),
            ("# values.yaml\n\n", "values.yaml", false, false),
            ("", "templates/.hidden.yaml", false, true),
            ("", "templates/..", false, true),
            ("", "templates/.", false, false),
        ] {
            let rules = Rules::parse(rules).unwrap();
            assert_eq!(rules.ignores(path, is_folder), expected, "{path}");
        }
    }
}
