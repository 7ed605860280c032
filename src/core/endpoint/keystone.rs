//! Builds requests for tokens to Keystone (Identity API v3), and reads Keystone's API version and service catalogue
//! from its responses.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde_json::json;

use osdpl_values::Values;

/// The service types, such as `compute`, for which Keystone's service catalogue lists an endpoint.
pub type Types = BTreeSet<String>;

/// The credentials of the cloud's administrator, from the values of Keystone's release.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    user_domain: String,
    project: String,
    project_domain: String,
    password: String,
}

/// Shows the name and domain of the user, but not the password.
impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.user, self.user_domain)
    }
}

impl Login {
    /// Returns the administrator's credentials from the values of Keystone's release (`endpoints.identity.auth.admin`).
    /// Upstream's defaults replace missing names; without a password it returns `None`.
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

    /// Returns the body of the request for a token (`POST /v3/auth/tokens`); it contains the password.
    pub fn body(&self) -> Vec<u8> {
        let Self { user, user_domain, project, project_domain, password } = self;
        let user = json!({"name": user, "domain": {"name": user_domain}, "password": password});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let scope = json!({"project": {"name": project, "domain": {"name": project_domain}}});
        json!({"auth": {"identity": identity, "scope": scope}}).to_string().into_bytes()
    }
}

/// A token of Keystone, which osdpl must never log.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Returns a token with this secret text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the secret text of the token, for the request header `X-Auth-Token`.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Shows the word `token` instead of the secret text.
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

/// Returns the service types that have an endpoint, from the body of Keystone's response to a request for a token;
/// `None` if the body is invalid.
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
    Some(entries.map(|entry| entry.kind).collect())
}
