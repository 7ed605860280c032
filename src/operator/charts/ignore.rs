//! `.helmignore`: which files of a chart directory do not belong to the chart (helm's `pkg/ignore`).

use super::problem::Problem;

/// The rules of one chart directory, helm's own default (`templates/.?*`) included.
pub(super) struct Rules(Vec<Rule>);

struct Rule {
    pattern: String,
    negated: bool,
    folders_only: bool,
    /// Whether it is matched against the whole path rather than the last part.
    whole_path: bool,
}

impl Rules {
    /// Reads the file's text; what helm refuses is refused.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let mut rules = Vec::new();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let rule = line.trim();
            if rule.is_empty() || rule.starts_with('#') {
                continue;
            }
            let refuse = |why| Problem::Ignore { line: index + 1, rule: rule.to_owned(), why };
            if rule.contains("**") {
                return Err(refuse("** is not supported"));
            }
            if !is_well_formed(rule) {
                return Err(refuse("a bracket is not closed, or it ends with a backslash"));
            }
            rules.push(Rule::new(rule));
        }
        rules.push(Rule::new("templates/.?*"));
        Ok(Self(rules))
    }

    /// Whether the file or folder at `path` (below the chart) is left out. The first rule that decides wins; a negated rule
    /// leaves out everything it does *not* match, as in helm.
    pub(super) fn leaves_out(&self, path: &str, is_folder: bool) -> bool {
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

/// Go's `filepath.Match`: `*` and `?` never match `/`; `[a-z]`, `[^a-z]`; `\` takes the next character as it is.
///
/// Backtracks to the last star only, so the time is bounded by the product of both lengths.
fn matches(pattern: &[char], subject: &[char]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while seen < subject.len() || at < pattern.len() {
        if pattern.get(at) == Some(&'*') {
            last_star = Some((at, seen));
            at += 1;
        } else if let Some((true, width)) = one(&pattern[at..], subject.get(seen)) {
            at += width;
            seen += 1;
        } else if let Some((star, from)) = last_star
            && subject.get(from).is_some_and(|character| *character != '/')
        {
            last_star = Some((star, from + 1));
            (at, seen) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    true
}

/// Whether the pattern's first element matches the character, and how many characters of the pattern it takes.
fn one(pattern: &[char], subject: Option<&char>) -> Option<(bool, usize)> {
    let subject = *subject?;
    match pattern.first()? {
        '?' => Some((subject != '/', 1)),
        '\\' => Some((pattern.get(1) == Some(&subject), 2)),
        '[' => class(pattern, subject),
        literal => Some((*literal == subject, 1)),
    }
}

fn class(pattern: &[char], subject: char) -> Option<(bool, usize)> {
    let negated = pattern.get(1) == Some(&'^');
    let mut at = if negated { 2 } else { 1 };
    let (mut found, mut first) = (false, true);
    loop {
        if *pattern.get(at)? == ']' && !first {
            return Some((found != negated, at + 1));
        }
        first = false;
        let (low, after) = literal(pattern, at)?;
        let (high, after) = if pattern.get(after) == Some(&'-') { literal(pattern, after + 1)? } else { (low, after) };
        found |= (low..=high).contains(&subject);
        at = after;
    }
}

fn literal(pattern: &[char], at: usize) -> Option<(char, usize)> {
    match pattern.get(at)? {
        '\\' => Some((*pattern.get(at + 1)?, at + 2)),
        character => Some((*character, at + 1)),
    }
}

fn is_well_formed(rule: &str) -> bool {
    let pattern: Vec<char> = rule.chars().collect();
    let mut at = 0;
    while let Some(character) = pattern.get(at) {
        at += match character {
            '\\' if pattern.len() == at + 1 => return false,
            '\\' => 2,
            '[' => match class(&pattern[at..], 'a') {
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
    fn rules_leave_out_what_helm_leaves_out() {
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
            assert_eq!(rules.leaves_out(path, is_folder), expected, "{path}");
        }
    }
}
