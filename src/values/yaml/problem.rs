//! Translates error messages of the YAML library for users of osdpl.
//!
//! The translations contain no advice to programmers, and no content of the YAML document, which may be secret.

/// The maximum number of keys and values in a document.
pub(super) const NODES: usize = 250_000;
/// The maximum depth of nested maps and lists in a document.
pub(super) const DEPTH: usize = 64;
/// The maximum size of all keys and values in a document, in bytes. The content of an anchor counts again for each
/// alias. The largest object that Kubernetes stores has 1.5 MiB.
pub(super) const TEXT: usize = 4 << 20;
/// The messages for a document that exceeds a limit.
///
/// These messages replace those of the YAML library, which tell programmers how to raise the limit.
const TOO_LARGE: &str =
    "it is too large: a document may have at most 250000 keys and values, including those of aliases; split it";
const TOO_LONG: &str = "it is too large: the keys and values of a document may have at most 4 MiB, including those of \
                        aliases; use fewer aliases, or split it";
const TOO_DEEP: &str =
    "it is nested too deeply: a document may have at most 64 levels; nest its maps and lists less deeply";
/// The beginnings of messages of the YAML library, each with the message that osdpl shows instead.
const TRANSLATIONS: [(&str, &str); 12] = [
    ("budget breached: Depth", TOO_DEEP),
    ("recursion limit exceeded", TOO_DEEP),
    ("budget breached: ScalarBytes", TOO_LONG),
    ("budget breached: RecordedAnchorBytes", TOO_LONG),
    ("budget breached: ", TOO_LARGE),
    ("alias replay limit exceeded", TOO_LARGE),
    ("alias expansion limit exceeded", TOO_LARGE),
    ("cannot deserialize null into string", "expected a string, found null"),
    ("multiple YAML documents detected", "expected one document, found a second one (---)"),
    ("expected mapping start", "expected a map, found something else"),
    ("non-finite float", ".nan and .inf are not allowed; write a number, or put the text in quotes"),
    ("recursive references require", "an alias refers to a node that contains this alias; remove the alias"),
];
/// The advice to programmers that the YAML library appends to its messages. osdpl removes it.
const ADVICE: [&str; 1] = [", set DuplicateKeyPolicy in Options if acceptable"];

/// The ends of the YAML library's messages about a value that must be a string. Most likely the user forgot the quotes:
/// YAML reads an unquoted `true` or `1.10` as another type.
const UNQUOTED: [&str; 3] = [
    "invalid type: boolean, expected a string",
    "invalid type: integer, expected a string",
    "invalid type: floating point, expected a string",
];

/// Translates a message of the YAML library for users.
pub(crate) fn translate(message: &str) -> String {
    let message = redact_literals(message);
    let message = message.split(" at line ").next().unwrap_or(&message);
    if UNQUOTED.iter().any(|unquoted| message.ends_with(unquoted)) {
        return format!("{message}; put the value in quotes");
    }
    let translation = TRANSLATIONS
        .iter()
        .find(|(begin, _)| message.starts_with(begin))
        .map(|(_, translation)| (*translation).to_owned());
    translation.unwrap_or_else(|| ADVICE.iter().fold(message.to_owned(), |message, advice| message.replace(advice, "")))
}

/// Removes the quoted value from serde's message about a wrong value.
///
/// The value may be a secret, or a string that contains secrets.
pub fn redact_literals(message: &str) -> String {
    for (begin, kinds) in [("invalid type: ", &KINDS[..]), ("invalid value: ", &KINDS), ("unknown variant ", &VARIANT)]
    {
        let Some(start) = message.find(begin).map(|start| start + begin.len()) else { continue };
        let Some((kind, quote)) =
            kinds.iter().find(|(kind, quote)| message[start..].starts_with(&format!("{kind}{quote}")))
        else {
            continue;
        };
        let after = &message[start + kind.len() + quote.len()..];
        // In serde's messages, `, expected ` or `, there are no ` follows the quoted value. The value itself may
        // contain these words, too. So take their last occurrence as the end of the value.
        let end =
            [", expected ", ", there are no "].iter().filter_map(|end| after.rfind(&format!("{quote}{end}"))).max();
        let rest = end.map_or("", |end| &after[end + quote.len()..]);
        return format!("{}{rest}", message[..start + kind.len()].trim_end());
    }
    message.to_owned()
}

/// The format of values in serde's messages (`serde::de::Unexpected`): for each kind of value, the word before the
/// value, and the quote around it.
const KINDS: [(&str, &str); 5] =
    [("string ", "\""), ("character ", "`"), ("integer ", "`"), ("floating point ", "`"), ("boolean ", "`")];
/// The format of the name of an enum variant in serde's messages: with no word before it, and in backticks.
const VARIANT: [(&str, &str); 1] = [("", "`")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_values() {
        for (message, translation) in [
            (
                r#"invalid type: string "a: hunter2\", expected b", expected a map"#,
                "invalid type: string, expected a map",
            ),
            (r#"x: invalid value: string "hunter2", expected y at line 3"#, "x: invalid value: string, expected y"),
            (
                "invalid type: integer `12345678`, expected a string at line 2",
                "invalid type: integer, expected a string; put the value in quotes",
            ),
            ("invalid type: string \"hunter2 cut", "invalid type: string"),
            ("invalid type: null, expected a map", "invalid type: null, expected a map"),
            ("unknown variant `hunter2`, expected one of `A`, `B`", "unknown variant, expected one of `A`, `B`"),
            ("unknown variant `hunter2`, there are no variants", "unknown variant, there are no variants"),
            ("unknown field `nmae`, expected `name`", "unknown field `nmae`, expected `name`"),
        ] {
            assert_eq!(translate(message), translation);
        }
    }

    #[test]
    fn messages_name_the_limits() {
        assert!(TOO_LARGE.contains(&NODES.to_string()) && TOO_DEEP.contains(&DEPTH.to_string()));
        assert!(TOO_LONG.contains(&format!("at most {} MiB", TEXT >> 20)));
    }

    #[test]
    fn drops_advice_for_programmers() {
        assert_eq!(
            translate("cannot deserialize null into string; use Option<String>"),
            "expected a string, found null"
        );
        assert_eq!(translate("budget breached: Nodes { nodes: 250001 } at line 6, column 2"), TOO_LARGE);
        assert_eq!(
            translate("duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable"),
            "duplicate mapping key: a"
        );
    }
}
