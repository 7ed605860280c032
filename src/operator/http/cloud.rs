//! The cloud's own APIs, as its administrator.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: when a token expires")]

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::Mutex;

use super::{Http, Reach};
use osdpl_core::endpoint::{Answer, Token, Url};
use osdpl_core::openstack::{Access, Api, Call, Error, Verb, expiry, neutron, nova, said};

/// How long before its end a token is not used any more: it must hold until an answer is there.
const EARLY: Duration = Duration::from_mins(2);

/// How long a token is used whose end is not told: Keystone's shortest are some minutes.
const UNTOLD: Duration = Duration::from_mins(5);

/// How long an answer may take: a list of hundreds of instances, or a change of which nova first tells the compute (`rpc_response_timeout` is
/// 60 s), takes longer than any probe may.
const PATIENCE: Duration = Duration::from_secs(75);

/// HTTP's codes for a token that does not count, and for a version that is not spoken.
const UNAUTHORIZED: u16 = 401;
const NOT_ACCEPTABLE: u16 = 406;

/// In which header a token is sent (Identity API v3).
const TOKEN_HEADER: &str = "X-Auth-Token";

/// What is kept between calls.
struct Session {
    access: Access,
    token: Token,
    until: Timestamp,
    /// Whether Nova speaks the version that is needed.
    versed: bool,
}

/// Speaks to the cloud's APIs; the token is kept until shortly before its end. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Cloud {
    http: Arc<Http>,
    session: Arc<Mutex<Option<Session>>>,
}

impl Cloud {
    /// Through this.
    pub fn new(reach: Reach) -> Self {
        Self { http: Arc::new(Http::patient(reach, PATIENCE)), session: Arc::default() }
    }

    /// What an API answers.
    ///
    /// # Errors
    /// When there is no such API, it can't be reached, gives no token, is too old, or refuses.
    pub async fn call<T>(&self, access: &Access, call: &Call<T>) -> Result<T, Error> {
        let url = access.url(call.api).ok_or(Error::Absent(call.api))?;
        let token = self.token(access, call.api).await?;
        match self.send(url, call, &headers(call.api, &token)).await {
            // Keystone may have forgotten it, or Nova be another one than before.
            Err(Error::Refused { code: UNAUTHORIZED | NOT_ACCEPTABLE, .. }) => {
                self.forget(&token).await;
                let token = self.token(access, call.api).await?;
                self.send(url, call, &headers(call.api, &token)).await
            }
            other => other,
        }
    }

    /// The instances on a host, all pages of them.
    ///
    /// # Errors
    /// As [`Cloud::call`].
    pub async fn servers(&self, access: &Access, host: &str) -> Result<Vec<nova::Server>, Error> {
        let mut page = self.call(access, &nova::servers(host, None)).await?;
        let mut all = Vec::new();
        while let Some(next) = page.next().map(str::to_owned) {
            all.append(&mut page.servers);
            page = self.call(access, &nova::servers(host, Some(&next))).await?;
        }
        all.append(&mut page.servers);
        Ok(all)
    }

    /// The hypervisors that Nova lists, all pages of them.
    ///
    /// # Errors
    /// As [`Cloud::call`].
    pub async fn hypervisors(&self, access: &Access) -> Result<Vec<nova::Hypervisor>, Error> {
        let mut page = self.call(access, &nova::hypervisors(None)).await?;
        let mut all = Vec::new();
        while let Some(next) = page.next().map(str::to_owned) {
            all.append(&mut page.hypervisors);
            page = self.call(access, &nova::hypervisors(Some(&next))).await?;
        }
        all.append(&mut page.hypervisors);
        Ok(all)
    }

    /// Has Neutron and Nova forget a host that is gone, `id` being its nova-compute; returns how many agents Neutron knew of it. Nova goes last, so
    /// that a host of which not all could be forgotten is still found; it refuses by itself where instances are. What is gone already is as
    /// good as forgotten.
    ///
    /// # Errors
    /// As [`Cloud::call`].
    pub async fn forget_host(&self, access: &Access, host: &str, id: &str) -> Result<usize, Error> {
        let done =
            |answer: Result<(), Error>| answer.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) });
        let agents = match self.call(access, &neutron::agents(host)).await {
            Err(Error::Absent(_)) => Vec::new(),
            agents => agents?.agents,
        };
        for agent in &agents {
            done(self.call(access, &neutron::forget(&agent.id)).await)?;
        }
        done(self.call(access, &nova::forget(id)).await)?;
        Ok(agents.len())
    }

    /// A token that counts; for Nova, once it is known to speak what is needed.
    async fn token(&self, access: &Access, api: Api) -> Result<Token, Error> {
        let mut session = self.session.lock().await;
        let counts = |session: &Session| session.access == *access && session.until > Timestamp::now();
        if !session.as_ref().is_some_and(counts) {
            *session = Some(self.log_in(access).await?);
        }
        // It has just been made where there was none.
        let Some(session) = session.as_mut() else { return Err(Error::Absent(api)) };
        if api == Api::Compute && !session.versed {
            let versions = nova::versions();
            let url = access.url(versions.api).ok_or(Error::Absent(api))?;
            self.send(url, &versions, &[(TOKEN_HEADER, session.token.reveal().to_owned())]).await?.suffice()?;
            session.versed = true;
        }
        Ok(session.token.clone())
    }

    async fn forget(&self, token: &Token) {
        let mut session = self.session.lock().await;
        if session.as_ref().is_some_and(|session| session.token == *token) {
            *session = None;
        }
    }

    async fn log_in(&self, access: &Access) -> Result<Session, Error> {
        let path = format!("{}/auth/tokens", access.identity.path.trim_end_matches('/'));
        let url = Url { path, ..access.identity.clone() };
        let what = format!("POST {url}");
        let Some(answer) = self.http.post(&url, access.login.body()).await else { return Err(deaf(what)) };
        match answer {
            Answer::Status { code: 201, body, token: Some(token), .. } => {
                let now = Timestamp::now();
                let until = expiry(&body).map_or(now + UNTOLD, |end| end - EARLY);
                Ok(Session { access: access.clone(), token, until, versed: false })
            }
            Answer::Status { code: 201, .. } => Err(Error::Answer { what, why: "it holds no token".into() }),
            Answer::Status { text, .. } => Err(Error::Login { what, answer: text }),
            other => Err(Error::Unreachable { what, why: other.refused(&[]).unwrap_or_default() }),
        }
    }

    async fn send<T>(&self, url: &Url, call: &Call<T>, headers: &[(&'static str, String)]) -> Result<T, Error> {
        let url = Url { path: call.path.clone(), ..url.clone() };
        let what = format!("{} {url}", call.verb.word());
        let body = call.body.as_ref().map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let Some(answer) = self.http.ask(&url, method(call.verb), headers, body).await else { return Err(deaf(what)) };
        match answer {
            Answer::Status { code: 200..=299, body, .. } => call.read(&body).map_err(|why| Error::Answer { what, why }),
            Answer::Status { code, text, body, .. } => {
                // Whatever stands between may send back what it was sent.
                let secrets = headers.iter().filter(|(name, _)| *name == TOKEN_HEADER).map(|(_, secret)| secret);
                let words = String::from_utf8_lossy(&body).into_owned();
                let quiet = secrets.fold(words, |words, secret| words.replace(secret, "***"));
                Err(Error::Refused { what, code, answer: text, said: said(quiet.as_bytes()) })
            }
            other => Err(Error::Unreachable { what, why: other.refused(&[]).unwrap_or_default() }),
        }
    }
}

fn deaf(what: String) -> Error {
    Error::Unreachable { what, why: "nothing can be connected to".into() }
}

fn method(verb: Verb) -> Method {
    match verb {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
        Verb::Put => Method::PUT,
        Verb::Delete => Method::DELETE,
    }
}

fn headers(api: Api, token: &Token) -> Vec<(&'static str, String)> {
    let mut headers = vec![(TOKEN_HEADER, token.reveal().to_owned())];
    if api == Api::Compute {
        headers.push((nova::VERSION_HEADER, nova::VERSION.to_string()));
    }
    headers
}
