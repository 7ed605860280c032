//! The lifetime of tokens.

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// The expiry time of a token from its response body, if present (Identity API v3: `token.expires_at`).
pub fn expiry(body: &[u8]) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Document {
        token: Token,
    }
    #[derive(Deserialize)]
    struct Token {
        expires_at: String,
    }
    let document: Document = serde_json::from_slice(body).ok()?;
    document.token.expires_at.parse().ok()
}
