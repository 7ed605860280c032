//! Reading and writing of YAML: the only module that uses the YAML library.

mod located;
mod read;

pub use located::LocatedNode;
pub use read::Error;
pub use read::problem::redact_literals;

use serde::de::DeserializeOwned;
use serde_json::Value;

use located::LocatedJson;

/// Parses YAML into any shape.
///
/// # Errors
/// If the text is not valid YAML; with line and column.
pub fn parse_value(file: &str, text: &str) -> Result<Value, Error> {
    read::read(file, text)
}

/// Parses YAML into a type, by way of JSON: types have a JSON deserializer anyway, and another one of the YAML library
/// for each type would be a tenth of the program.
///
/// # Errors
/// If the text is not valid YAML or does not have the shape of `T`; with line and column.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Error> {
    let value = parse_value(file, text)?;
    serde_json::from_str(&value.to_string()).or_else(|_| {
        let node = LocatedNode::parse(file, text)?;
        let located = |json: &LocatedJson| {
            serde_json::from_str(json.text()).map_err(|error| {
                let (line, column) = json.position(error.line());
                let message = read::problem::translate(&error.to_string());
                Error { file: file.to_owned(), line, column, message }
            })
        };
        // An error about a value has the position of the value, one about a missing field that of the map.
        let missing = |error: &Error| error.message.starts_with("missing field");
        let result = located(&LocatedJson::new(&node, &value, false));
        if result.as_ref().err().is_some_and(missing) {
            located(&LocatedJson::new(&node, &value, true))
        } else {
            result
        }
    })
}

/// Writes a value as YAML.
pub fn write<T: serde::Serialize>(value: &T) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|error| format!("# cannot be written as YAML: {error}\n"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

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
        assert!(!block.to_string().contains("hunter2"), "a block instead of a map: {block}");
        let null = parse::<Vec<String>>("x", "[~]").unwrap_err();
        assert_eq!((null.message.as_str(), null.line, null.column), ("invalid type: null, expected a string", 1, 2));
        let shape = parse::<Strict>("x", "# a comment\n- name\n- 1\n").unwrap_err();
        assert_eq!((shape.line, shape.message.as_str()), (3, "expected a map, found a list"));
        let nested = parse::<std::collections::BTreeMap<String, Strict>>("x", "a:\n  name: 5\n").unwrap_err();
        assert_eq!((nested.line, nested.column), (2, 9), "{nested}");
        let aliases = format!(
            "a0: &a0 [x]\n{}",
            (1..9).fold(String::new(), |text, index| {
                format!("{text}a{index}: &a{index} [{}]\n", vec![format!("*a{}", index - 1); 10].join(","))
            })
        );
        assert!(parse::<Value>("x", &aliases).unwrap_err().message.starts_with("it is too large"));
    }
}
