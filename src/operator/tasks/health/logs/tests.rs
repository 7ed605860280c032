use std::sync::Arc;

use axum::Router;

use super::*;

/// Returns the text of a container's log with the content `log`, as [`Logs::fetch`] returns it.
async fn fetched(log: Vec<u8>) -> Option<String> {
    let router = Router::new().fallback(move || std::future::ready(log.clone()));
    let scrubber = watch::channel(Arc::new(Scrubber::new(["correct-horse-battery"]))).1;
    let failing = FailedContainer { container: "api".into(), restarts: 0, previous: false };
    let wanted = Wanted { namespace: "openstack".into(), pod: "keystone-1".into(), uid: "1".into(), failing };
    Logs::new(Client::new(router, "openstack"), scrubber).fetch(wanted).await.text
}

#[tokio::test]
async fn reads_logs_that_are_not_utf8() {
    assert_eq!(
        fetched(b"caf\xe9: no such \xff\xfe file\nexit".to_vec()).await.as_deref(),
        Some("caf: no such  file | exit")
    );
}

/// An API server may ignore `limitBytes`.
#[tokio::test]
async fn reads_only_the_beginning_of_an_endless_log() {
    let text = fetched(["ü".repeat(1 << 20).as_bytes(), b" the end"].concat()).await.unwrap();
    assert!(text.starts_with("…ü") && text.ends_with('ü'), "{text}");
}

fn shortened(text: &str) -> Option<String> {
    shorten(text, &Scrubber::new(["correct-horse-battery"]))
}

#[test]
fn joins_lines_and_redacts_secrets() {
    let log = "\nmysql://root:hidden@mariadb/keystone\n  access denied for correct-horse-battery \n\n";
    assert_eq!(
        shortened(log).as_deref(),
        Some("mysql://root:[redacted]@mariadb/keystone | access denied for [redacted]")
    );
}

#[test]
fn colours_and_control_characters_hide_no_secret() {
    let log = "\u{1b}[36mpassword\u{1b}[0m=hunter2\ncorrect\u{0}-horse-\u{fffd}battery";
    assert_eq!(shortened(log).as_deref(), Some("password=[redacted] | [redacted]"));
}

#[test]
fn keeps_the_end_of_a_long_log() {
    let log = format!("{} the end", "ü".repeat(BYTES));
    let short = shortened(&log).unwrap();
    assert!(short.starts_with("…ü") && short.ends_with(" the end") && short.len() <= BYTES + '…'.len_utf8());
}

#[test]
fn a_cut_log_shows_no_part_of_a_secret() {
    let fetched = usize::try_from(FETCHED_BYTES).unwrap();
    // The kubelet has cut the log at `FETCHED_BYTES`, in the middle of the secret `correct-horse-battery`.
    let cut = format!("{:x>width$}", "correct-horse", width = fetched);
    assert!(!shortened(&cut).unwrap().contains("correct"));
    // The operator shows only the last `BYTES` bytes of the log. Let these bytes begin before, within and after the
    // secret.
    for behind in BYTES - 30..BYTES + 30 {
        let log = format!("{} correct-horse-battery{}", "x".repeat(200), "y".repeat(behind));
        let short = shortened(&log).unwrap();
        assert!(!short.contains("horse") && !short.contains("battery"), "{short}");
    }
}

#[test]
fn an_empty_log_has_no_text() {
    assert_eq!(shortened(" \n\n"), None);
}

#[test]
fn keeps_the_beginning_of_a_long_exception() {
    let log = format!("Traceback (most recent call last):\n  File \"a\"\nOSError: {}", "ü".repeat(BYTES));
    let short = shortened(&log).unwrap();
    assert!(
        short.starts_with("OSError: ü") && short.ends_with("ü…") && short.len() <= BYTES + '…'.len_utf8(),
        "{short}"
    );
}
