//! Defines the errors of requests to the OpenStack APIs of a cloud.

use serde_json::Value;

use super::Api;

/// The maximum number of characters that osdpl quotes from an API's error message.
const MAX_MESSAGE: usize = 300;

/// Why a request to one of the cloud's APIs failed. The error contains no request headers and no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The cloud does not have this API.
    #[error("{0} is not part of this cloud")]
    Absent(Api),
    /// The operator cannot connect to the API, or the API does not respond with HTTP.
    #[error("{what}: {why}; check that the API's pods are ready and that no NetworkPolicy blocks the operator")]
    Unreachable {
        /// The request: `GET http://…`.
        what: String,
        /// Why the request failed.
        why: String,
    },
    /// Keystone refused the operator's login as administrator.
    #[error(
        "osdpl cannot log in as the cloud's administrator, because Keystone responded with {status} to {what}; check that Keystone has the password from keystone's values (endpoints.identity.auth.admin)"
    )]
    Login {
        /// The request: `POST http://…`.
        what: String,
        /// The HTTP status of the response: `401 Unauthorized`.
        status: String,
    },
    /// The API responded to the request with an HTTP error.
    #[error("{what}: {status}{}", message.as_ref().map(|message| format!(": {message}")).unwrap_or_default())]
    Refused {
        /// The request: `GET http://…`.
        what: String,
        /// The code of the HTTP error: `409`.
        code: u16,
        /// The HTTP status: `409 Conflict`.
        status: String,
        /// The error message in the response body, if it has one.
        message: Option<String>,
    },
    /// The API's response body does not have the form that osdpl expects for the request.
    #[error("{what}: osdpl cannot read the response: {why}; check which program responds at this URL")]
    InvalidResponse {
        /// The request: `GET http://…`.
        what: String,
        /// Why the response body cannot be parsed.
        why: String,
    },
    /// Nova does not support the microversion that osdpl's requests need.
    #[error(
        "Nova supports API version {has} at most, but osdpl needs {wanted} (OpenStack Pike or newer); upgrade Nova, or do this task yourself with the openstack client"
    )]
    TooOld {
        /// The newest microversion that Nova supports.
        has: String,
        /// The microversion that osdpl's requests need.
        wanted: String,
    },
}

impl Error {
    /// Whether the API responded with HTTP 409, because the object's current state does not allow the request.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, .. })
    }

    /// Whether the API responded with HTTP 404, because the requested object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

/// Returns the error message in an API's response body, as one line; `None` if the body has no message.
///
/// Nova writes `{"conflictingRequest": {"message": …}}` and Neutron `{"NeutronError": {"message": …}}`. An API that
/// does not support the requested version writes `{"errors": [{"detail": …}]}`. Barbican writes `{"description": …}`,
/// and Designate and the Kubernetes API server write `{"message": …}`.
pub fn error_message(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let nested = body.as_object()?.values().find_map(|inner| {
        let inner = inner.get(0).unwrap_or(inner);
        inner.get("message").or_else(|| inner.get("detail"))?.as_str()
    });
    let text = nested.or_else(|| body.get("message").or_else(|| body.get("description"))?.as_str())?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(MAX_MESSAGE).collect();
    (!short.is_empty()).then(|| if short.len() < text.len() { format!("{short} …") } else { short })
}
