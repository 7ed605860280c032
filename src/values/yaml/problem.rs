//! What the YAML library says is wrong, for people: without its advice to programmers, and without what it read.

/// How many keys and values a text may have.
pub(super) const NODES: usize = 250_000;
/// How many levels it may have.
pub(super) const DEPTH: usize = 64;
/// What it says of a limit, and what that means: its own words help nobody who did not choose the limit.
const TOO_LARGE: &str =
    "it is too large: a document may have 250000 keys and values, once every alias stands for what it names; split it";
const TOO_DEEP: &str = "it is nested too deeply: a document may have 64 levels";
/// What begins like this, and what is said instead.
const WORDS: [(&str, &str); 10] = [
    ("budget breached: Depth", TOO_DEEP),
    ("recursion limit exceeded", TOO_DEEP),
    ("budget breached: ", TOO_LARGE),
    ("alias replay limit exceeded", TOO_LARGE),
    ("alias expansion limit exceeded", TOO_LARGE),
    ("cannot deserialize null into string", "nothing stands where a text is wanted"),
    ("multiple YAML documents detected", "there is a second document (---) where one is wanted"),
    ("expected mapping start", "something else stands where a map is wanted"),
    (
        "non-finite float",
        "a number that is none (.nan, .inf) can't be given to anyone: write a number, or put a text in quotes",
    ),
    ("recursive references require", "an alias stands within what it names"),
];
/// Advice to programmers that may follow.
const ADVICE: [&str; 1] = [", set DuplicateKeyPolicy in Options if acceptable"];

/// The words of the library in ours.
pub(super) fn told(said: &str) -> String {
    let said = without_literals(said);
    let said = said.split(" at line ").next().unwrap_or(&said);
    let ours = WORDS.iter().find(|(begin, _)| said.starts_with(begin)).map(|(_, ours)| (*ours).to_owned());
    ours.unwrap_or_else(|| ADVICE.iter().fold(said.to_owned(), |said, advice| said.replace(advice, "")))
}

/// What serde says of a value that does not fit, without the value: it may be a secret, or a whole block of them.
pub fn without_literals(said: &str) -> String {
    for (begin, kinds) in [("invalid type: ", &KINDS[..]), ("invalid value: ", &KINDS), ("unknown variant ", &VARIANT)]
    {
        let Some(at) = said.find(begin).map(|at| at + begin.len()) else { continue };
        let Some((kind, quote)) = kinds.iter().find(|(kind, quote)| said[at..].starts_with(&format!("{kind}{quote}")))
        else {
            continue;
        };
        let behind = &said[at + kind.len() + quote.len()..];
        // The last end counts: what is quoted may hold anything.
        let end =
            [", expected ", ", there are no "].iter().filter_map(|end| behind.rfind(&format!("{quote}{end}"))).max();
        let rest = end.map_or("", |end| &behind[end + quote.len()..]);
        return format!("{}{rest}", said[..at + kind.len()].trim_end());
    }
    said.to_owned()
}

/// How serde writes values (`serde::de::Unexpected`): the kind, and what it is quoted by.
const KINDS: [(&str, &str); 5] =
    [("string ", "\""), ("character ", "`"), ("integer ", "`"), ("floating point ", "`"), ("boolean ", "`")];
const VARIANT: [(&str, &str); 1] = [("", "`")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_what_was_read_is_repeated() {
        for (said, ours) in [
            (
                r#"invalid type: string "a: hunter2\", expected b", expected a map"#,
                "invalid type: string, expected a map",
            ),
            (r#"x: invalid value: string "hunter2", expected y at line 3"#, "x: invalid value: string, expected y"),
            ("invalid type: integer `12345678`, expected a string", "invalid type: integer, expected a string"),
            ("invalid type: string \"hunter2 cut", "invalid type: string"),
            ("invalid type: null, expected a map", "invalid type: null, expected a map"),
            ("unknown variant `hunter2`, expected one of `A`, `B`", "unknown variant, expected one of `A`, `B`"),
            ("unknown variant `hunter2`, there are no variants", "unknown variant, there are no variants"),
            ("unknown field `nmae`, expected `name`", "unknown field `nmae`, expected `name`"),
        ] {
            assert_eq!(told(said), ours);
        }
    }

    #[test]
    fn limits_are_named_as_they_are() {
        assert!(TOO_LARGE.contains(&NODES.to_string()) && TOO_DEEP.contains(&DEPTH.to_string()));
    }

    #[test]
    fn nobody_is_given_advice_for_programmers() {
        assert_eq!(
            told("cannot deserialize null into string; use Option<String>"),
            "nothing stands where a text is wanted"
        );
        assert_eq!(told("budget breached: Nodes { nodes: 250001 } at line 6, column 2"), TOO_LARGE);
        assert_eq!(
            told("duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable"),
            "duplicate mapping key: a"
        );
    }
}
