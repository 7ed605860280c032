//! What can go wrong between us and the cloud's APIs.

use serde_json::Value;

use super::Api;

/// How much of an API's own words is told, in characters.
const TOLD: usize = 300;

/// What can go wrong between us and the cloud's APIs. No request's headers and no token are part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The cloud has no such API.
    #[error("{0} is not part of this cloud")]
    Absent(Api),
    /// Nothing could be connected to, or nothing answers as HTTP.
    #[error("{what}: {why}; see whether its pods are ready and whether a NetworkPolicy keeps the operator out")]
    Unreachable {
        /// What was asked: `GET http://…`.
        what: String,
        /// What came of it.
        why: String,
    },
    /// Keystone gives no token.
    #[error(
        "{what}, as the cloud's administrator: {answer}; see whether Keystone has the password of keystone's values (endpoints.identity.auth.admin)"
    )]
    Login {
        /// What was asked.
        what: String,
        /// HTTP's answer: `401 Unauthorized`.
        answer: String,
    },
    /// The API refused.
    #[error("{what}: {answer}{}", said.as_ref().map(|said| format!(": {said}")).unwrap_or_default())]
    Refused {
        /// What was asked.
        what: String,
        /// HTTP's code.
        code: u16,
        /// The code with its name: `409 Conflict`.
        answer: String,
        /// The API's own words.
        said: Option<String>,
    },
    /// The answer is not what was asked for.
    #[error("{what}: its answer can't be read: {why}; see what else answers under that address")]
    Answer {
        /// What was asked.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nova does not speak the version that is needed.
    #[error(
        "nova speaks version {has} of its API at most, and {wanted} is needed, which came with OpenStack Pike; upgrade nova, or do it by hand"
    )]
    TooOld {
        /// The newest that it speaks.
        has: String,
        /// The one that is needed.
        wanted: String,
    },
}

impl Error {
    /// Whether something is in the way that others have to move: HTTP's 409.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, .. })
    }

    /// Whether it is not there: HTTP's 404.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

/// An API's own words for a refusal, on one line: Nova's `{"conflictingRequest": {"message": …}}`, Neutron's `{"NeutronError": {"message": …}}`,
/// and `{"errors": [{"detail": …}]}` where a version is refused (API-WG's errors).
pub fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = body.as_object()?.values().find_map(|inner| {
        let inner = inner.get(0).unwrap_or(inner);
        inner.get("message").or_else(|| inner.get("detail"))?.as_str()
    })?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(TOLD).collect();
    (!short.is_empty()).then(|| if short.len() < text.len() { format!("{short} …") } else { short })
}
