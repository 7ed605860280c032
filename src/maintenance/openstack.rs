//! Contains a client of the cloud's OpenStack APIs, which logs in as the administrator of the cloud.

#![allow(clippy::disallowed_methods, reason = "uses the clock to renew tokens")]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use osdpl_client::{Http, HttpConfig, TOKEN_HEADER, method};
use osdpl_core::endpoint::{ProbeResponse, Token, Url};
use osdpl_core::openstack::{Access, Api, Call, Error, error_message, neutron, nova, token_expiry};
use tokio::sync::Mutex;

/// The client replaces a token this long before the token expires. So a token that the client sends stays valid until
/// the response arrives.
const RENEW_BEFORE: Duration = Duration::from_mins(2);

/// The time for which the client uses a token if Keystone's response does not say when the token expires.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(5);

/// The time for which the client waits for a response.
///
/// This timeout is longer than the timeout of the probes of endpoints for two reasons: Nova takes long to list hundreds
/// of instances, and it answers some requests only after the compute host has responded (`rpc_response_timeout`, 60 s).
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);

/// The maximum number of pages that the client reads of one list. Without this limit, the client would never finish if
/// a faulty server always announced another page.
const MAX_PAGES: usize = 500;

/// The HTTP status codes with which an API refuses a request: the token is invalid (401), or the API does not support
/// the requested version (406).
const UNAUTHORIZED: u16 = 401;
const NOT_ACCEPTABLE: u16 = 406;

/// A login at Keystone, whose token the client uses for several requests.
struct Session {
    access: Access,
    token: Token,
    until: Timestamp,
    /// Whether Nova has confirmed that it supports the API version that osdpl requires.
    version_checked: bool,
}

/// A client of the cloud's APIs. The client keeps the token until shortly before its expiry. Clones of the client share
/// the token.
#[derive(Clone)]
pub struct OpenStackClient {
    http: Arc<Http>,
    /// The last login; `None` before the first one. Kept because each login creates a token in Keystone. After a
    /// restart of the operator, the client logs in again.
    session: Arc<Mutex<Option<Session>>>,
}

impl OpenStackClient {
    /// Creates a client that has not logged in yet.
    pub fn new(config: HttpConfig) -> Self {
        Self { http: Arc::new(Http::with_response_timeout(config, RESPONSE_TIMEOUT)), session: Arc::default() }
    }

    /// Sends a request to an OpenStack API, and returns the response.
    ///
    /// # Errors
    /// Returns an error if the cloud lacks the API, if the API is unreachable, is too old or refuses the request, or if
    /// Keystone issues no token.
    pub async fn call<T>(&self, access: &Access, call: &Call<T>) -> Result<T, Error> {
        let url = access.url(call.api).ok_or(Error::Absent(call.api))?;
        let token = self.token(access, call.api).await?;
        match self.send(url, call, &headers(call.api, &token)).await {
            // Keystone may have revoked the token, or someone may have upgraded Nova since osdpl checked Nova's
            // version. Log in again, which also repeats the check of the version, and send the request once more.
            Err(Error::Refused { code: UNAUTHORIZED | NOT_ACCEPTABLE, .. }) => {
                self.drop_session(&token).await;
                let token = self.token(access, call.api).await?;
                self.send(url, call, &headers(call.api, &token)).await
            }
            other => other,
        }
    }

    /// Lists all instances on a host, page by page.
    ///
    /// # Errors
    /// Returns an error if the list has more than [`MAX_PAGES`] pages. See also [`OpenStackClient::call`].
    pub async fn servers(&self, access: &Access, host: &str) -> Result<Vec<nova::Server>, Error> {
        let mut page = self.call(access, &nova::servers(host, None)).await?;
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let next = page.next().map(str::to_owned);
            all.append(&mut page.servers);
            let Some(next) = next else { return Ok(all) };
            page = self.call(access, &nova::servers(host, Some(&next))).await?;
        }
        Err(endless("instances"))
    }

    /// Returns the name of any instance in the cloud; `None` if the cloud has no instances.
    ///
    /// # Errors
    /// See [`OpenStackClient::call`].
    pub async fn find_instance(&self, access: &Access) -> Result<Option<String>, Error> {
        let found = self.call(access, &nova::any_server()).await?.servers;
        Ok(found.into_iter().next().map(|server| if server.name.is_empty() { server.id } else { server.name }))
    }

    /// Lists all hypervisors, page by page.
    ///
    /// # Errors
    /// Returns an error if the list has more than [`MAX_PAGES`] pages. See also [`OpenStackClient::call`].
    pub async fn hypervisors(&self, access: &Access) -> Result<Vec<nova::Hypervisor>, Error> {
        let mut page = self.call(access, &nova::hypervisors(None)).await?;
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let next = page.next().map(str::to_owned);
            all.append(&mut page.hypervisors);
            let Some(next) = next else { return Ok(all) };
            page = self.call(access, &nova::hypervisors(Some(&next))).await?;
        }
        Err(endless("hypervisors"))
    }

    /// Deletes a host from Neutron and Nova; returns the number of Neutron agents that the host had.
    ///
    /// `id` is the id of the host's nova-compute service. The function deletes this service last: if the deletion of
    /// another object fails, Nova still lists the host, so the caller can retry. Nova refuses to delete the service
    /// while the host has instances. If an object is already deleted, the function continues.
    ///
    /// # Errors
    /// See [`OpenStackClient::call`].
    pub async fn delete_host(&self, access: &Access, host: &str, id: &str) -> Result<usize, Error> {
        let ignore_not_found = |response: Result<(), Error>| {
            response.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
        };
        let agents = match self.call(access, &neutron::agents(host)).await {
            Err(Error::Absent(_)) => Vec::new(),
            agents => agents?.agents,
        };
        for agent in &agents {
            ignore_not_found(self.call(access, &neutron::delete_agent(&agent.id)).await)?;
        }
        ignore_not_found(self.call(access, &nova::delete_service(id)).await)?;
        Ok(agents.len())
    }

    /// Returns a valid token; logs in if the client has none.
    ///
    /// For a request to Nova, the function also checks, once per login, whether Nova supports the API version that
    /// osdpl requires.
    async fn token(&self, access: &Access, api: Api) -> Result<Token, Error> {
        let mut session = self.session.lock().await;
        let is_valid = |session: &Session| session.access == *access && session.until > Timestamp::now();
        if !session.as_ref().is_some_and(is_valid) {
            *session = Some(self.log_in(access).await?);
        }
        // This branch is never taken, because the lines above create a session if there is none.
        let Some(session) = session.as_mut() else { return Err(Error::Absent(api)) };
        if api == Api::Compute && !session.version_checked {
            let versions = nova::versions();
            let url = access.url(versions.api).ok_or(Error::Absent(api))?;
            self.send(url, &versions, &[(TOKEN_HEADER, session.token.reveal().to_owned())]).await?.check()?;
            session.version_checked = true;
        }
        Ok(session.token.clone())
    }

    async fn drop_session(&self, token: &Token) {
        let mut session = self.session.lock().await;
        if session.as_ref().is_some_and(|session| session.token == *token) {
            *session = None;
        }
    }

    async fn log_in(&self, access: &Access) -> Result<Session, Error> {
        let path = format!("{}/auth/tokens", access.identity.path.trim_end_matches('/'));
        let url = Url { path, ..access.identity.clone() };
        let what = format!("POST {url}");
        let Some(response) = self.http.post(&url, access.login.body()).await else { return Err(unreachable(what)) };
        match response {
            ProbeResponse::Status { code: 201, body, token: Some(token), .. } => {
                let now = Timestamp::now();
                let until = token_expiry(&body).map_or(now + DEFAULT_LIFETIME, |end| end - RENEW_BEFORE);
                Ok(Session { access: access.clone(), token, until, version_checked: false })
            }
            ProbeResponse::Status { code: 201, .. } => {
                Err(Error::InvalidResponse { what, why: "it contains no token".into() })
            }
            ProbeResponse::Status { text, .. } => Err(Error::Login { what, status: text }),
            other => Err(Error::Unreachable { what, why: other.problem(&[]).unwrap_or_default() }),
        }
    }

    async fn send<T>(&self, url: &Url, call: &Call<T>, headers: &[(&'static str, String)]) -> Result<T, Error> {
        let url = Url { path: call.path.clone(), ..url.clone() };
        let what = format!("{} {url}", call.verb.as_str());
        let body = call.body.as_ref().map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let Some(response) = self.http.send(&url, method(call.verb), headers, body).await else {
            return Err(unreachable(what));
        };
        match response {
            ProbeResponse::Status { code: 200..=299, body, .. } => {
                call.read(&body).map_err(|why| Error::InvalidResponse { what, why })
            }
            ProbeResponse::Status { code, text, body, .. } => {
                // A proxy may repeat the request headers in the body of its response, and the body becomes part of an
                // error message. So replace the token in the body with asterisks.
                let secrets = headers.iter().filter(|(name, _)| *name == TOKEN_HEADER).map(|(_, secret)| secret);
                let body_text = String::from_utf8_lossy(&body).into_owned();
                let redacted = secrets.fold(body_text, |text, secret| text.replace(secret, "***"));
                Err(Error::Refused { what, code, status: text, message: error_message(redacted.as_bytes()) })
            }
            other => Err(Error::Unreachable { what, why: other.problem(&[]).unwrap_or_default() }),
        }
    }
}

fn endless(objects: &str) -> Error {
    Error::InvalidResponse { what: format!("GET Nova's {objects}"), why: format!("it has more than {MAX_PAGES} pages") }
}

fn unreachable(what: String) -> Error {
    Error::Unreachable { what, why: "connection failed".into() }
}

fn headers(api: Api, token: &Token) -> Vec<(&'static str, String)> {
    let mut headers = vec![(TOKEN_HEADER, token.reveal().to_owned())];
    if api == Api::Compute {
        headers.push((nova::VERSION_HEADER, nova::VERSION.to_string()));
    }
    headers
}
