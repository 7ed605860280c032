//! Finds JSON that is nested more deeply than a limit, for example the limit of a JSON parser.

/// Returns the path of the first field that is nested more than `limit` levels deep in a JSON text; `None` if there is
/// no such field.
///
/// If the field is inside a list, returns the path of the outermost list around the field. If the path has no key,
/// returns the word `it`, because messages use the result as the subject of a sentence. The function does not recurse,
/// and does not fail for a string that is not JSON.
pub fn json_too_deep(text: &str, limit: usize) -> Option<String> {
    // The keys of the maps and lists around the current position in the text; `None` for the root and for the items of
    // a list, which have no key. The returned path ends at the outermost list.
    let mut open: Vec<Option<&str>> = Vec::new();
    let (mut key, mut rest) = (None, text);
    while let Some(at) = rest.find(['"', '{', '[', '}', ']']) {
        let (symbol, behind) = (rest.as_bytes()[at], &rest[at + 1..]);
        rest = behind;
        match symbol {
            b'"' => {
                let end = end_of_string(behind);
                rest = behind.get(end + 1..).unwrap_or_default();
                key = rest.trim_start().starts_with(':').then_some(&behind[..end]);
            }
            b'{' | b'[' => {
                open.push(key.take());
                if open.len() > limit {
                    let keys: Vec<&str> = open.iter().skip(1).map_while(|key| *key).collect();
                    return Some(if keys.is_empty() { "it".to_owned() } else { keys.join(".") });
                }
            }
            _ => {
                open.pop();
                key = None;
            }
        }
    }
    None
}

/// Returns the offset of the quote that ends a string. `text` begins after the string's first quote.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_field() {
        let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(20), close.repeat(20));
        let lists = format!(r#"{{"a":{{"b":[1,{{}}]}},"c":{{"d\"[[":{}}}}}"#, nested("[", "]"));
        assert_eq!(json_too_deep(&lists, 10).as_deref(), Some(r#"c.d\"[["#));
        assert_eq!(json_too_deep(&lists, 22), None);
        let maps = nested(r#"{"k": "#, "}");
        assert_eq!(json_too_deep(&maps, 3).as_deref(), Some("k.k.k"));
        assert_eq!(json_too_deep(&nested("[", "]"), 3).as_deref(), Some("it"));
        assert_eq!(json_too_deep(r#"{"a": "[[[[[[[[[[", "b": ["}", "{{{{{{{"]}"#, 3), None);
    }

    proptest! {
        #[test]
        fn reads_any_text(text in "([\\[\\]{}\":,ä\\\\ ]|ab){0,40}") {
            let _ = json_too_deep(&text, 3);
        }
    }
}
