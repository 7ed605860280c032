//! What an answer is worth.

use super::{Target, Token, keystone};

/// What came back from an API that could be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An answer.
    Status {
        /// HTTP's code.
        code: u16,
        /// The code with its name: `503 Service Unavailable`.
        text: String,
        /// The body, as far as it is looked at.
        body: Vec<u8>,
        /// The token that Keystone hands out with it.
        token: Option<Token>,
    },
    /// Nothing, within so many seconds.
    Silence(u64),
    /// Its certificate is not to be trusted, and why.
    Certificate(String),
    /// It does not speak HTTP, or TLS where that is expected, or stopped in the middle.
    Broken(String),
}

impl Answer {
    /// What is wrong with it, where these codes are accepted.
    pub fn refused(&self, accept: &[u16]) -> Option<String> {
        match self {
            Self::Status { code, .. } if accept.contains(code) => None,
            Self::Status { text, .. } => Some(text.clone()),
            Self::Silence(seconds) => Some(format!("no answer within {seconds} s")),
            Self::Certificate(why) => Some(format!("certificate: {why}")),
            Self::Broken(why) => Some(why.clone()),
        }
    }
}

/// What is wrong with what a target answered, in one line.
pub fn trouble(target: &Target, answer: &Answer) -> Option<String> {
    let wrong = answer.refused(&target.accept).or_else(|| match answer {
        Answer::Status { body, .. } if target.versions && !keystone::is_version(body) => {
            Some("the answer is not Keystone's description of its version 3".into())
        }
        _ => None,
    })?;
    Some(format!("GET {}: {wrong}", target.url))
}
