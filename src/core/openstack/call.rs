//! Describes requests to OpenStack APIs as data. The crate `osdpl-maintenance` sends them.

use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The OpenStack API to which osdpl sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Nova's API.
    Compute,
    /// Neutron's API.
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

/// The HTTP method of a request. In YAML, it is spelled as in HTTP: `GET`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// Reads one or more objects.
    #[default]
    Get,
    /// Starts an operation.
    Post,
    /// Changes an object.
    Put,
    /// Deletes an object.
    Delete,
}

impl HttpMethod {
    /// Returns the method as HTTP spells it: `GET`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// A function that parses the body of an API's response.
type Reader<T> = fn(&[u8]) -> Result<T, String>;

/// A request to an OpenStack API, with the parser of its response.
#[derive(Clone, Debug)]
pub struct Call<T> {
    /// The API to which osdpl sends the request.
    pub api: Api,
    /// The HTTP method of the request.
    pub verb: HttpMethod,
    /// The path and query of the request's URL, without the host.
    pub path: String,
    /// The JSON body of the request, if it has one.
    pub body: Option<Value>,
    read: Reader<T>,
}

impl<T: DeserializeOwned> Call<T> {
    /// Returns a GET request to which the API responds with JSON.
    pub(super) fn get(api: Api, path: String) -> Self {
        Self { api, verb: HttpMethod::Get, path, body: None, read: json }
    }
}

impl Call<()> {
    /// Returns a request whose response body osdpl ignores.
    pub(super) fn act(api: Api, verb: HttpMethod, path: String, body: Option<Value>) -> Self {
        Self { api, verb, path, body, read: |_| Ok(()) }
    }
}

impl<T> Call<T> {
    /// Parses the body of the response to this request.
    ///
    /// # Errors
    /// Returns an error if the body does not have the form that osdpl expects for this request. The text of the error
    /// is the parser's message.
    pub fn read(&self, body: &[u8]) -> Result<T, String> {
        (self.read)(body)
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// Percent-encodes text for a URL's path or query: all characters except the unreserved characters of RFC 3986.
pub(super) fn encode(word: &str) -> String {
    word.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
