//! Fuzz target for logs of pods and output of helm, from which the operator removes secrets.
//!
//! A part of the input with the name `secret` is a value of a Secret. All other parts together are the log.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use osdpl_core::scrub::{REDACTED, Scrubber, collect_secret_scalars, printable};
use serde_json::{Value, json};

use crate::sections;

/// The name of the parts of the input that contain a secret.
const SECRET: &str = "secret";

/// The minimum length of a secret that the scrubber searches for.
const SHORTEST: usize = 4;

pub fn run(input: &[u8]) {
    let (secrets, logs): (Vec<_>, Vec<_>) =
        sections::parse(input).into_iter().partition(|(name, _)| *name == SECRET.as_bytes());
    let text = |parts: Vec<(&[u8], &[u8])>| -> Vec<String> {
        parts.into_iter().map(|(_, content)| String::from_utf8_lossy(content.trim_ascii()).into_owned()).collect()
    };
    let (secrets, log) = (text(secrets), text(logs).join("\n"));
    let values: Vec<Value> = secrets.iter().map(|secret| secret.as_str().into()).collect();
    let scrubber = Scrubber::new(values.iter().flat_map(collect_secret_scalars));
    let texts = [scrubber.scrub(&log), scrubber.scrub_beginning(&log), scrubber.scrub_end(&log)];
    let output = scrubber.scrub_output(&log);
    for secret in secrets.iter().filter(|secret| secret.len() >= SHORTEST) {
        check_encoded(&scrubber, secret);
        assert!(!texts.iter().any(|text| is_left(secret, text)), "the secret {secret:?} is left in {texts:?}");
        let shown = printable(secret);
        let is_clean = shown.len() < SHORTEST || !is_left(&shown, &output);
        assert!(is_clean, "the secret {shown:?} is left in {output:?}");
    }
}

/// Whether a secret is left in a scrubbed text.
fn is_left(secret: &str, text: &str) -> bool {
    text.split(REDACTED).any(|part| part.contains(secret))
}

/// Checks that the scrubber removes a secret completely from three texts: JSON, base64 in lines of 76 characters, and
/// JSON that contains this base64.
fn check_encoded(scrubber: &Scrubber, secret: &str) {
    let quoted = json!({"value": secret}).to_string();
    let escaped = json!(secret).to_string();
    let escaped = &escaped[1..escaped.len() - 1];
    let clean = scrubber.scrub(&quoted);
    assert!(clean.split(REDACTED).all(|part| !part.contains(escaped)), "the secret {secret:?} is left in {clean:?}");
    let encoded = STANDARD.encode(secret);
    let lines: Vec<_> = encoded.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line)).collect();
    for text in [lines.join("\n"), json!(lines.join("\n")).to_string()] {
        let clean = scrubber.scrub(&text);
        let is_clean = clean.split(REDACTED).all(|part| lines.iter().all(|line| !part.contains(&**line)));
        assert!(lines.iter().any(|line| line.len() < 20) || is_clean, "the secret {secret:?} is left in {clean:?}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let key = "-----BEGIN RSA KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END RSA KEY-----";
    let logs = [
        (
            "p@ss/w\"rd u?",
            "a=cEBzcy93InJkIHU/;b=p%40ss%2Fw%22rd%20u%3F;c=p@ss/w\\\"rd u?\nmysql+pymysql://nova:s3cret@db:3306/nova",
        ),
        (
            "hunter2hunter2",
            "{\"auth\": {\"api_password\": \"hunter2hunter2\", \"user\": \"x\"}}\nAuthorization: Bearer gAAAAABhunter2",
        ),
        (
            "Zt7KqLw92mXs",
            "eDpadDdLcUx3OTJtWHM7\n12:00 token: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlLXNpZ25hdHVyZQ\nrabbit://a:b@h1:5672,c:d@h2:5672/",
        ),
        (
            key,
            "12:00 MIIEvQIBADANBgkqhkiG9w0B\n12:01 AQEFAASCBKcwggSjAgEAAoIB\n    AQEFAASCBKcwggSjAgEAAoIB\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END",
        ),
        ("staple\u{1}battery", "\u{1b}[36mstaple\u{1}\u{1b}[0mbattery\u{0} \u{1b}[1mpassword\u{fffd}\u{1b}[m=hunter2"),
        (
            "",
            "smtp_auth_password: 'hunter2'\nSECRET_KEY = 'hunter2'\nuserPassword:: aHVudGVyMg==\noptions: {host: 10.0.0.1, api_token: hunter2}",
        ),
    ];
    let mut seeds: Vec<_> = logs.map(|(secret, log)| sections::write([(SECRET, secret), ("log", log)])).into();
    let many = |text: &str| text.repeat(32_768 / text.len());
    seeds.push(sections::write([(SECRET, many("password="))]));
    // Add texts with characters whose encodings are long.
    for text in ["\u{1}password=\u{1}", "ü", "\u{fffd}>>?"] {
        seeds.push(sections::write([(SECRET, many(text) + &many(text))]));
    }
    // Add PEM keys whose first lines were cut off.
    let end = "-----END RSA PRIVATE KEY-----";
    seeds.push(sections::write([
        (SECRET, ""),
        ("log", &format!("{{\"error\": \"no key\\nMII\\nab=\\n{end}\\n\"}}\nMII\n{end}")),
    ]));
    seeds.push((many(&format!("a\n{end}\n")) + &many("12:00 MII\\n")).into());
    // Add a log that ends with a key without a value.
    seeds.push(sections::write([("log", "password:\n")]));
    // Add outputs of helm with the maximum length that the operator keeps.
    seeds.extend(
        ["password=", "a:b@", "://", "gAAAAA", "= \t", "-----BEGIN KEY-----"]
            .map(|text| (many(text) + &many(text)).into()),
    );
    seeds
}
