use proptest::prelude::*;

use super::*;

fn scrubbed(secrets: &[&str], text: &str) -> String {
    Scrubber::new(secrets).scrub(text)
}

#[test]
fn removes_all_printed_forms_of_a_secret() {
    let secret = "p@ss/w\"rd ü?";
    for form in [
        "p@ss/w\"rd ü?",
        "cEBzcy93InJkIMO8Pw==",
        "cEBzcy93InJkIMO8Pw",
        "p%40ss%2Fw%22rd%20%C3%BC%3F",
        "p%40ss%2fw%22rd%20%c3%bc%3f",
        "p%40ss%2Fw%22rd+%C3%BC%3F",
        "p@ss/w\\\"rd ü?",
    ] {
        assert_eq!(scrubbed(&[secret], &format!("a={form};")), format!("a={REDACTED};"), "{form}");
    }
}

#[test]
fn removes_forms_of_json_and_urls() {
    for (secret, form) in [
        ("a&b<c>d", "a\\u0026b\\u003cc\\u003ed"),
        ("ü\u{1f600}pass", "\\u00fc\\ud83d\\ude00pass"),
        ("~~?>~~", "fn4%2FPn5%2B"),
        ("~~?>~~", "fn4%2fPn5%2b"),
        ("hunter2hunter2", "aHVudGVyMmh1bnRlcjI%3D"),
    ] {
        assert_eq!(scrubbed(&[secret], &format!("a={form};")), format!("a={REDACTED};"), "{form}");
    }
}

#[test]
fn removes_base64_with_escaped_line_breaks() {
    let secret = "correct horse battery staple, ".repeat(8);
    let encoded = STANDARD.encode(&secret);
    let lines: Vec<_> = encoded.as_bytes().chunks(76).map(|line| str::from_utf8(line).unwrap()).collect();
    for separator in ["\\n", "\\r\\n", "\\\\n", "\\n  "] {
        let text = format!("{{\"key\": \"{}\"}}", lines.join(separator));
        assert_eq!(scrubbed(&[&secret], &text), format!("{{\"key\": \"{REDACTED}\"}}"), "{separator}");
        let part = format!("…{separator}{}{separator}", lines[1]);
        assert_eq!(scrubbed(&[&secret], &part), format!("…{separator}{REDACTED}{separator}"), "{separator}");
    }
}

#[test]
fn removes_url_safe_base64() {
    let secret = "\u{3f}\u{3e}>>??~~~";
    let form = URL_SAFE.encode(secret);
    assert_ne!(form, STANDARD.encode(secret));
    assert_eq!(scrubbed(&[secret], &form), REDACTED);
}

#[test]
fn finds_secrets_in_base64_at_every_alignment() {
    for before in ["", "x", "xy", "xyz"] {
        let text = STANDARD.encode(format!("{before}password=Zt7KqLw92mXs;rest"));
        let clean = scrubbed(&["Zt7KqLw92mXs"], &text);
        assert!(clean.contains(REDACTED), "{before:?}: {clean}");
    }
}

#[test]
fn removes_unknown_passwords_of_urls() {
    for (text, expected) in [
        ("mysql+pymysql://nova:s3cret@mariadb:3306/nova", "mysql+pymysql://nova:[redacted]@mariadb:3306/nova"),
        ("rabbit://a:b@h1:5672,c:d@h2:5672/nova", "rabbit://a:[redacted]@h1:5672,c:[redacted]@h2:5672/nova"),
        ("redis://:pw@h", "redis://:[redacted]@h"),
        ("'http://u:p/q@h' http://h:80/ a@b", "'http://u:[redacted]@h' http://h:80/ a@b"),
        ("http://mariadb:3306/nova and a:b@c", "http://mariadb:3306/nova and a:b@c"),
        ("http://user@host/", "http://user@host/"),
        ("http://u:p@ss,w@h/ x", "http://u:[redacted]@h/ x"),
        ("rabbit://h1:1,a:b@h2:2", "rabbit://h1:[redacted]@h2:2"),
        ("://@@ ://@,", "://@@ ://@,"),
    ] {
        assert_eq!(scrubbed(&[], text), expected);
    }
}

#[test]
fn removes_keys_line_by_line() {
    let key = "-----BEGIN RSA KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END RSA KEY-----\n";
    let log = "12:00 MIIEvQIBADANBgkqhkiG9w0B\n12:01 AQEFAASCBKcwggSjAgEAAoIB\n12:02 done";
    assert_eq!(scrubbed(&[key], log), "12:00 [redacted]\n12:01 [redacted]\n12:02 done");
    let lines: Vec<String> = key.lines().map(|line| format!("    {line}")).collect();
    let indented = format!("key: |\n{}\nrest", lines.join("\n"));
    assert_eq!(scrubbed(&[key], &indented), "key: |\n    [redacted]\nrest");
    let wrapped = STANDARD.encode("correct horse battery staple, ".repeat(8));
    let line = &wrapped[76..152];
    assert_eq!(
        scrubbed(&["correct horse battery staple, ".repeat(8).as_str()], &format!("12:00 {line}")),
        "12:00 [redacted]"
    );
    let settings = "log_level = debug\nuse_syslog_and_journal = false\n";
    assert_eq!(scrubbed(&[settings], "use_syslog_and_journal = false"), "use_syslog_and_journal = false");
}

#[test]
fn removes_base64_in_lines() {
    let secret = "correct horse battery staple, ".repeat(8);
    for (columns, before) in [(76, ""), (64, ""), (76, "x"), (64, "some other words "), (20, "xy")] {
        let encoded = STANDARD.encode(format!("{before}{secret}\n"));
        let lines = encoded.as_bytes().chunks(columns).map(|line| std::str::from_utf8(line).unwrap());
        let text = format!("begin\n{}\nend", lines.collect::<Vec<_>>().join("\n"));
        let clean = scrubbed(&[&secret], &text);
        assert!(clean.len() < 80 && clean.starts_with("begin\n") && clean.ends_with("\nend"), "{columns}: {clean}");
    }
}

#[test]
fn removes_overlapping_secrets_completely() {
    assert_eq!(scrubbed(&["password", "password-long", "long-tail"], "a password-long-tail b"), "a [redacted] b");
}

#[test]
fn ignores_short_secrets() {
    assert_eq!(scrubbed(&["abc", "", "1"], "abc 1"), "abc 1");
}

#[test]
fn ignores_a_final_newline_of_a_secret() {
    assert_eq!(scrubbed(&["hunter22\n"], "got hunter22!"), "got [redacted]!");
}

#[test]
fn debug_output_hides_secrets() {
    let scrubber = Scrubber::new(["hunter22"]);
    assert!(!format!("{scrubber:?}").contains("hunter22"));
}

#[test]
fn a_truncated_url_leaves_no_password() {
    let scrubber = Scrubber::default();
    assert_eq!(scrubber.scrub_beginning("see mysql://nova:s3cr"), "see ");
    assert_eq!(scrubber.scrub_end("cret@mariadb/nova then"), " then");
}

proptest! {
    #[test]
    fn no_secret_survives(secret in "[A-Za-z0-9+/@%ä]{4,24}", before in ".{0,12}", after in ".{0,12}") {
        let text = format!("{before}{secret}{after}");
        prop_assert!(!scrubbed(&[&secret], &text).replace(REDACTED, "").contains(&secret));
    }

    #[test]
    fn arbitrary_texts_never_panic(secret in ".{0,10}", text in "(.|://|@|:|,){0,40}") {
        let scrubber = Scrubber::new([&secret]);
        let _ = (scrubber.scrub(&text), scrubber.scrub_beginning(&text), scrubber.scrub_end(&text));
    }
}

#[test]
fn removes_the_longest_part_of_a_repetitive_secret() {
    let scrubber = Scrubber::new(["xyxyxyxz"]);
    assert_eq!(scrubber.scrub_beginning("log: xyxyxyxyxyx"), "log: xyxy");
    assert_eq!(scrubber.scrub_end("xyxyxz end xyxyx"), " end xyxyx");
    assert_eq!(scrubber.scrub_end("yxyx"), "yxyx");
    assert_eq!(scrubber.scrub_beginning(""), "");
}
