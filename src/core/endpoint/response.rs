//! Interpretation of API responses.

use super::{Target, Token, keystone};

/// The result of a request to an API that accepted the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResponse {
    /// A response.
    Status {
        /// The HTTP status code.
        code: u16,
        /// The status code with its text: `503 Service Unavailable`.
        text: String,
        /// The body, of limited size.
        body: Vec<u8>,
        /// The token in the response header of Keystone.
        token: Option<Token>,
    },
    /// No response within this number of seconds.
    Silence(u64),
    /// The certificate is not trusted, with the reason.
    Certificate(String),
    /// The response is not HTTP, not TLS where TLS is expected, or ended early.
    Broken(String),
}

impl ProbeResponse {
    /// Returns the problem of the response; `None` if its status code is in `accept`.
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

/// Returns the problem of a target's response in one line.
pub fn find_fault(target: &Target, response: &ProbeResponse) -> Option<String> {
    let problem = response.problem(&target.accept).or_else(|| match response {
        ProbeResponse::Status { body, .. } if target.versions && !keystone::is_version(body) => {
            Some("the response does not describe version 3 of Keystone's API".into())
        }
        _ => None,
    })?;
    Some(format!("GET {}: {problem}", target.url))
}
