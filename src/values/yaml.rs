//! Reads and writes YAML. No other module of this crate uses the YAML library.

mod located;
mod read;

pub use located::LocatedNode;
pub use read::problem::redact_literals;
pub use read::{Error, parse};

/// Writes a value as YAML.
pub fn write<T: serde::Serialize>(value: &T) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|error| format!("# cannot be written as YAML: {error}\n"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        #[expect(dead_code, reason = "only the shape is tested")]
        name: String,
    }

    #[test]
    fn reads_octal_numbers_like_helm() {
        assert_eq!(parse::<Value>("x", "mode: 0644\nyes: on").unwrap(), json!({"mode": 420, "yes": true}));
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config {
            rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..proptest::test_runner::Config::default()
        })]
        #[test]
        fn reads_any_text(text in "([a-c]|[:,&*!|>?%@-]|[\\[\\]{}\"'#~]|<<|- | |\n|  ){0,40}") {
            let _ = parse::<Value>("x", &text);
        }
    }

    #[test]
    fn accepts_long_comments() {
        let text = format!("key:\n  # a list\n{}  - 1\n", "  # commented out\n".repeat(100));
        assert_eq!(parse::<Value>("x", &text).unwrap(), json!({"key": [1]}));
    }

    #[test]
    fn errors_have_a_location_and_no_content() {
        let error = parse::<Strict>("presets/x.yaml", "name: a\nnmae: hunter2\n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 1), "{error}");
        assert!(error.to_string().starts_with("presets/x.yaml:2:1: unknown field `nmae`"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let block =
            parse::<std::collections::BTreeMap<String, Strict>>("x", "a: |\n  password: hunter2\n").unwrap_err();
        assert!(!block.to_string().contains("hunter2"), "the error must not show the text block: {block}");
        let null = parse::<Vec<String>>("x", "[~]").unwrap_err();
        assert_eq!(null.message, "expected a string, found null");
        let aliases = format!(
            "a0: &a0 [x]\n{}",
            (1..9).fold(String::new(), |text, index| {
                format!("{text}a{index}: &a{index} [{}]\n", vec![format!("*a{}", index - 1); 10].join(","))
            })
        );
        assert!(parse::<Value>("x", &aliases).unwrap_err().message.starts_with("it is too large"));
    }

    #[test]
    fn limits_the_text_that_aliases_repeat() {
        let aliases = |count| format!("a: &a {}\nb: [{}]\n", "x".repeat(16 << 10), vec!["*a"; count].join(","));
        assert!(parse::<Value>("x", &aliases(200)).is_ok());
        // The library keeps a copy of the text for each of the anchors around it.
        let anchors = (0..20).fold(String::new(), |text, index| format!("{text}&a{index} ["));
        let anchors = format!("{anchors}\"{}\\n\"{}", "x".repeat(1 << 20), "]".repeat(20));
        for text in [aliases(4000), anchors] {
            let error = parse::<Value>("x", &text).unwrap_err();
            let problem = "it is too large: the keys and values of a document may have at most 4 MiB";
            assert!(error.message.starts_with(problem), "{error}");
        }
    }
}
