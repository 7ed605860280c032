use cel::Program;
use proptest::prelude::*;
use serde_json::Value;

use super::limits::{DEEPEST, LONGEST, OPERATIONS};
use super::{read, tree};
use crate::expr::Template;

/// What is read is what cel reads; whether it was read at all.
fn agrees(text: &str) -> bool {
    let Some(own) = read(text) else { return false };
    let theirs = Program::compile(text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
    assert_eq!(own, *theirs.expression(), "{text}");
    true
}

#[test]
fn what_is_read_becomes_the_tree_that_cel_makes_of_it() {
    for text in [
        "a",
        " a . b\n.c ",
        "a.b('x', 1).c(d)",
        "size(a) > 3 && !b || c in ['x', \"y\", '']",
        "a && b && c && d && e || f || g || h || i",
        "a ? b == 1 : c ? null : d",
        "a - 1 - 2 * b / c % 4 + d <= e",
        "has(a.b) && has(a.b.c) && !(has(a.d))",
        "a[b].c['d'][0] != true",
        "'a \"b\"' + \"it's\"",
        "inner in trueish",
        "[a, b].exists(c, d[c].e)",
        "a.b.all(c, c > 1) && !a.exists(c, c in b)",
        "a.map(b, b.c)",
        "a.map(b, b > 1, [b, 2])",
        "a.filter(b, b[0] == 'x').map(b, b[1] + '.' + c) + (has(d.e) ? d.e : [])",
        "a.exists(b, b.c.exists(d, d == b))",
        "{}",
        "{'a': 1, b: [2], 'c': {'d': e}}.a",
        "a ? {'b': c ? d : e} : {}",
    ] {
        assert!(agrees(text), "{text}");
    }
}

/// A stack that runs out ends the process: no test can catch that, and this one is it.
#[test]
fn what_may_be_written_fits_a_threads_stack() {
    let long = |text: &str| text.repeat(OPERATIONS - 4);
    let may = [
        format!("-1{}", long("+1")),
        format!("-1 == 1 ? 1 : {}2", "a?b:".repeat(DEEPEST - 1)),
        format!("{}-1{}", "(".repeat(DEEPEST), ")".repeat(DEEPEST)),
        format!("{}a", "!".repeat(LONGEST - 1)),
        format!("{}a", "-".repeat(LONGEST - 1)),
        format!("-1 + a{}", long(".b")),
        format!("-1 in a{}", long("[0]")),
    ];
    let parse = move || {
        for text in may {
            drop(tree(&text));
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(parse).unwrap().join().unwrap();
    let may_not = [
        "1+".repeat(OPERATIONS + 1) + "1",
        "a?b:".repeat(DEEPEST + 1) + "c",
        format!("{}1{}", "[".repeat(DEEPEST + 1), "]".repeat(DEEPEST + 1)),
        format!("'{}'", "x".repeat(LONGEST)),
    ];
    for text in may_not {
        let said = tree(&text).unwrap_err().to_string();
        assert!(
            said.contains("…` is not a valid CEL expression: it may have 4096 bytes and 512 operators, with"),
            "{said}"
        );
    }
}

#[test]
fn the_rest_is_left_to_cel() {
    for text in [
        "a.exists_one(b, b == 1)",
        "a.exists(b.c, true)",
        "a.map(b)",
        "a{b: 1}",
        "-1",
        "!!a",
        "1.5",
        "1u",
        "0x1f",
        "r'a'",
        "b'a'",
        "'''a'''",
        r"'a\'b'",
        "a // b",
        "a.in",
        ".a",
        "a.?b",
        "[1,]",
        "has(a)",
        "a b",
        "a ==",
        "",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
    assert_eq!(read(&format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000))), None);
}

/// Every text of the catalogue, and every expression in one.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let whole = [("text".to_owned(), value.clone())].into_iter().collect();
            found.extend(Template::expressions(&whole));
            found.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(map) => map.values().for_each(|value| texts(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn most_of_the_catalogue_is_read_and_all_of_that_as_cel_reads_it() {
    let mut found = Vec::new();
    for (path, text) in osdpl_core::files::built_in().iter().filter(|(path, _)| !path.starts_with("values/keys/")) {
        texts(&text.read(path).unwrap(), &mut found);
    }
    found.sort();
    found.dedup();
    let (read, left): (Vec<&String>, Vec<&String>) = found.iter().partition(|text| agrees(text));
    let left = left.into_iter().filter(|text| text.contains("features.") && Program::compile(text).is_ok()).count();
    assert!(read.len() > 4 * left, "{} are read, {left} are left to cel", read.len());
}

proptest! {
    #[test]
    fn no_text_is_read_that_cel_reads_otherwise(text in "(a|b|in|has|true|null|r|[0-9]|'x'|\"y\"|''|[.(),?:!<>=+*/%\\[\\]{} -]|==|&&|\\|\\|){1,12}") {
        agrees(&text);
    }

    #[test]
    fn any_chain_is_read_as_cel_reads_it(first in "[ab]", rest in "( ?(==|!=|<=|>=|<|>|\\+|-|\\*|/|%|&&|\\|\\||in|\\.|\\?b:) ?(a|b|c\\(a,1\\)|d\\[0\\]|\\(a\\)|e)){1,8}") {
        agrees(&format!("{first}{rest}"));
    }

    #[test]
    fn any_loop_is_read_as_cel_reads_it(name in "exists|all|map|filter|exists_one", list in "a|\\[a, 1\\]|a\\.b|\\{'a': b\\}", args in "(x|x\\.y|1|a)(, (x|x > 1|x\\.map\\(y, y\\)|\\{x: a\\})){0,3}", rest in "|\\.c|\\[0\\]| \\+ b") {
        agrees(&format!("{list}.{name}({args}){rest}"));
    }
}
