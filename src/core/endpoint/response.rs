//! Determines whether an API works, from the API's response to a probe.

use super::{Target, Token, keystone};

/// The result of a probe, if the API accepted the TCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResponse {
    /// The API sent an HTTP response.
    Status {
        /// The HTTP status code of the response.
        code: u16,
        /// The HTTP status code with its reason phrase: `503 Service Unavailable`.
        text: String,
        /// The body of the response, cut off at a maximum size.
        body: Vec<u8>,
        /// The token from a response header; `None` unless Keystone sent a token.
        token: Option<Token>,
    },
    /// The API sent no response within this number of seconds.
    Silence(u64),
    /// The operator does not trust the API's certificate. Contains the reason.
    Certificate(String),
    /// The API sent a response that is not HTTP, used no TLS although osdpl expects TLS, or closed the connection
    /// early. Contains the error.
    Broken(String),
}

impl ProbeResponse {
    /// Returns why the response is bad; `None` if it is an HTTP response with one of the status codes in `accept`.
    pub fn problem(&self, accept: &[u16]) -> Option<String> {
        match self {
            Self::Status { code, .. } if accept.contains(code) => None,
            Self::Status { text, .. } => Some(text.clone()),
            Self::Silence(seconds) => Some(format!("no response within {seconds} s")),
            Self::Certificate(why) => Some(format!("osdpl does not accept the server's certificate ({why})")),
            Self::Broken(why) => Some(why.clone()),
        }
    }
}

/// Returns in one line why the response of the probed API `target` is bad; `None` if the API responded as expected.
pub fn find_fault(target: &Target, response: &ProbeResponse) -> Option<String> {
    let problem = response.problem(&target.accept).or_else(|| match response {
        ProbeResponse::Status { body, .. } if target.versions && !keystone::is_version(body) => {
            Some("the response does not describe version 3 of Keystone's API".into())
        }
        _ => None,
    })?;
    Some(format!("GET {}: {problem}", target.url))
}
