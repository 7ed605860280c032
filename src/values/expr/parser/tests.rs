use super::{MAX_DEPTH, MAX_DOUBLE_SIGNS, MAX_LENGTH, MAX_OPERATORS, count_double_signs, parse};

/// Verifies that the parser of the crate cel can parse the largest expressions that the limits permit.
///
/// If the limits are too high, the stack overflows and the test process aborts.
#[test]
fn permitted_expressions_fit_the_stack() {
    let long = |text: &str| text.repeat(MAX_OPERATORS - 4);
    let permitted = [
        format!("-1{}", long("+1")),
        format!("-1 == 1 ? 1 : {}2", "a?b:".repeat(MAX_DEPTH - 1)),
        format!("{}-1{}", "(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH)),
        format!("{}a", "!".repeat(MAX_LENGTH - 1)),
        format!("{}a", "-".repeat(MAX_LENGTH - 1)),
        format!("-1 + a{}", long(".b")),
        format!("-1 in a{}", long("[0]")),
    ];
    let all = move || {
        for text in permitted {
            drop(parse(&text));
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(all).unwrap().join().unwrap();
    let refused = [
        "1+".repeat(MAX_OPERATORS + 1) + "1",
        "a?b:".repeat(MAX_DEPTH + 1) + "c",
        format!("{}1{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1)),
        format!("'{}'", "x".repeat(MAX_LENGTH)),
    ];
    for text in refused {
        let error = parse(&text).unwrap_err().to_string();
        let expected =
            "…` is not a valid CEL expression: an expression may have at most 4096 bytes and 512 operators, br";
        assert!(error.contains(expected), "{error}");
    }
}

/// Verifies that osdpl refuses an expression with more than [`MAX_DOUBLE_SIGNS`] nested double signs, and that it does
/// so before it calls cel's parser: without this limit, the parser would need hours for the refused expressions, and
/// more memory than any machine has.
///
/// A double sign is two minus signs or two exclamation marks between which there is no letter or digit outside of
/// comments, and no opening bracket. The first list contains forms of a double sign: adjacent signs, and signs around a
/// blank, a comment, or a character that makes the expression invalid. The test nests each form with brackets, such as
/// `--(--(a))`. The last list contains expressions with many signs, but without nested double signs.
#[test]
fn refuses_nested_double_signs() {
    let nested = |sign: &str, depth: usize| format!("{}a{}", format!("{sign}(").repeat(depth), ")".repeat(depth));
    for sign in ["--", "!!", "- -", "-// c\n-", "-$-", "-'-", "-+-", "-.-"] {
        let text = nested(sign, MAX_DEPTH - 1);
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains("and at most 6 nested double signs"), "{text}: {error}");
    }
    for sign in ["--", "!!"] {
        parse(&nested(sign, MAX_DOUBLE_SIGNS)).unwrap();
    }
    for text in ["-(".repeat(MAX_DEPTH), "a - b-(".repeat(MAX_DEPTH), "'--a --b --c' + ".repeat(20)] {
        assert!(count_double_signs(&text) < 2, "{text}");
    }
}
