//! Sends requests to the OpenStack APIs of a cloud.

use anyhow::{anyhow, bail};
use hyper::Method;
use kube::Client;
use serde_json::Value;

use super::super::connect::readable;
use super::super::keystone::KeystoneAccess;
use osdpl_client::{Http, TOKEN_HEADER, send_to_service};
use osdpl_core::endpoint::{Interface, ProbeResponse, ServiceCatalog, Token, Url, service_catalog};
use osdpl_core::openstack::error_message;

/// The way to the APIs.
///
/// The hosts of internal endpoints are Services, which only pods can reach, so the API server forwards requests to
/// them. osdpl connects to all other hosts itself.
pub(super) struct Connection {
    pub client: Client,
    pub http: Http,
}

impl Connection {
    async fn send(
        &self,
        url: &Url,
        method: Method,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<ProbeResponse, String> {
        match send_to_service(&self.client, url, method.clone(), headers, body.clone()).await {
            Some(response) => response.map_err(|error| format!("{:#}", readable(error))),
            None => self.http.send(url, method, headers, body).await.ok_or_else(|| {
                format!("osdpl can't connect to {}:{}; check the name, the firewall and the route", url.host, url.port)
            }),
        }
    }
}

/// A request to an OpenStack API.
#[derive(Clone)]
pub(super) struct ApiRequest {
    pub method: Method,
    pub url: Url,
    pub content_type: &'static str,
    pub accept: String,
    pub body: Vec<u8>,
}

/// The response of an OpenStack API.
pub(super) struct Response {
    pub code: u16,
    /// The content of the body: a string if the body is not JSON.
    pub content: Value,
    /// The request and the status code, with the API's message if the API has refused the request.
    pub description: String,
}

impl Response {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether the object of the request does not exist.
    pub(super) fn is_absent(&self) -> bool {
        self.code == 404
    }

    /// Whether a gateway or the API is overloaded or restarts, so that a repeated request may succeed.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self.code, 429 | 502..=504)
    }
}

/// The reason why there is no response of an OpenStack API.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoResponse {
    /// The API server of Kubernetes refuses to forward the request.
    #[error("{0}")]
    Refused(String),
    /// The connection to the API failed. The API may have received the request.
    #[error("{0}")]
    Lost(String),
}

/// The APIs of a cloud, with a token of its administrator.
pub(super) struct OpenStack {
    connection: Connection,
    token: Token,
    catalog: ServiceCatalog,
}

impl OpenStack {
    /// Gets a token and the service catalogue from Keystone.
    pub(super) async fn log_in(
        connection: Connection,
        access: &KeystoneAccess,
        interface: Interface,
    ) -> anyhow::Result<Self> {
        let url = Url {
            path: format!("{}/auth/tokens", access.identity.path.trim_end_matches('/')),
            ..access.identity.clone()
        };
        let what = format!("POST {url}");
        let headers = [("content-type", "application/json".to_owned())];
        let response = connection.send(&url, Method::POST, &headers, access.login.body()).await;
        let response = response.map_err(|why| anyhow!("{what}: {why}"))?;
        let description = describe(&what, &response, access.login.reveal_password());
        match response {
            ProbeResponse::Status { code: 201, body, token: Some(token), .. } => {
                let Some(catalog) = service_catalog(&body, interface, &access.region) else {
                    bail!("{what}: the response has no service catalogue; check which program responds at this URL")
                };
                if catalog.urls.is_empty() {
                    let (interface, region) = (interface.name(), &access.region);
                    bail!(
                        "Keystone's service catalogue has no {interface} endpoints in region {region}; see `openstack endpoint list`, or choose another --interface"
                    )
                }
                Ok(Self { connection, token, catalog })
            }
            ProbeResponse::Status { code: 401, .. } => bail!(
                "{description}; check that Keystone has the password from keystone's values (endpoints.identity.auth.admin)"
            ),
            ProbeResponse::Status { code: 201, .. } => {
                bail!("{what}: the response has no token; check which program responds at this URL")
            }
            ProbeResponse::Status { body, .. } => match by_api_server(&body, &description) {
                Some(error) => bail!(error),
                None => bail!(description),
            },
            _ => bail!(description),
        }
    }

    /// Returns the id of the project in which osdpl works.
    pub(super) fn project(&self) -> &str {
        &self.catalog.project
    }

    /// Returns the number of APIs in the service catalogue.
    pub(super) fn count(&self) -> usize {
        self.catalog.urls.len()
    }

    /// Returns the URL of the first of these API types that the cloud has; `None` if it has none of them.
    pub(super) fn url(&self, types: &[String]) -> Option<&Url> {
        types.iter().find_map(|name| self.catalog.urls.get(name))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Returns an error if there is no response of the API.
    pub(super) async fn send(&self, request: &ApiRequest) -> Result<Response, NoResponse> {
        let ApiRequest { method, url, content_type, accept, body } = request;
        let what = format!("{method} {url}");
        let headers = [
            (TOKEN_HEADER, self.token.reveal().to_owned()),
            ("content-type", (*content_type).to_owned()),
            ("accept", accept.clone()),
        ];
        let response = self.connection.send(url, method.clone(), &headers, body.clone()).await;
        let response = response.map_err(|why| NoResponse::Lost(format!("{what}: {why}")))?;
        let description = describe(&what, &response, self.token.reveal());
        let ProbeResponse::Status { code, body, .. } = response else { return Err(NoResponse::Lost(description)) };
        if let Some(error) = by_api_server(&body, &description) {
            return Err(error);
        }
        let text = masked(&body, self.token.reveal());
        let content = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Response { code, content, description })
    }
}

/// Returns the error if a response is not from an OpenStack API, but from the API server of Kubernetes, which could not
/// forward the request. `description` describes the response.
fn by_api_server(body: &[u8], description: &str) -> Option<NoResponse> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let is_status = status["apiVersion"] == "v1" && status["kind"] == "Status";
    is_status.then(|| match status["code"].as_u64().unwrap_or_default() {
        403 => NoResponse::Refused(format!(
            "{description}; you need the right to use services/proxy with the verbs get, create, update and delete"
        )),
        400..500 => NoResponse::Refused(format!("the Kubernetes API server refused the request: {description}; see `osdpl status`")),
        _ => NoResponse::Lost(format!(
            "the Kubernetes API server could not forward the request: {description}; check the pods and the NetworkPolicies of the OpenStack API"
        )),
    })
}

/// Returns a body as text, with asterisks instead of a secret. A proxy may repeat the headers or the body of a request
/// in its response.
fn masked(body: &[u8], secret: &str) -> String {
    String::from_utf8_lossy(body).replace(secret, "***")
}

/// Describes the response to the request `what`, with asterisks instead of a secret.
fn describe(what: &str, response: &ProbeResponse, secret: &str) -> String {
    let problem = response.problem(&[]).unwrap_or_default();
    let ProbeResponse::Status { body, .. } = response else { return format!("{what}: {problem}") };
    let message = error_message(masked(body, secret).as_bytes());
    format!("{what}: {problem}{}", message.map(|message| format!(": {message}")).unwrap_or_default())
}

/// Returns the URL for a path of an API. `base` is the API's URL in the service catalogue.
///
/// The URL in the catalogue may contain the version and the project (`https://cloud.example.org/volume/v3/PROJECT`).
/// The path begins with the version, so it replaces this part. If `path` is a complete URL from a response of the API,
/// the function uses only the part that begins with the version.
pub(super) fn join(base: &Url, path: &str) -> Url {
    let prefix = version(&base.path).map_or(base.path.as_str(), |at| &base.path[..at]).trim_end_matches('/');
    let path = match Url::parse(path) {
        Some(url) => url.path[version(&url.path).unwrap_or_default()..].to_owned(),
        None => path.to_owned(),
    };
    Url { path: format!("{prefix}{path}"), ..base.clone() }
}

/// Returns the position of the version in a path, such as `/v2.1`.
fn version(path: &str) -> Option<usize> {
    let is_version = |at: &usize| path[at + 2..].starts_with(|letter: char| letter.is_ascii_digit());
    path.match_indices("/v").map(|(at, _)| at).find(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_paths_with_urls_of_the_catalogue() {
        for (base, path, expected) in [
            ("http://glance-api:9292", "/v2/images", "http://glance-api:9292/v2/images"),
            ("http://nova-api:8774/v2.1/", "/v2.1/servers", "http://nova-api:8774/v2.1/servers"),
            (
                "https://cloud.example.org/volume/v3/abc",
                "/v3/abc/volumes",
                "https://cloud.example.org:443/volume/v3/abc/volumes",
            ),
            (
                "http://barbican-api:9311",
                "https://v1.example.org/keys/v1/secrets/a/payload",
                "http://barbican-api:9311/v1/secrets/a/payload",
            ),
            ("http://vitrage:8999/", "/status", "http://vitrage:8999/status"),
        ] {
            assert_eq!(join(&Url::parse(base).unwrap(), path).to_string(), expected);
        }
    }
}
