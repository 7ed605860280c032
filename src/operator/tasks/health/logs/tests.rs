use super::*;

fn shortened(text: &str) -> Option<String> {
    short(text, &Scrubber::new(["correct-horse-battery"]))
}

#[test]
fn a_log_becomes_one_line_without_secrets() {
    let log = "\nmysql://root:hidden@mariadb/keystone\n  access denied for correct-horse-battery \n\n";
    assert_eq!(
        shortened(log).as_deref(),
        Some("mysql://root:[redacted]@mariadb/keystone | access denied for [redacted]")
    );
}

#[test]
fn of_a_long_log_the_end_is_kept() {
    let log = format!("{} the end", "ü".repeat(BYTES));
    let short = shortened(&log).unwrap();
    assert!(short.starts_with("…ü") && short.ends_with(" the end") && short.len() <= BYTES + '…'.len_utf8());
}

#[test]
fn a_secret_at_the_place_where_a_log_is_cut_shows_no_part_of_itself() {
    let fetched = usize::try_from(FETCHED_BYTES).unwrap();
    // Cut by the kubelet, in the middle of the secret.
    let cut = format!("{:x>width$}", "correct-horse", width = fetched);
    assert!(!shortened(&cut).unwrap().contains("correct"));
    // Cut by us, at every place in the secret.
    for behind in BYTES - 30..BYTES + 30 {
        let log = format!("{} correct-horse-battery{}", "x".repeat(200), "y".repeat(behind));
        let short = shortened(&log).unwrap();
        assert!(!short.contains("horse") && !short.contains("battery"), "{short}");
    }
}

#[test]
fn an_empty_log_tells_nothing() {
    assert_eq!(shortened(" \n\n"), None);
}
