//! How long a token counts.

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// When the token expires that came with this body; `None` where the body does not say (Identity API v3: `token.expires_at`).
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
