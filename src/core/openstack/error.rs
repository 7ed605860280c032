//! Errors of requests to the cloud's APIs.

use serde_json::Value;

use super::Api;

/// The maximum length of an API's error message, in characters.
const MAX_MESSAGE: usize = 300;

/// An error of a request to the cloud's APIs. It contains no request headers and no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The cloud has no such API.
    #[error("{0} is not part of this cloud")]
    Absent(Api),
    /// The connection failed, or the response is no HTTP.
    #[error("{what}: {why}; check that its pods are ready and that no NetworkPolicy blocks the operator")]
    Unreachable {
        /// The request: `GET http://…`.
        what: String,
        /// The reason.
        why: String,
    },
    /// Keystone issued no token.
    #[error(
        "{what}, as the cloud's administrator: {status}; check that Keystone has the password from keystone's values (endpoints.identity.auth.admin)"
    )]
    Login {
        /// The request.
        what: String,
        /// The HTTP status: `401 Unauthorized`.
        status: String,
    },
    /// The API refused the request.
    #[error("{what}: {status}{}", message.as_ref().map(|message| format!(": {message}")).unwrap_or_default())]
    Refused {
        /// The request.
        what: String,
        /// The HTTP status code.
        code: u16,
        /// The HTTP status: `409 Conflict`.
        status: String,
        /// The error message of the API.
        message: Option<String>,
    },
    /// The response is not what the request expects.
    #[error("{what}: its response cannot be read: {why}; check what responds at that address")]
    InvalidResponse {
        /// The request.
        what: String,
        /// The reason.
        why: String,
    },
    /// Nova does not support the required version.
    #[error(
        "nova supports API version {has} at most, but {wanted} is required (OpenStack Pike); upgrade nova, or do it by hand"
    )]
    TooOld {
        /// The newest supported version.
        has: String,
        /// The required version.
        wanted: String,
    },
}

impl Error {
    /// Whether the request conflicts with the state of the object: HTTP 409.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, .. })
    }

    /// Whether the object does not exist: HTTP 404.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

/// Returns the error message in a response body, on one line.
///
/// Nova uses `{"conflictingRequest": {"message": …}}`, Neutron `{"NeutronError": {"message": …}}`, and unsupported
/// versions are `{"errors": [{"detail": …}]}` (API-WG).
pub fn error_message(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = body.as_object()?.values().find_map(|inner| {
        let inner = inner.get(0).unwrap_or(inner);
        inner.get("message").or_else(|| inner.get("detail"))?.as_str()
    })?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(MAX_MESSAGE).collect();
    (!short.is_empty()).then(|| if short.len() < text.len() { format!("{short} …") } else { short })
}
