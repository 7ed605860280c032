//! Determines from the response of a probed API whether the API works.

use super::{Target, Token, keystone};

/// What happened after a probed API had accepted the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResponse {
    /// The API sent an HTTP response.
    Status {
        /// The HTTP status code of the response.
        code: u16,
        /// The HTTP status code with its text: `503 Service Unavailable`.
        text: String,
        /// The body of the response, of which the probe reads only up to a maximum size.
        body: Vec<u8>,
        /// The token from the response header, if Keystone sent one.
        token: Option<Token>,
    },
    /// The API sent no response within this number of seconds.
    Silence(u64),
    /// The operator does not trust the API's certificate, for this reason.
    Certificate(String),
    /// The response is not HTTP, is not TLS although osdpl expects TLS, or ended early; with the error.
    Broken(String),
}

impl ProbeResponse {
    /// Returns what is wrong with the response; `None` if its status code is one of `accept`.
    pub fn problem(&self, accept: &[u16]) -> Option<String> {
        match self {
            Self::Status { code, .. } if accept.contains(code) => None,
            Self::Status { text, .. } => Some(text.clone()),
            Self::Silence(seconds) => Some(format!("no response within {seconds} s")),
            Self::Certificate(why) => Some(format!("certificate: {why}")),
            Self::Broken(why) => Some(why.clone()),
        }
    }
}

/// Returns what is wrong with the response of a probed API, in one line; `None` if the API responded as expected.
pub fn find_fault(target: &Target, response: &ProbeResponse) -> Option<String> {
    let problem = response.problem(&target.accept).or_else(|| match response {
        ProbeResponse::Status { body, .. } if target.versions && !keystone::is_version(body) => {
            Some("the response does not describe version 3 of Keystone's API".into())
        }
        _ => None,
    })?;
    Some(format!("GET {}: {problem}", target.url))
}
