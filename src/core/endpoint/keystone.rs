//! Builds requests for Keystone tokens (Identity API v3), and reads Keystone's API version and service catalogue from
//! Keystone's responses.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde_json::json;

use osdpl_values::{CollectSorted, Values};

/// The service types, such as `compute`, for which Keystone's service catalogue contains an endpoint.
pub type Types = BTreeSet<String>;

/// The credentials of the cloud's administrator, from the values of Keystone's release.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The administrator's user name in Keystone.
    pub user: String,
    /// The name of the Keystone domain that contains the user.
    pub user_domain: String,
    /// The name of the project for which Keystone issues the token.
    pub project: String,
    /// The name of the Keystone domain that contains the project.
    pub project_domain: String,
    password: String,
}

/// Formats the name and the domain of the user for debug output, but not the password.
impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.user, self.user_domain)
    }
}

impl Login {
    /// Returns the credentials of the cloud's administrator from the values of Keystone's release; `None` if these
    /// values contain no password.
    ///
    /// The credentials are at `endpoints.identity.auth.admin`. If a name is missing there, such as the name of the
    /// project, the function uses the default of upstream's chart.
    pub fn from_values(values: &Values) -> Option<Self> {
        let admin = values.get("endpoints")?.get("identity")?.get("auth")?.get("admin")?;
        let text =
            |key: &str, default: &str| admin.get(key).and_then(|value| value.as_str()).unwrap_or(default).to_owned();
        let password = admin.get("password")?.as_str()?.to_owned();
        Some(Self {
            user: text("username", "admin"),
            user_domain: text("user_domain_name", "default"),
            project: text("project_name", "admin"),
            project_domain: text("project_domain_name", "default"),
            password,
        })
    }

    /// Returns the password in plain text. osdpl must print it only if a person asks for the password.
    pub fn reveal_password(&self) -> &str {
        &self.password
    }

    /// Returns the body of the request with which osdpl gets a token from Keystone (`POST /v3/auth/tokens`). The body
    /// contains the password.
    pub fn body(&self) -> Vec<u8> {
        let Self { user, user_domain, project, project_domain, password } = self;
        let user = json!({"name": user, "domain": {"name": user_domain}, "password": password});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let scope = json!({"project": {"name": project, "domain": {"name": project_domain}}});
        json!({"auth": {"identity": identity, "scope": scope}}).to_string().into_bytes()
    }
}

/// A token from Keystone with which osdpl sends requests to OpenStack APIs. osdpl must never log a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a token from the secret string that Keystone sent.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the secret string of the token, for the request header `X-Auth-Token`.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Formats a token as the word `token` for debug output, so that logs do not contain the secret string.
impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("token")
    }
}

/// Whether the body of Keystone's response to `GET /v3` describes version 3 of the API.
pub(super) fn is_version(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Document {
        version: Version,
    }
    #[derive(Deserialize)]
    struct Version {
        id: String,
    }
    serde_json::from_slice::<Document>(body).is_ok_and(|document| document.version.id.starts_with("v3"))
}

/// Returns the types of the services that have an endpoint in Keystone's service catalogue; `None` if `body` is
/// invalid.
///
/// `body` is the body of Keystone's response to a request for a token.
pub fn service_types(body: &[u8]) -> Option<Types> {
    #[derive(Deserialize)]
    struct Document {
        token: Token,
    }
    #[derive(Deserialize)]
    struct Token {
        catalog: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        endpoints: Vec<serde::de::IgnoredAny>,
    }
    let document: Document = serde_json::from_slice(body).ok()?;
    let entries = document.token.catalog.into_iter().filter(|entry| !entry.endpoints.is_empty());
    Some(entries.map(|entry| entry.kind).collect_set())
}
