//! YAML in and out: the one place that knows which library reads it and how.

mod located;
mod problem;

use serde::de::DeserializeOwned;

pub use located::Located;
pub use problem::without_literals;

/// Why a text is not the YAML it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}:{line}:{column}: {problem}")]
pub struct Error {
    /// The file or object that holds the text.
    pub place: String,
    /// The line, from 1; 0 where unknown.
    pub line: u64,
    /// The column, from 1; 0 where unknown.
    pub column: u64,
    /// What is wrong, without the text itself: it may be a secret.
    pub problem: String,
}

/// Reads YAML as helm does where the two differ: `0644` is octal (YAML 1.1). Duplicate keys are errors.
///
/// # Errors
/// With line and column, when the text is no YAML or not of the shape of `T`.
pub fn parse<T: DeserializeOwned>(place: &str, text: &str) -> Result<T, Error> {
    // Comments are of no use here, and where they are read, 33 lines of them in one place are refused as an attack.
    // Many aliases of few anchors are how the catalogue gives many releases the same; what they may grow to is bounded all the same.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        emit_comments: false,
        budget: serde_saphyr::budget! { enforce_alias_anchor_ratio: false },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
        let problem = problem::told(&error.without_snippet().to_string());
        Error { place: place.to_owned(), line, column, problem }
    })
}

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
    fn octal_numbers_are_read_as_helm_reads_them() {
        assert_eq!(parse::<Value>("x", "mode: 0644\nyes: on").unwrap(), json!({"mode": 420, "yes": true}));
    }

    #[test]
    fn long_comments_are_no_error() {
        let text = format!("key:\n  # a list\n{}  - 1\n", "  # commented out\n".repeat(100));
        assert_eq!(parse::<Value>("x", &text).unwrap(), json!({"key": [1]}));
    }

    #[test]
    fn errors_name_the_place_and_never_the_text() {
        let error = parse::<Strict>("presets/x.yaml", "name: a\nnmae: hunter2\n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 1), "{error}");
        assert!(error.to_string().starts_with("presets/x.yaml:2:1: unknown field `nmae`"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let block =
            parse::<std::collections::BTreeMap<String, Strict>>("x", "a: |\n  password: hunter2\n").unwrap_err();
        assert!(!block.to_string().contains("hunter2"), "a block where a map is wanted: {block}");
        let texts = parse::<Vec<String>>("x", "[~]").unwrap_err();
        assert_eq!(texts.problem, "nothing stands where a text is wanted");
        let aliases = format!(
            "a0: &a0 [x]\n{}",
            (1..9).fold(String::new(), |text, index| {
                format!("{text}a{index}: &a{index} [{}]\n", vec![format!("*a{}", index - 1); 10].join(","))
            })
        );
        assert!(parse::<Value>("x", &aliases).unwrap_err().problem.starts_with("it is too large"));
    }
}
