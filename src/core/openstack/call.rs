//! A request as data.

use std::fmt::{self, Write as _};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Which API is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Nova.
    Compute,
    /// Neutron.
    Network,
}

impl fmt::Display for Api {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Compute => "nova",
            Self::Network => "neutron",
        })
    }
}

/// HTTP's method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It only asks.
    Get,
    /// It starts something.
    Post,
    /// It changes something.
    Put,
    /// It removes something.
    Delete,
}

impl Verb {
    /// As HTTP writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// How an answer's body is read.
type Reader<T> = fn(&[u8]) -> Result<T, String>;

/// A request, and how its answer is read.
#[derive(Clone, Debug)]
pub struct Call<T> {
    /// Who is asked.
    pub api: Api,
    /// What is done.
    pub verb: Verb,
    /// The path with its query.
    pub path: String,
    /// What is sent.
    pub body: Option<Value>,
    read: Reader<T>,
}

impl<T: DeserializeOwned> Call<T> {
    /// Asks for JSON.
    pub(super) fn get(api: Api, path: String) -> Self {
        Self { api, verb: Verb::Get, path, body: None, read: json }
    }
}

impl Call<()> {
    /// Does something whose answer says no more than that it was taken.
    pub(super) fn act(api: Api, verb: Verb, path: String, body: Option<Value>) -> Self {
        Self { api, verb, path, body, read: |_| Ok(()) }
    }
}

impl<T> Call<T> {
    /// What an answer's body says.
    ///
    /// # Errors
    /// When it is not what this asked for; why.
    pub fn read(&self, body: &[u8]) -> Result<T, String> {
        (self.read)(body)
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// A word as a URL's path or query may hold it (RFC 3986: all but the unreserved characters are escaped).
pub(super) fn escaped(word: &str) -> String {
    word.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
